#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
void f(DDP_OUT
       double *y, /* error E0909 `y`: the result is [B, N]: expected `float *`, here stands `double *` */
       const float *x, int64_t b, int64_t n);
