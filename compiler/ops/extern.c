/* OP_extern: a call of a function from a C header (extern.h). Its type stands in its attributes; its
   reference meaning is the operator's body, where the header gives one, and NaN where not. */
#include "extern.h"
#include "die.h"
#include "family.h"
#include <math.h>

static struct {
  Arena *arena;
  VEC(const ExternalCall *) list;
} calls;

int64_t external_add(const ExternalCall *call) {
  if (!calls.arena) calls.arena = arena_new();
  vec_push(calls.arena, &calls.list, call);
  return (int64_t)calls.list.len - 1;
}

const ExternalCall *external_at(int64_t index) {
  check(index >= 0 && index < calls.list.len, "no external call %lld", (long long)index);
  return calls.list.at[index];
}

int64_t external_count(void) {
  return calls.list.len;
}

const ExternalCall *external_of(const Value *v) {
  return external_at(v->attr[op_attr(OP_extern, "call")].as.i);
}

Val external_inline(Graph *to, const Graph *from, const Val *in, Span at, Scope scope) {
  Val *map = ARENA_ARRAY(to->arena, Val, from->values.len);
  for (Val v = 1; v < from->values.len; v++) {
    const Value *x = value_at(from, v);
    if (x->op == OP_input) {
      map[v] = in[x->attr[op_attr(OP_input, "field")].as.i];
      continue;
    }
    Val mapped[IR_MAX_INPUTS];
    for (int i = 0; i < x->inputs; i++) mapped[i] = map[x->in[i]];
    map[v] = ir_must(to, x->op, mapped, x->inputs, x->attr, at, scope);
  }
  check(from->outputs.len == 1, "a graph of an operator with %u results", from->outputs.len);
  return map[from->outputs.at[0].value];
}

static bool extern_infer(const Graph *g, Value *v, const char **error, int *code) {
  const Attr *shape = &v->attr[op_attr(OP_extern, "shape")];
  int64_t call = v->attr[op_attr(OP_extern, "call")].as.i;
  if (call < 0 || call >= external_count())
    return infer_fail(g, error, code, 301, "this job has no external call %lld", (long long)call);
  const ExternalCall *c = external_at(call);
  if (c->inputs != v->inputs)
    return infer_fail(g, error, code, 503, "`%s` takes %d inputs", c->name, c->inputs);
  for (int i = 0; i < c->inputs; i++)
    if (!type_equal(infer_in(g, v, i), c->in[i]))
      return infer_fail(g, error, code, 405, "input %d of `%s` is %s, not %s", i + 1, c->name,
                        infer_type_text(g, c->in[i]), infer_type_text(g, infer_in(g, v, i)));
  v->type =
      (Type){.dtype = (DType)v->attr[op_attr(OP_extern, "dtype")].as.i, .rank = shape->as.dims.len};
  for (int i = 0; i < v->type.rank; i++) v->type.dim[i] = shape->as.dims.at[i];
  return true;
}

typedef struct Inputs {
  const ExternalCall *call;
  const double *const *in;
  int64_t batch;
} Inputs;

static void supply(void *self, const Graph *g, Val v, double *out) {
  const Inputs *s = self;
  const Value *x = value_at(g, v);
  check(x->op == OP_input, "%s in the body of an operator", op_def(x->op)->name);
  int64_t k = x->attr[op_attr(OP_input, "field")].as.i;
  int64_t n = type_elements_at(x->type, s->batch);
  for (int64_t i = 0; i < n; i++) out[i] = s->in[k][i];
}

static void extern_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                             double *out) {
  (void)g;
  const ExternalCall *c = external_of(v);
  int64_t n = type_elements_at(v->type, batch);
  if (!c->meaning) {
    for (int64_t i = 0; i < n; i++) out[i] = NAN;
    return;
  }
  Arena *a = arena_new();
  Inputs inputs = {c, in, batch};
  double **value =
      interp_run(a, c->meaning, &(Interp){.batch = batch, .source = supply, .self = &inputs});
  const double *result = value[c->meaning->outputs.at[0].value];
  for (int64_t i = 0; i < n; i++) out[i] = result[i];
  arena_free(a);
}

const OpCode family_external[] = {
    {.op = OP_extern, .infer = extern_infer, .interpret = extern_interpret},
    {.op = OP_none},
};
