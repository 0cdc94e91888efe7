/* pass_gradients, after grad: on GPUs the norm by which gradients are clipped stays on the device, and the loops
   of an optimizer's step clip them as they load them (DdpRates.clip). A call of a library loads what lies in
   memory. Out: in steps in which one reads the gradient, it reads what a loop has made of it. */
#include "passes.h"
#include "rewrite.h"

enum { GRADIENT = 1 }; /* input of an optimizer's graph */

static bool is_gradient(const Graph *g, Val v) {
  const Value *x = value_at(g, v);
  while (op_has(x->op, OPF_view)) x = value_at(g, x->in[0]);
  return x->op == OP_input && x->attr[0].as.i == GRADIENT;
}

static bool calls_read_it(const Graph *g) {
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    for (int i = 0; op_has(x->op, OPF_library) && i < x->inputs; i++)
      if (is_gradient(g, x->in[i])) return true;
  }
  return false;
}

static Graph *computed(const Graph *g) {
  Rewrite r = rewrite_begin(g);
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    r.map[v] = ir_copy(r.to, g, v, r.map);
    if (x->op != OP_input || x->attr[0].as.i != GRADIENT) continue;
    Attr one[IR_MAX_ATTRS] = {{.as.f = 1}, {.as.i = x->type.dtype}};
    Val in[2] = {r.map[v], ir_must(r.to, OP_const, NULL, 0, one, x->at, x->scope)};
    r.map[v] = ir_must(r.to, OP_mul, in, 2, NULL, x->at, x->scope);
  }
  return rewrite_end(&r);
}

void pass_gradients(Job *job) {
  for (uint32_t i = 0; job->target.cuda && i < job->optimizers.len; i++) {
    Graph **update = &job->optimizers.at[i].update;
    if (*update && calls_read_it(*update)) *update = computed(*update);
  }
}
