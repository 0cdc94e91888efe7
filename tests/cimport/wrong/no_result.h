#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
void f(const float *x, int64_t b, int64_t n); /* error E0909 `f`: no parameter of `f` is marked with DDP_OUT */
