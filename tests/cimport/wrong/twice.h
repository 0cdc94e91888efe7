#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
void f(DDP_OUT float *y, const float *x, DDP_IN(x)
       const float *z, /* error E0909 `z`: `x` is passed twice */
       int64_t b, int64_t n);
