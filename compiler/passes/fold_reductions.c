/* Folding of reductions: over nothing, over dims of size 1, of one number. */
#include "folding.h"

static const Value *at(const Fold *f, Val v) {
  return value_at(f->to, v);
}

/* Product of the reduced sizes; false: not linear in B. */
static bool reduced_count(const Fold *f, const Value *x, Dim *n) {
  Type t = at(f, x->in[0])->type;
  *n = dim_of(1);
  for (int i = 0; i < x->attr[0].as.ints.len; i++)
    if (!dim_mul(*n, t.dim[x->attr[0].as.ints.at[i]], n)) return false;
  return true;
}

/* Only dims of size 1 are reduced: a reshape, in the dtype of the result. */
static Val over_one(Fold *f, Val v) {
  const Value x = *at(f, v);
  Type t = x.type;
  Dim n;
  if (!reduced_count(f, &x, &n) || !dim_is(n, 1)) return NO_VAL;
  t.dtype = at(f, x.in[0])->type.dtype;
  Val r = fold_reshape(f, x.in[0], t, v);
  Attr attrs[IR_MAX_ATTRS] = {{.as.i = x.type.dtype}};
  return fold_add(f, OP_cast, &r, 1, attrs, v);
}

/* The sum of n equal numbers; n may depend on the batch. */
static Val sum_uniform(Fold *f, Val v) {
  const Value x = *at(f, v);
  Dim n;
  double c;
  if (!fold_uniform(f, x.in[0], &c) || !reduced_count(f, &x, &n)) return NO_VAL;
  if (dim_known(n)) return fold_full(f, c * (double)n.fixed, x.type, v);
  Attr size[IR_MAX_ATTRS] = {{.as.dims = {1, {n}}}};
  Attr dtype[IR_MAX_ATTRS] = {{.as.i = x.type.dtype}};
  Val count = ir_must(f->to, OP_dimval, NULL, 0, size, x.at, x.scope);
  count = fold_add(f, OP_cast, &count, 1, dtype, v);
  Val in[2] = {count, ir_const(f->to, c, x.type.dtype, x.at, x.scope)};
  return fold_broadcast(f, fold_add(f, OP_mul, in, 2, NULL, v), x.type, v);
}

/* sum(-x) = -sum(x) */
static Val sum_negated(Fold *f, Val v) {
  const Value *x = at(f, v), *inner = at(f, x->in[0]);
  if (inner->op != OP_neg || inner->type.dtype != x->type.dtype) return NO_VAL;
  Val sum = fold_add(f, OP_sum, inner->in, 1, x->attr, v);
  return fold_add(f, OP_neg, &sum, 1, NULL, v);
}

/* Is v the numbers 0, 1, ... along this axis of a tensor of that rank, and size 1 elsewhere? */
static bool counts_along(const Fold *f, Val v, int rank, int axis) {
  const Value *x = at(f, v);
  int own = axis - (rank - x->type.rank);
  if (own < 0 || own >= x->type.rank) return false;
  for (int i = 0; i < x->type.rank; i++)
    if (i != own && !dim_is(x->type.dim[i], 1)) return false;
  return x->op == OP_arange || (x->op == OP_reshape && at(f, x->in[0])->op == OP_arange);
}

/* Size 1 along this axis of a tensor of that rank? */
static bool single_along(const Fold *f, Val v, int rank, int axis) {
  Type t = at(f, v)->type;
  int own = axis - (rank - t.rank);
  return own < 0 || dim_is(t.dim[own], 1);
}

/* sum over c of where(index == c, x, 0), c = 0, 1, ..., is x if the index is known to be one of them:
   the gradient of a gather, summed. */
static Val sum_one_hot(Fold *f, Val v) {
  const Value y = *at(f, v), w = *at(f, y.in[0]);
  if (y.attr[0].as.ints.len != 1 || w.op != OP_where || !fold_uniform_is(f, w.in[2], 0))
    return NO_VAL;
  const Value eq = *at(f, w.in[0]);
  int rank = w.type.rank, axis = (int)y.attr[0].as.ints.at[0];
  if (eq.op != OP_eq || !single_along(f, w.in[1], rank, axis)) return NO_VAL;
  for (int side = 0; side < 2; side++) {
    Range index;
    Val numbers = eq.in[side], i = eq.in[1 - side];
    if (!counts_along(f, numbers, rank, axis) || !single_along(f, i, rank, axis)) continue;
    if (!fold_range(f, i, &index) || index.low < 0) continue;
    if (!dim_known(w.type.dim[axis]) || index.high >= (double)w.type.dim[axis].fixed) continue;
    Type kept = w.type;
    kept.dim[axis] = dim_of(1);
    Val x = fold_broadcast(f, w.in[1], kept, v);
    return x ? fold_reshape(f, x, y.type, v) : NO_VAL;
  }
  return NO_VAL;
}

static Val same_uniform(Fold *f, Val v) {
  const Value *x = at(f, v);
  double c;
  return fold_uniform(f, x->in[0], &c) ? fold_full(f, c, x->type, v) : NO_VAL;
}

static Val argmax_over_one(Fold *f, Val v) {
  const Value *x = at(f, v);
  Dim n;
  if (!reduced_count(f, x, &n) || !dim_is(n, 1)) return NO_VAL;
  return fold_full(f, 0, x->type, v);
}

static Val known_size(Fold *f, Val v) {
  const Value *x = at(f, v);
  Dim n = x->attr[0].as.dims.at[0];
  return dim_known(n) ? fold_full(f, (double)n.fixed, x->type, v) : NO_VAL;
}

const FoldRule fold_reductions[] = {
    {OP_sum, sum_uniform},        {OP_sum, over_one},      {OP_sum, sum_negated},
    {OP_sum, sum_one_hot},        {OP_amax, same_uniform}, {OP_amax, over_one},
    {OP_amin, same_uniform},      {OP_amin, over_one},     {OP_any, same_uniform},
    {OP_any, over_one},           {OP_all, same_uniform},  {OP_all, over_one},
    {OP_argmax, argmax_over_one}, {OP_dimval, known_size}, {OP_none, NULL},
};
