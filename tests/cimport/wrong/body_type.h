#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
DDP_BODY(sum(x, -1)) /* error E0518 `sum(x, -1)`: `f` returns tensor f32[B]; it is declared as `[B, N]` */
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n);
