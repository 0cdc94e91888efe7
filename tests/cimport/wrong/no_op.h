#include <ddp/op.h>

DDP_GRAD(x = g)
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n); /* error E0909 `f`: `f` has annotations but no DDP_OP */
