/* Floating-point operations of a value, for estimates and reports: what its family says; else one for
   each element that an elementwise op makes or a reduction reads. A fused multiply-add is two; exp,
   tanh and the like count as one. */
#include "ops.h"

double op_flops(const Graph *g, Val v, int64_t batch) {
  const Value *x = value_at(g, v);
  const OpDef *d = op_def(x->op);
  if (d->flops) return d->flops(g, x, batch);
  if (op_has(x->op, OPF_view) || op_has(x->op, OPF_source) || op_has(x->op, OPF_library)) return 0;
  bool reads = op_has(x->op, OPF_reduce) && x->inputs;
  return (double)type_elements_at(reads ? value_at(g, x->in[0])->type : x->type, batch);
}
