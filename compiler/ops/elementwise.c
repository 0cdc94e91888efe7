/* Elementwise ops: one type rule (broadcast, promote) and one reference loop for all rows; cast. */
#include "family.h"
#include "die.h"
#include <math.h>

DType elementwise_compute_type(const Graph *g, const Value *v) {
  const OpDef *d = op_def(v->op);
  DType t = infer_promote(g, v, v->op == OP_where ? 1 : 0);
  if ((d->flags & OPF_float) && dtype_category(t) != 'f') return DT_f32;
  return t;
}

static bool inputs_allowed(const Graph *g, const Value *v, DType t, const char **error, int *code) {
  const OpDef *d = op_def(v->op);
  if (v->op == OP_where && infer_in(g, v, 0).dtype != DT_bool)
    return infer_fail(g, error, code, 506, "the condition of `where` must be bool, not %s",
                      dtype_name(infer_in(g, v, 0).dtype));
  if (d->flags & OPF_logical) {
    for (int i = 0; i < v->inputs; i++)
      if (infer_in(g, v, i).dtype != DT_bool)
        return infer_fail(g, error, code, 506, "`%s` takes bool tensors, not %s", d->name,
                          dtype_name(infer_in(g, v, i).dtype));
    return true;
  }
  if (t == DT_bool && !(d->flags & (OPF_compare | OPF_bool)))
    return infer_fail(g, error, code, 506, "`%s` takes numbers, not bool: cast first", d->name);
  return true;
}

bool elementwise_infer(const Graph *g, Value *v, const char **error, int *code) {
  const OpDef *d = op_def(v->op);
  Type r = type_scalar(infer_in(g, v, 0).dtype); /* the dtype is for messages */
  DType t = elementwise_compute_type(g, v);
  if (!inputs_allowed(g, v, t, error, code)) return false;
  for (int i = 0; i < v->inputs; i++)
    if (!infer_broadcast(g, infer_in(g, v, i), &r, error, code)) return false;
  r.dtype = (d->flags & OPF_compare) ? DT_bool : t;
  v->type = r;
  return true;
}

void elementwise_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                           double *out) {
  const OpDef *d = op_def(v->op);
  DType t = elementwise_compute_type(g, v);
  Extent e = extent_of(v->type, batch), from[3] = {0};
  bool identity = (d->flags & OPF_integral) && dtype_category(v->type.dtype) != 'f';
  for (int i = 0; i < v->inputs; i++) from[i] = extent_in(g, v, i, batch);
  for (int64_t k = 0; k < e.count; k++) {
    int64_t at[IR_MAX_RANK];
    double x[3] = {0, 0, 0};
    extent_split(&e, k, at);
    for (int i = 0; i < v->inputs; i++) {
      int64_t flat = 0;
      for (int a = 0; a < from[i].rank; a++)
        if (from[i].size[a] != 1) flat += at[a + e.rank - from[i].rank] * from[i].stride[a];
      bool condition = v->op == OP_where && i == 0;
      x[i] = condition ? in[i][flat] : interp_store(in[i][flat], t);
    }
    out[k] = interp_store(identity ? x[0] : d->eval(x[0], x[1], x[2]), v->type.dtype);
  }
}

/* ---------- cast ---------- */
static bool cast_infer(const Graph *g, Value *v, const char **error, int *code) {
  (void)error, (void)code;
  v->type = infer_in(g, v, 0);
  v->type.dtype = (DType)v->attr[0].as.i;
  return true;
}

static void cast_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                           double *out) {
  (void)g;
  int64_t n = type_elements_at(v->type, batch);
  for (int64_t k = 0; k < n; k++) out[k] = interp_store(in[0][k], v->type.dtype);
}

static NestTemp cast_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *x = value_at(n->g, v);
  NestTemp t = nest_pull(n, x->in[0], index);
  DType from = value_at(n->g, x->in[0])->type.dtype, to = x->type.dtype;
  if (to == from) return t;
  if (to != DT_bool || from == DT_bool) return nest_round(n, t, to);
  /* to bool is a comparison: 0.5 is true */
  return nest_op(n, OP_ne, DT_bool, t, nest_const(n, 0, from), 0);
}

const OpCode family_cast[] = {
    {.op = OP_cast, .infer = cast_infer, .interpret = cast_interpret, .lower = cast_lower},
    {.op = OP_none},
};

double interp_store(double x, DType t) {
  if (dtype_category(t) == 'f') return x;
  if (t == DT_bool) return x != 0;
  x = trunc(x);
  if (t == DT_i64 || !isfinite(x)) return x;
  /* narrower integers wrap */
  double span = t == DT_u8 ? 256.0 : 4294967296.0;
  double r = x - span * floor(x / span);
  return t == DT_i32 && r >= span / 2 ? r - span : r;
}

double op_eval(const Graph *g, const Value *v, const double *in) {
  const OpDef *d = op_def(v->op);
  DType t = v->type.dtype, inner = v->op == OP_cast ? t : elementwise_compute_type(g, v);
  double x[3] = {0, 0, 0};
  for (int i = 0; i < v->inputs; i++) {
    bool condition = v->op == OP_where && i == 0;
    x[i] = dtype_round(infer_in(g, v, i).dtype, in[i]);
    if (!condition) x[i] = dtype_round(dtype_computed(inner), interp_store(x[i], inner));
  }
  bool identity = !d->eval || ((d->flags & OPF_integral) && dtype_category(t) != 'f');
  return dtype_round(t, interp_store(identity ? x[0] : d->eval(x[0], x[1], x[2]), t));
}
