/* Folding of views: those that move nothing, views of views, views of one number. */
#include "folding.h"

static const Value *at(const Fold *f, Val v) {
  return value_at(f->to, v);
}

/* The value of rank 0 that v is a view of, or NO_VAL. */
static Val scalar_of(const Fold *f, Val v) {
  const Value *x = at(f, v);
  while (op_has(x->op, OPF_view) && x->op != OP_pad && x->inputs == 1) {
    v = x->in[0];
    x = at(f, v);
  }
  return x->type.rank == 0 ? v : NO_VAL;
}

/* A view of one number in many places is that number in other places. */
static Val of_scalar(Fold *f, Val v) {
  const Value *x = at(f, v);
  Val scalar = scalar_of(f, v);
  if (!scalar || (x->op == OP_expand && x->in[0] == scalar)) return NO_VAL;
  return fold_broadcast(f, scalar, x->type, v);
}

/* Same type in and out: only for ops whose type tells that nothing moved. */
static Val same_type(Fold *f, Val v) {
  const Value *x = at(f, v);
  return type_equal(at(f, x->in[0])->type, x->type) ? x->in[0] : NO_VAL;
}

static Val reshape_twice(Fold *f, Val v) {
  const Value *x = at(f, v), *inner = at(f, x->in[0]);
  return inner->op == OP_reshape ? fold_reshape(f, inner->in[0], x->type, v) : NO_VAL;
}

static Val permute_rule(Fold *f, Val v) {
  const Value *x = at(f, v), *inner = at(f, x->in[0]);
  Attr attrs[IR_MAX_ATTRS] = {x->attr[0]};
  bool identity = true;
  for (int i = 0; i < x->type.rank; i++) identity = identity && attrs[0].as.ints.at[i] == i;
  if (identity) return x->in[0];
  if (inner->op != OP_permute) return NO_VAL;
  for (int i = 0; i < x->type.rank; i++)
    attrs[0].as.ints.at[i] = inner->attr[0].as.ints.at[x->attr[0].as.ints.at[i]];
  return fold_add(f, OP_permute, inner->in, 1, attrs, v);
}

/* expand(expand(x)): dims that either puts in are put in. */
static Val expand_twice(Fold *f, Val v) {
  const Value *x = at(f, v), *inner = at(f, x->in[0]);
  if (inner->op != OP_expand) return NO_VAL;
  Attr attrs[IR_MAX_ATTRS] = {x->attr[0], {.as.ints.len = 0}};
  int *n = &attrs[1].as.ints.len;
  for (int i = 0, k = 0, j = 0; i < x->type.rank; i++) { /* k: dim of inner; j: in the list of x */
    bool outer = j < x->attr[1].as.ints.len && x->attr[1].as.ints.at[j] == i;
    bool put_in = outer;
    for (int m = 0; !outer && m < inner->attr[1].as.ints.len; m++)
      put_in = put_in || inner->attr[1].as.ints.at[m] == k;
    if (put_in) attrs[1].as.ints.at[(*n)++] = i;
    j += outer;
    k += !outer;
  }
  return fold_add(f, OP_expand, inner->in, 1, attrs, v);
}

static Val flip_rule(Fold *f, Val v) {
  const Value *x = at(f, v);
  return x->attr[0].as.ints.len == 0 ? x->in[0] : NO_VAL;
}

static Val concat_one(Fold *f, Val v) {
  const Value *x = at(f, v);
  return x->inputs == 1 ? x->in[0] : NO_VAL;
}

const FoldRule fold_movement[] = {
    {OP_reshape, of_scalar},     {OP_permute, of_scalar},    {OP_expand, of_scalar},
    {OP_slice, of_scalar},       {OP_flip, of_scalar},       {OP_reshape, same_type},
    {OP_expand, same_type},      {OP_slice, same_type},      {OP_pad, same_type},
    {OP_reshape, reshape_twice}, {OP_permute, permute_rule}, {OP_expand, expand_twice},
    {OP_flip, flip_rule},        {OP_concat, concat_one},    {OP_none, NULL},
};
