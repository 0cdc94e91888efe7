/* Inside pass_fold: the rules and what they share. A rule looks at a value that stands in the new
   graph already and returns what it is equal to, or NO_VAL. What a rule returns has the same type;
   the value that it replaces is left to dce. */
#ifndef PASSES_FOLDING_H
#define PASSES_FOLDING_H
#include "job.h"
#include "ops.h"

typedef struct Fold {
  Graph *to;
  const Job *job;     /* or NULL: nothing is known of fields */
  VEC(uint32_t) uses; /* of new values, in the old graph; as far as they stand for old ones */
} Fold;

typedef struct FoldRule {
  OpKind op;
  Val (*apply)(Fold *f, Val v);
} FoldRule;
/* Ended by an entry of OP_none. */
extern const FoldRule fold_arithmetic[], fold_movement[], fold_reductions[], fold_products[],
    fold_scan[];

/* Appends an op (place and scope of `like`) and folds it in turn. */
Val fold_add(Fold *f, OpKind op, const Val *in, int n, const Attr *attrs, Val like);
/* A tensor of one number: a constant, expanded unless the rank is 0. */
Val fold_full(Fold *f, double c, Type t, Val like);
/* v in this shape, broadcast if need be; NO_VAL if the dtypes differ. */
Val fold_broadcast(Fold *f, Val v, Type t, Val like);
Val fold_reshape(Fold *f, Val v, Type t, Val like);
Attr fold_shape(Type t); /* sizes as an attribute */
/* How often the old graph reads what v stands for; 0 for what a rule has just made. */
uint32_t fold_uses(const Fold *f, Val v);
static inline bool fold_uniform(const Fold *f, Val v, double *c) {
  return ir_is_uniform(f->to, v, c);
}
static inline bool fold_uniform_is(const Fold *f, Val v, double c) {
  double is;
  return ir_is_uniform(f->to, v, &is) && is == c;
}

/* low <= every element <= high; integers and bool only. */
typedef struct Range {
  double low, high;
} Range;
bool fold_range(const Fold *f, Val v, Range *out);
#endif
