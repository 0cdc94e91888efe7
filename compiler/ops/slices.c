/* Movement with choice of elements: slice, pad, concat. */
#include "family.h"
#include "die.h"

static Dim dim_add(Dim a, Dim b) {
  return (Dim){a.per_batch + b.per_batch, a.fixed + b.fixed};
}
static Dim dim_sub(Dim a, Dim b) {
  return (Dim){a.per_batch - b.per_batch, a.fixed - b.fixed};
}

/* Does a <= b hold for every batch >= 1? */
static bool dim_le(Dim a, Dim b) {
  return b.per_batch >= a.per_batch && b.per_batch + b.fixed >= a.per_batch + a.fixed;
}

/* A list of one number for each dimension; not given: `fill` everywhere. */
static bool one_each(const Graph *g, const Value *v, int k, int rank, const char **error,
                     int *code) {
  const AttrDef *d = &op_def(v->op)->attr[k];
  int len = d->kind == ATTR_dims ? v->attr[k].as.dims.len : v->attr[k].as.ints.len;
  if (len == rank) return true;
  return infer_fail(g, error, code, 406, "`%s` of `%s` names %d dims of a tensor of rank %d",
                    d->name, op_def(v->op)->name, len, rank);
}

static void fill_steps(Attr *step, int rank) {
  if (step->as.ints.len >= 0) return;
  step->as.ints.len = rank;
  for (int i = 0; i < rank; i++) step->as.ints.at[i] = 1;
}

/* ---------- slice: start, stop, step ---------- */
/* Negative numbers count from the end; bounds are clamped where both are known. */
static Dim bound(Dim b, Dim size) {
  if (dim_known(b) && b.fixed < 0) b = dim_add(size, b);
  if (!dim_known(b) || !dim_known(size)) return b;
  if (b.fixed < 0) b.fixed = 0;
  if (b.fixed > size.fixed) b.fixed = size.fixed;
  return b;
}

static bool slice_one(const Graph *g, Value *v, int i, Dim size, const char **error, int *code) {
  Dim *start = &v->attr[0].as.dims.at[i], *stop = &v->attr[1].as.dims.at[i];
  int64_t step = v->attr[2].as.ints.at[i];
  if (step < 1)
    return infer_fail(g, error, code, 414,
                      "the step of a slice is at least 1 (`flip` turns round)");
  *start = bound(*start, size);
  *stop = bound(*stop, size);
  Dim n = dim_sub(*stop, *start);
  if (dim_known(n) && n.fixed < 1)
    return infer_fail(g, error, code, 410, "this slice of %s elements is empty",
                      infer_dim_text(g, size));
  if (n.per_batch < 0 || start->per_batch < 0)
    return infer_fail(g, error, code, 414, "a bound of this slice of %s elements cannot be decided",
                      infer_dim_text(g, size));
  if (step > 1) {
    if (!dim_known(n))
      return infer_fail(g, error, code, 414, "a slice of %s elements takes no step",
                        infer_dim_text(g, size));
    n.fixed = (n.fixed + step - 1) / step;
    *stop = dim_add(*start, dim_of((n.fixed - 1) * step + 1));
  }
  v->type.dim[i] = n;
  return true;
}

static bool slice_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0);
  fill_steps(&v->attr[2], x.rank);
  v->type = x;
  for (int k = 0; k < 3; k++)
    if (!one_each(g, v, k, x.rank, error, code)) return false;
  for (int i = 0; i < x.rank; i++)
    if (!slice_one(g, v, i, x.dim[i], error, code)) return false;
  return true;
}

static void slice_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                            double *out) {
  Extent x = extent_in(g, v, 0, batch), y = extent_of(v->type, batch);
  for (int64_t k = 0; k < y.count; k++) {
    int64_t at[IR_MAX_RANK];
    extent_split(&y, k, at);
    for (int i = 0; i < y.rank; i++)
      at[i] = dim_at(v->attr[0].as.dims.at[i], batch) + at[i] * v->attr[2].as.ints.at[i];
    out[k] = in[0][extent_flat(&x, at)];
  }
}

static NestTemp slice_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  NestIndex at[IR_MAX_RANK];
  for (int i = 0; i < y->type.rank; i++) {
    NestIndex stepped = nest_ix_mul(n, index[i], dim_of(y->attr[2].as.ints.at[i]));
    at[i] = nest_ix_add(n, nest_ix_const(n, y->attr[0].as.dims.at[i]), stepped);
  }
  return nest_pull(n, y->in[0], at);
}

/* ---------- pad: lo, hi, value, step ---------- */
static bool pad_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0);
  fill_steps(&v->attr[3], x.rank);
  v->type = x;
  if (!one_each(g, v, 0, x.rank, error, code) || !one_each(g, v, 1, x.rank, error, code) ||
      !one_each(g, v, 3, x.rank, error, code))
    return false;
  for (int i = 0; i < x.rank; i++) {
    Dim lo = v->attr[0].as.dims.at[i], hi = v->attr[1].as.dims.at[i], inner;
    int64_t step = v->attr[3].as.ints.at[i];
    if (!dim_le(dim_of(0), lo) || !dim_le(dim_of(0), hi) || step < 1)
      return infer_fail(g, error, code, 410, "padding is not negative");
    Dim gaps = x.dim[i];
    gaps.fixed -= 1;
    dim_mul(gaps, dim_of(step), &inner);
    inner.fixed += 1;
    v->type.dim[i] = dim_add(dim_add(lo, inner), hi);
  }
  return true;
}

