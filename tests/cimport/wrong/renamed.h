#include <ddp/op.h>

DDP_OP(f(value: [B, N]) -> [B, N])
void f(DDP_OUT float *y,
       DDP_IN(valeu) const float *x, /* error E0909 `valeu`: no input, attribute or size of `f` is called `valeu` | did you mean `value`? */
       int64_t b, int64_t n);
