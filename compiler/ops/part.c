/* OP_part: what a library call gives beside its value. The call's family says which by-products
   there are; planning puts them into the kernel of the call. */
#include "die.h"
#include "family.h"

static bool part_infer(const Graph *g, Value *v, const char **error, int *code) {
  const Value *call = value_at(g, v->in[0]);
  const OpDef *d = op_def(call->op);
  if (d->part_type && d->part_type(g, call, op_part_index(v), &v->type)) return true;
  return infer_fail(g, error, code, 413, "`%s` has no by-product %d", d->name, op_part_index(v));
}

/* The inputs of the call are not inputs of its part: see part_interpret. */
static void part_alone(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                       double *out) {
  (void)g, (void)batch, (void)in, (void)out;
  die("by-product %d is computed by its call", op_part_index(v));
}

void part_interpret(const Graph *g, const Value *v, int64_t batch, double *const *value,
                    double *out) {
  const Value *call = value_at(g, v->in[0]);
  const double *in[IR_MAX_INPUTS] = {NULL};
  for (int i = 0; i < call->inputs; i++) in[i] = value[call->in[i]];
  op_def(call->op)->interpret_part(g, call, batch, in, op_part_index(v), out);
}

const OpCode family_part[] = {
    {.op = OP_part, .infer = part_infer, .interpret = part_alone},
    {.op = OP_none},
};
