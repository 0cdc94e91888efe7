#include <ddp/op.h>

DDP_OP(f(x: [B, N], z: [B, N]) -> [B, N])
void f(DDP_OUT float *y, const float *z,
       const float *x, /* error E0909 `x`: `x` comes before `z` in DDP_OP | parameters have the order of the annotation */
       int64_t b, int64_t n);
