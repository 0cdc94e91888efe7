/* What library ops do with samples that lie one behind the other: whether the same call on some of them
   computes some of the result, or a part of a sum. For work that is done in chunks of a batch. */
#include "ops.h"

/* Its first dimension counts samples, and no other does. */
static bool leads(Type t) {
  bool leads = t.rank > 0 && t.dim[0].per_batch > 0 && t.dim[0].fixed == 0;
  for (int i = 1; i < t.rank; i++) leads = leads && dim_known(t.dim[i]);
  return leads;
}

static bool known(Type t) {
  for (int i = 0; i < t.rank; i++)
    if (!dim_known(t.dim[i])) return false;
  return true;
}

static OpSamples product(const Value *v, Type a, Type b) {
  bool ta = v->attr[op_attr(OP_matmul, "ta")].as.i, tb = v->attr[op_attr(OP_matmul, "tb")].as.i;
  Type y = v->type;
  if (b.rank == 2 && (!ta || a.rank == 2)) { /* one product of matrices */
    if (!ta && leads(a) && known(b)) return SAMPLES_apart;
    return ta && !tb && leads(a) && leads(b) && known(y) ? SAMPLES_summed : SAMPLES_mixed;
  }
  bool each = y.rank > 2 && leads(y); /* a product for each sample */
  const Type in[] = {a, b};
  for (int i = 0; i < 2; i++)
    each = each && (known(in[i]) || (in[i].rank == y.rank && leads(in[i])));
  return each ? SAMPLES_apart : SAMPLES_mixed;
}

OpSamples op_samples(const Graph *g, const Value *v) {
  Type in[3] = {{.rank = 0}};
  for (int i = 0; i < v->inputs && i < 3; i++) in[i] = value_at(g, v->in[i])->type;
  switch (v->op) {
  case OP_matmul:
    return product(v, in[0], in[1]);
  case OP_matmul_bias:
    return leads(in[0]) && known(in[1]) && known(in[2]) ? SAMPLES_apart : SAMPLES_mixed;
  default:
    return SAMPLES_mixed;
  }
}
