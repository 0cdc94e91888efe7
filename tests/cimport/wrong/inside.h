#include <ddp/op.h>
#define OPERATOR(name) DDP_OP(name(x: [B, N]) -> [B, N])

OPERATOR(f) /* error E0909 `OPERATOR`: expected `DDP_OP(...)` itself at this place | an annotation inside of another macro cannot be read */
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n);
