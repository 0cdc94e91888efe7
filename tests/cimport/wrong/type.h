#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
void f(DDP_OUT float *y, int64_t b,
       const double *x, /* error E0909 `x`: input `x` is [B, N]: expected `const float *`, here stands `const double *` */
       int64_t n);
