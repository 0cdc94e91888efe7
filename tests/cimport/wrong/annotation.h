#include <ddp/op.h>

DDP_OP(f(x: [B, N]; by: float) -> [B, N]) /* error E0201 `;`: unexpected `;`: expected `)`, `,` or `=` here */
void f(DDP_OUT float *y, const float *x, int64_t b, int64_t n, float by);
