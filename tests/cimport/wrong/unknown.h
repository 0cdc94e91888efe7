#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n,
       int64_t stride); /* error E0909 `stride`: no input, attribute or size of `f` is called `stride` | DDP_SIZE(expression) says what a size is */