static void pad_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                          double *out) {
  Extent x = extent_in(g, v, 0, batch), y = extent_of(v->type, batch);
  double fill = interp_store(v->attr[2].as.f, v->type.dtype);
  for (int64_t k = 0; k < y.count; k++) out[k] = fill;
  for (int64_t k = 0; k < x.count; k++) {
    int64_t at[IR_MAX_RANK];
    extent_split(&x, k, at);
    for (int i = 0; i < x.rank; i++)
      at[i] = dim_at(v->attr[0].as.dims.at[i], batch) + at[i] * v->attr[3].as.ints.at[i];
    out[extent_flat(&y, at)] = in[0][k];
  }
}

static NestTemp both(Nest *n, NestTemp a, NestTemp b) {
  return a && b ? nest_op(n, OP_and, DT_bool, a, b, 0) : a ? a : b;
}

static NestTemp compare(Nest *n, OpKind op, NestIndex ix, Dim bound_) {
  return nest_op(n, op, DT_bool, nest_index(n, ix), nest_index(n, nest_ix_const(n, bound_)), 0);
}

static NestTemp pad_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  Type x = value_at(n->g, y->in[0])->type;
  NestIndex at[IR_MAX_RANK];
  NestTemp inside = 0;
  for (int i = 0; i < x.rank; i++) {
    Dim lo = y->attr[0].as.dims.at[i], hi = y->attr[1].as.dims.at[i];
    Dim step = dim_of(y->attr[3].as.ints.at[i]);
    NestIndex from = nest_ix_add(n, index[i], nest_ix_const(n, (Dim){-lo.per_batch, -lo.fixed}));
    if (!dim_is(lo, 0)) inside = both(n, inside, compare(n, OP_ge, index[i], lo));
    if (!dim_is(hi, 0))
      inside = both(n, inside, compare(n, OP_lt, index[i], dim_sub(y->type.dim[i], hi)));
    at[i] = from;
    if (step.fixed == 1) continue;
    inside = both(n, inside, compare(n, OP_eq, nest_ix_mod(n, from, step), dim_of(0)));
    at[i] = nest_ix_div(n, from, step);
  }
  if (!inside) return nest_pull(n, y->in[0], at);
  NestTemp t = nest_pull_guarded(n, y->in[0], at, inside);
  return nest_select(n, inside, t, nest_const(n, y->attr[2].as.f, y->type.dtype));
}

/* ---------- concat: dim ---------- */
static bool concat_infer(const Graph *g, Value *v, const char **error, int *code) {
  v->type = infer_in(g, v, 0);
  if (!infer_axes(g, &v->attr[0], v->type.rank, true, error, code)) return false;
  if (v->attr[0].as.ints.len != 1) return infer_fail(g, error, code, 503, "`concat` needs one dim");
  int d = (int)v->attr[0].as.ints.at[0];
  for (int k = 1; k < v->inputs; k++) {
    Type x = infer_in(g, v, k);
    if (x.rank != v->type.rank || x.dtype != v->type.dtype)
      return infer_fail(g, error, code, x.rank != v->type.rank ? 406 : 506,
                        "`concat` of %s and %s: rank and dtype must agree",
                        infer_type_text(g, v->type), infer_type_text(g, x));
    for (int i = 0; i < x.rank; i++)
      if (i != d && !dim_equal(x.dim[i], v->type.dim[i]))
        return infer_fail(g, error, code, 405, "sizes differ: %s and %s",
                          infer_dim_text(g, v->type.dim[i]), infer_dim_text(g, x.dim[i]));
    v->type.dim[d] = dim_add(v->type.dim[d], x.dim[d]);
  }
  return true;
}

static void concat_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                             double *out) {
  Extent y = extent_of(v->type, batch);
  int d = (int)v->attr[0].as.ints.at[0];
  int64_t first = 0;
  for (int j = 0; j < v->inputs; j++) {
    Extent x = extent_in(g, v, j, batch);
    for (int64_t k = 0; k < x.count; k++) {
      int64_t at[IR_MAX_RANK];
      extent_split(&x, k, at);
      at[d] += first;
      out[extent_flat(&y, at)] = in[j][k];
    }
    first += x.size[d];
  }
}

static NestTemp concat_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  int d = (int)y->attr[0].as.ints.at[0];
  Dim first[IR_MAX_INPUTS + 1] = {{0, 0}};
  NestIndex at[IR_MAX_RANK];
  NestTemp result = 0;
  for (int i = 0; i < y->type.rank; i++) at[i] = index[i];
  for (int j = 0; j < y->inputs; j++)
    first[j + 1] = dim_add(first[j], value_at(n->g, y->in[j])->type.dim[d]);
  for (int j = y->inputs; j-- > 0;) { /* the last one is the rest */
    NestTemp below = j + 1 < y->inputs ? compare(n, OP_lt, index[d], first[j + 1]) : 0;
    NestTemp mine = j ? both(n, compare(n, OP_ge, index[d], first[j]), below) : below;
    at[d] = nest_ix_add(n, index[d], nest_ix_const(n, (Dim){-first[j].per_batch, -first[j].fixed}));
    NestTemp t = mine ? nest_pull_guarded(n, y->in[j], at, mine) : nest_pull(n, y->in[j], at);
    result = result ? nest_select(n, below, t, result) : t;
  }
  return result;
}

const OpCode family_slices[] = {
    {.op = OP_slice, .infer = slice_infer, .interpret = slice_interpret, .lower = slice_lower},
    {.op = OP_pad, .infer = pad_infer, .interpret = pad_interpret, .lower = pad_lower},
    {.op = OP_concat, .infer = concat_infer, .interpret = concat_interpret, .lower = concat_lower},
    {.op = OP_none},
};
