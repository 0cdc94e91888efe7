/* The three ops of convolution as one thing: a small side (one element for each place of the filter), a
   big side (what the filter lies over), a filter [small, big / groups, kernel..]. conv computes the small
   side from the big one, conv_transpose the big one from the small, conv_filter the filter from both. */
#ifndef OPS_CONV_H
#define OPS_CONV_H
#include "ir.h"

enum { CONV_MAX_SPACE = 3 };
/* block = 1: [batch, channels, space..]; else [batch, channels / block, space.., block]. */
typedef struct ConvSide {
  int64_t channels, block, size[CONV_MAX_SPACE];
} ConvSide;
typedef struct ConvShape {
  int space;
  Dim batch;
  int64_t groups;
  ConvSide big, small;
  int64_t kernel[CONV_MAX_SPACE], stride[CONV_MAX_SPACE], padding[CONV_MAX_SPACE],
      dilation[CONV_MAX_SPACE];
} ConvShape;

bool conv_is(OpKind op);
/* Of a value of one of the three whose type is inferred. */
ConvShape conv_shape(const Graph *g, const Value *v);
#endif
