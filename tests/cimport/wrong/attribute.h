#include <ddp/op.h>

DDP_OP(f(x: [B, N], k: int = 3) -> [B, N])
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n,
       DDP_ATTR() float k); /* error E0909 `k`: attribute `k` is int: expected `int64_t`, here stands `float` */
