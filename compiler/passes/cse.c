/* pass_cse: of values with the same op, inputs and attributes only the first stays. Draws are never
   merged: each is its own, and those of one stream already name the same numbers. */
#include "passes.h"
#include "rewrite.h"

/* What is hashed has no padding and no bytes beyond the length of a list. */
static uint64_t value_hash(const Value *x, const Val *in) {
  const OpDef *d = op_def(x->op);
  uint64_t h = text_hash(in, sizeof *in * x->inputs, x->op);
  for (int k = 0; k < d->attrs; k++) {
    const Attr *a = &x->attr[k];
    if (d->attr[k].kind == ATTR_dims)
      h = text_hash(a->as.dims.at, sizeof(Dim) * (size_t)a->as.dims.len, h);
    else if (d->attr[k].kind == ATTR_axes || d->attr[k].kind == ATTR_ints)
      h = text_hash(a->as.ints.at, sizeof(int64_t) * (size_t)a->as.ints.len, h);
    else
      h = text_hash(&a->as.i, sizeof a->as.i, h);
  }
  return h;
}

static bool value_same(const Value *x, const Val *in, const Value *y) {
  if (x->op != y->op || x->inputs != y->inputs || x->region != y->region) return false;
  if (memcmp(in, y->in, sizeof *in * x->inputs) != 0) return false;
  for (int k = 0; k < op_def(x->op)->attrs; k++)
    if (!rewrite_attr_equal(x->op, k, &x->attr[k], &y->attr[k])) return false;
  return true;
}

static void inputs_in_order(const Value *x, const Val *map, Val *in) {
  for (int i = 0; i < x->inputs; i++) in[i] = map[x->in[i]];
  if (!op_has(x->op, OPF_commutative) || in[0] < in[1]) return;
  Val first = in[0];
  in[0] = in[1];
  in[1] = first;
}

static Graph *cse_body(Graph *body, const void *with) {
  (void)with;
  return pass_cse(body);
}

Graph *pass_cse(Graph *g) {
  Rewrite r = rewrite_begin(g);
  uint32_t cap = 64;
  while (cap < 2 * g->values.len) cap *= 2;
  Val *table = ARENA_ARRAY(g->arena, Val, cap); /* open addressing over values of the new graph */
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    Val in[IR_MAX_INPUTS] = {0};
    inputs_in_order(x, r.map, in);
    uint32_t at = (uint32_t)value_hash(x, in) & (cap - 1);
    bool merge = !op_has(x->op, OPF_random);
    while (merge && table[at] && !value_same(x, in, value_at(r.to, table[at])))
      at = (at + 1) & (cap - 1);
    if (merge && table[at]) {
      r.map[v] = table[at];
      continue;
    }
    r.map[v] = ir_copy(r.to, g, v, r.map);
    rewrite_body(r.to, r.map[v], cse_body, NULL);
    if (!merge) continue;
    memcpy(value_at(r.to, r.map[v])->in, in, sizeof in); /* so that a + b and b + a meet */
    table[at] = r.map[v];
  }
  return rewrite_end(&r);
}
