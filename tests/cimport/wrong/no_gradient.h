/* job: error E0910 `ops.f(x)`: `f` has no gradient for `x`, and the loss depends on it | add one of them to the header, or `detach` the argument */
#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n);
