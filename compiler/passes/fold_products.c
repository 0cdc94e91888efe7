/* Folding of matrix products: a transposed operand is a flag of the product. */
#include "folding.h"

static const Value *at(const Fold *f, Val v) {
  return value_at(f->to, v);
}

/* Does this permute exchange the last two dims and nothing else? */
static bool is_transpose(const Value *x) {
  int n = x->type.rank;
  if (x->op != OP_permute || n < 2) return false;
  for (int i = 0; i < n - 2; i++)
    if (x->attr[0].as.ints.at[i] != i) return false;
  return x->attr[0].as.ints.at[n - 2] == n - 1;
}

static Val transposed_operand(Fold *f, Val v) {
  const Value *x = at(f, v);
  Val in[2];
  Attr attrs[IR_MAX_ATTRS] = {x->attr[0], x->attr[1], x->attr[2]};
  bool changed = false;
  for (int i = 0; i < 2; i++) {
    const Value *from = at(f, x->in[i]);
    bool t = is_transpose(from);
    in[i] = t ? from->in[0] : x->in[i];
    attrs[i].as.i ^= t;
    changed = changed || t;
  }
  return changed ? fold_add(f, OP_matmul, in, 2, attrs, v) : NO_VAL;
}

/* (A B)^T = B^T A^T; if the product is read elsewhere too, cse cannot join the two, so this is for
   products made for this transpose alone, as gradients of weights are. */
static Val transposed_result(Fold *f, Val v) {
  const Value *x = at(f, v), *product = at(f, x->in[0]);
  if (!is_transpose(x) || product->op != OP_matmul) return NO_VAL;
  if (x->type.rank != at(f, product->in[0])->type.rank ||
      x->type.rank != at(f, product->in[1])->type.rank)
    return NO_VAL;
  if (fold_uses(f, x->in[0]) != 1) return NO_VAL;
  Val in[2] = {product->in[1], product->in[0]};
  Attr attrs[IR_MAX_ATTRS] = {
      {.as.i = !product->attr[1].as.i}, {.as.i = !product->attr[0].as.i}, product->attr[2]};
  return fold_add(f, OP_matmul, in, 2, attrs, v);
}

const FoldRule fold_products[] = {
    {OP_matmul, transposed_operand},
    {OP_permute, transposed_result},
    {OP_none, NULL},
};
