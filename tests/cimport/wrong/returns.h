#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
int f(DDP_OUT float *y, const float *x, int64_t b, int64_t n); /* error E0909 `f`: `f` must return void; its result goes to DDP_OUT */
