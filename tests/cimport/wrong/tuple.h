#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> ([B, N], [B])) /* error E0909 `f(x: [B, N]) -> ([B, N], [B])`: expected `name(inputs and attributes) -> type` of one tensor */
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n);
