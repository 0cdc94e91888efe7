/* Between passes: walking an old graph into a new one. */
#ifndef PASSES_REWRITE_H
#define PASSES_REWRITE_H
#include "ops.h"

/* New graph with the scopes of the old one, and a map from old values to new ones, all NO_VAL. */
typedef struct Rewrite {
  const Graph *from;
  Graph *to;
  Val *map;
} Rewrite;
Rewrite rewrite_begin(const Graph *g);
/* Outputs of the old graph, mapped; the new graph is complete. */
Graph *rewrite_end(Rewrite *r);

/* v of `to` is a copy that shares its attributes: if it is a loop, its body becomes what `pass` makes of
   it. A body is a graph like any other, so that every pass on graphs is a pass on bodies. */
typedef Graph *BodyPass(Graph *body, const void *with);
void rewrite_body(Graph *to, Val v, BodyPass *pass, const void *with);

/* Same values of attributes k of op? */
bool rewrite_attr_equal(OpKind op, int k, const Attr *a, const Attr *b);
#endif
