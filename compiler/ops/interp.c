/* The reference interpreter: every value of a graph, dense, in double, as the op table says. */
#include "family.h"
#include "die.h"

Extent extent_of(Type t, int64_t batch) {
  Extent e = {.rank = t.rank, .count = 1};
  for (int i = t.rank; i-- > 0;) {
    e.size[i] = dim_at(t.dim[i], batch);
    e.stride[i] = e.count;
    e.count *= e.size[i];
  }
  return e;
}

void extent_split(const Extent *e, int64_t flat, int64_t *index) {
  for (int i = e->rank; i-- > 0;) {
    index[i] = flat % e->size[i];
    flat /= e->size[i];
  }
}

int64_t extent_flat(const Extent *e, const int64_t *index) {
  int64_t flat = 0;
  for (int i = 0; i < e->rank; i++) flat += index[i] * e->stride[i];
  return flat;
}

static const Interp *current;

const Interp *interp_current(void) {
  return current;
}

double **interp_run(Arena *a, const Graph *g, const Interp *how) {
  const Interp *before = current;
  current = how;
  double **value = ARENA_ARRAY(a, double *, g->values.len);
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    const OpDef *d = op_def(x->op);
    int64_t n = type_elements_at(x->type, how->batch);
    const double *in[IR_MAX_INPUTS] = {NULL};
    value[v] = ARENA_ARRAY(a, double, n > 0 ? n : 1);
    for (int i = 0; i < x->inputs; i++) in[i] = value[x->in[i]];
    if (x->op == OP_part) {
      part_interpret(g, x, how->batch, value, value[v]);
    } else if (d->interpret) {
      d->interpret(g, x, how->batch, in, value[v]);
    } else {
      check(how->source, "interp: nobody says what %s is", d->name);
      how->source(how->self, g, v, value[v]);
    }
    if (!dtype_is_half(x->type.dtype) && !how->round_f32) continue;
    for (int64_t k = 0; k < n; k++) value[v][k] = dtype_round(x->type.dtype, value[v][k]);
  }
  current = before;
  return value;
}
