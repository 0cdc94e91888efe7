#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
DDP_GRAD(z = g) /* error E0909 `z`: expected `INPUT = gradient` with an input of `f` */
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n);
