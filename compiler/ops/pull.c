/* nest_pull: the scalar of a graph value at an index. It asks the op table, so it lives above ir.
   In memory or kept by an earlier stage: read. Otherwise the op lowers itself (movement, sources,
   indexing), and elementwise ops pull their inputs, broadcast and converted as their type rule
   says. */
#include "die.h"
#include "family.h"

static NestTemp pull_elementwise(Nest *n, Val v, const NestIndex *index) {
  const Value x = *value_at(n->g, v);
  DType t = elementwise_compute_type(n->g, &x);
  bool identity = op_has(x.op, OPF_integral) && dtype_category(t) != 'f';
  NestTemp in[3] = {0};
  check(x.inputs <= 3, "%s: an elementwise op of %d inputs", op_def(x.op)->name, x.inputs);
  for (int i = 0; i < x.inputs; i++) {
    Type from = value_at(n->g, x.in[i])->type;
    NestIndex at[IR_MAX_RANK];
    for (int d = 0; d < from.rank; d++) {
      int of = d + x.type.rank - from.rank;
      at[d] = dim_is(from.dim[d], 1) ? nest_ix_const(n, dim_of(0)) : index[of];
    }
    in[i] = nest_pull(n, x.in[i], at);
    bool condition = x.op == OP_where && i == 0;
    if (!condition) in[i] = nest_cast(n, in[i], t);
  }
  if (identity || x.op == OP_detach) return in[0];
  if (x.op == OP_where) return nest_select(n, in[0], in[1], in[2]);
  return nest_op(n, x.op, x.type.dtype, in[0], in[1], in[2]);
}

NestTemp nest_pull(Nest *n, Val v, const NestIndex *index) {
  NestTemp t = nest_pulled(n, v, index);
  if (t) return t;
  const Value *x = value_at(n->g, v);
  const OpDef *def = op_def(x->op);
  if (n->row_value) t = n->row_value(n, v, index);
  if (!t && n->in_memory(n, v)) t = nest_load(n, v, nest_ix_flat(n, x->type, index));
  if (!t && def->lower) t = def->lower(n, v, index);
  if (!t) {
    check(op_has(x->op, OPF_elementwise), "%s (%%%u) has to be in memory", def->name, v);
    t = pull_elementwise(n, v, index);
  }
  nest_keep_pulled(n, v, index, t);
  return t;
}
