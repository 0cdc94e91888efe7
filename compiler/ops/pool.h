/* What the four ops of pooling share: windows over some dimensions of a tensor [outer, in.., inner]. */
#ifndef OPS_POOL_H
#define OPS_POOL_H
#include "ir.h"

enum { POOL_MAX_SPACE = 3 };
typedef enum PoolDivide {
  POOL_sum,    /* not at all */
  POOL_padded, /* by the places of the window, padding included */
  POOL_valid,  /* by those that lie in the tensor */
} PoolDivide;
typedef struct PoolShape {
  int space;
  Dim outer;
  int64_t inner, in[POOL_MAX_SPACE], out[POOL_MAX_SPACE];
  int64_t window[POOL_MAX_SPACE], stride[POOL_MAX_SPACE], padding[POOL_MAX_SPACE],
      dilation[POOL_MAX_SPACE];
  bool adaptive; /* window i of n: from floor(i * in / n) to ceil((i + 1) * in / n) */
  PoolDivide divide;
} PoolShape;

bool pool_is(OpKind op);
/* Of a value of one of the four whose type is inferred. */
PoolShape pool_shape(const Graph *g, const Value *v);
#endif
