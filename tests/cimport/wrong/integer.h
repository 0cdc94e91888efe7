/* call: ops.f(x, cast(arange(4), int32)) */
#include <ddp/op.h>

DDP_OP(f(x: [B, N], at: int32[N]) -> [B, N])
void f(DDP_OUT float *y, const float *x,
       const int64_t *at, /* error E0909 `at`: input `at` is int32[N]: expected `const int32_t *`, here stands `const int64_t *` */
       int64_t b, int64_t n);
