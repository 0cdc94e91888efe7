#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
void f(DDP_OUT float *y const float *x, int64_t b, int64_t n); /* error E0908 `const`: expected ')' */
