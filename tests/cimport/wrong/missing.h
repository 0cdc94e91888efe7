#include <ddp/op.h>

DDP_OP(f(x: [B, N],
         by: float) /* error E0909 `by: float`: the C function `f` takes no `by` */
       -> [B, N])
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n);
