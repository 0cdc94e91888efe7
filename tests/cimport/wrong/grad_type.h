#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
DDP_GRAD(x = sum(g, -1)) /* error E0909 `sum(g, -1)`: the gradient of `x`: expected f32[B,4], here stands f32[B] */
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n);
