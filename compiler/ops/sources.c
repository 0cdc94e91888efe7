/* Ops without inputs: data, parameters, numbers known to the host, random draws. */
#include "family.h"
#include "die.h"
#include <math.h>

static void set_dims(Value *v, const Attr *shape) {
  v->type.rank = shape->as.dims.len;
  for (int i = 0; i < v->type.rank; i++) v->type.dim[i] = shape->as.dims.at[i];
}

static bool sizes_positive(const Graph *g, const Value *v, const char **error, int *code) {
  for (int i = 0; i < v->type.rank; i++)
    if (dim_known(v->type.dim[i]) && v->type.dim[i].fixed < 1)
      return infer_fail(g, error, code, 410, "size %s of a dimension is not positive",
                        infer_dim_text(g, v->type.dim[i]));
  return true;
}

/* input, param, buffer: index, dtype, shape */
bool leaf_infer(const Graph *g, Value *v, const char **error, int *code) {
  v->type = type_scalar((DType)v->attr[1].as.i);
  set_dims(v, &v->attr[2]);
  return sizes_positive(g, v, error, code);
}

/* const, host: something, dtype */
static bool scalar_infer(const Graph *g, Value *v, const char **error, int *code) {
  v->type = type_scalar((DType)v->attr[1].as.i);
  if (v->op == OP_const && v->type.dtype == DT_i64 && v->attr[0].as.f != trunc(v->attr[0].as.f))
    return infer_fail(g, error, code, 506, "a whole number was expected, not %g", v->attr[0].as.f);
  return true;
}

static bool f32_infer(const Graph *g, Value *v, const char **error, int *code) {
  (void)g, (void)error, (void)code;
  v->type = type_scalar(DT_f32);
  return true;
}

static bool one_size(const Graph *g, const Value *v, const char **error, int *code) {
  if (v->attr[0].as.dims.len == 1) return true;
  return infer_fail(g, error, code, 501, "`%s` takes one size", op_def(v->op)->name);
}

static bool dimval_infer(const Graph *g, Value *v, const char **error, int *code) {
  v->type = type_scalar(DT_i64);
  return one_size(g, v, error, code);
}

static bool arange_infer(const Graph *g, Value *v, const char **error, int *code) {
  if (!one_size(g, v, error, code)) return false;
  v->type = type_scalar(DT_i64);
  set_dims(v, &v->attr[0]);
  return sizes_positive(g, v, error, code);
}

static bool draw_infer(const Graph *g, Value *v, const char **error, int *code) {
  const OpDef *d = op_def(v->op);
  DType t = v->op == OP_bernoulli ? DT_bool : v->op == OP_randint ? DT_i64 : DT_f32;
  v->type = type_scalar(t);
  set_dims(v, &v->attr[d->attrs - 1]); /* shape is the last one */
  int64_t each = type_elements_at(v->type, 1);
  if (each > INT64_C(1) << 32)
    return infer_fail(g, error, code, 716,
                      "`%s` of more than 2^32 numbers for a sample is not supported yet", d->name);
  if (v->op == OP_bernoulli && !(v->attr[0].as.f >= 0 && v->attr[0].as.f <= 1))
    return infer_fail(g, error, code, 501, "a probability lies between 0 and 1, not %g",
                      v->attr[0].as.f);
  if (v->op == OP_randint && v->attr[0].as.i >= v->attr[1].as.i)
    return infer_fail(g, error, code, 501, "`randint` needs its lower bound below its upper bound");
  return sizes_positive(g, v, error, code);
}

/* ---------- meaning of those that need nothing from outside ---------- */
static void const_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                            double *out) {
  (void)g, (void)batch, (void)in;
  out[0] = interp_store(v->attr[0].as.f, v->type.dtype);
}

static void dimval_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                             double *out) {
  (void)g, (void)in;
  out[0] = (double)dim_at(v->attr[0].as.dims.at[0], batch);
}

static void arange_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                             double *out) {
  (void)g, (void)in;
  int64_t n = type_elements_at(v->type, batch);
  for (int64_t k = 0; k < n; k++) out[k] = (double)k;
}

/* ---------- lowering ---------- */
static NestTemp const_lower(Nest *n, Val v, const NestIndex *index) {
  (void)index;
  const Value *x = value_at(n->g, v);
  double k = x->attr[0].as.f;
  bool half = dtype_is_half(x->type.dtype);
  return nest_const(n, half ? dtype_round(x->type.dtype, k) : k, x->type.dtype);
}

static NestTemp host_lower(Nest *n, Val v, const NestIndex *index) {
  (void)index;
  return nest_host(n, v);
}

static NestTemp arange_lower(Nest *n, Val v, const NestIndex *index) {
  (void)v;
  return nest_index(n, index[0]);
}

/* A draw belongs to a sample: its number is that of the batch dimension, and the element is counted
   within the sample, so that masks do not depend on how a batch is cut. With p rows for each sample
   (batch and time flattened to one dimension) these rows are part of the element. */
static NestTemp draw_lower(Nest *n, Val v, const NestIndex *index) {
  Type t = value_at(n->g, v)->type;
  NestIndex at[IR_MAX_RANK], sample = nest_ix_const(n, dim_of(0));
  bool found = false;
  for (int i = 0; i < t.rank; i++) {
    at[i] = index[i];
    if (found || t.dim[i].per_batch < 1 || t.dim[i].fixed) continue;
    Dim rows = dim_of(t.dim[i].per_batch);
    sample = nest_ix_div(n, index[i], rows);
    at[i] = nest_ix_mod(n, index[i], rows);
    t.dim[i] = rows;
    found = true;
  }
  return nest_random(n, v, sample, nest_ix_flat(n, t, at));
}

const OpCode family_sources[] = {
    {.op = OP_input, .infer = leaf_infer},
    {.op = OP_param, .infer = leaf_infer},
    {.op = OP_buffer, .infer = leaf_infer},
    {.op = OP_const, .infer = scalar_infer, .interpret = const_interpret, .lower = const_lower},
    {.op = OP_host, .infer = scalar_infer, .lower = host_lower},
    {.op = OP_count, .infer = f32_infer, .lower = host_lower},
    {.op = OP_share, .infer = f32_infer, .lower = host_lower},
    {.op = OP_dimval, .infer = dimval_infer, .interpret = dimval_interpret, .lower = host_lower},
    {.op = OP_arange, .infer = arange_infer, .interpret = arange_interpret, .lower = arange_lower},
    {.op = OP_bernoulli, .infer = draw_infer, .lower = draw_lower},
    {.op = OP_uniform, .infer = draw_infer, .lower = draw_lower},
    {.op = OP_normal, .infer = draw_infer, .lower = draw_lower},
    {.op = OP_randint, .infer = draw_infer, .lower = draw_lower},
    {.op = OP_none},
};
