#include <ddp/op.h>

DDP_OP(f(x: [B, N]) -> [B, N])
DDP_BODY(x * beta) /* error E0301 `beta`: unknown name `beta` */
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n);
