#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
void f(DDP_OUT float *y, const float *x,
       int b, /* error E0909 `b`: `b` is a size: expected `int64_t`, here stands `int` */
       int64_t n);
