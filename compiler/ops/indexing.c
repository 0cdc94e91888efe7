/* Ops whose index is data: gather and rows (read), scatter_add and rows_add (sum into). Indices are
   in range; fields and embeddings are checked before training. */
#include "family.h"
#include "die.h"

static bool index_is_integer(const Graph *g, const Value *v, int i, const char **error, int *code) {
  Type t = infer_in(g, v, i);
  if (dtype_category(t.dtype) == 'i') return true;
  return infer_fail(g, error, code, 506, "the index of `%s` must be an integer tensor, not %s",
                    op_def(v->op)->name, dtype_name(t.dtype));
}

/* x and index agree but for dimension `dim`. */
static bool index_fits(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0), index = infer_in(g, v, 1);
  if (!index_is_integer(g, v, 1, error, code)) return false;
  if (x.rank != index.rank)
    return infer_fail(g, error, code, 406, "ranks differ: %s and index %s", infer_type_text(g, x),
                      infer_type_text(g, index));
  if (!infer_axes(g, &v->attr[0], x.rank, true, error, code)) return false;
  if (v->attr[0].as.ints.len != 1)
    return infer_fail(g, error, code, 503, "`%s` needs one dim", op_def(v->op)->name);
  for (int i = 0; i < x.rank; i++)
    if (!infer_has_axis(&v->attr[0], i) && !dim_equal(x.dim[i], index.dim[i]))
      return infer_fail(g, error, code, 405, "sizes differ: %s and %s in dimension %d of the index",
                        infer_dim_text(g, x.dim[i]), infer_dim_text(g, index.dim[i]), i);
  return true;
}

/* An index outside of the table is a fault here: data is checked before it is read. */
static int64_t in_range(double index, int64_t size) {
  check(index >= 0 && index < (double)size, "index %g outside of 0..%lld", index, (long long)size);
  return (int64_t)index;
}

/* ---------- gather(x, index; dim) ---------- */
static bool gather_infer(const Graph *g, Value *v, const char **error, int *code) {
  if (!index_fits(g, v, error, code)) return false;
  DType t = infer_in(g, v, 0).dtype;
  v->type = infer_in(g, v, 1);
  v->type.dtype = t;
  return true;
}

static void gather_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                             double *out) {
  Extent x = extent_in(g, v, 0, batch), y = extent_of(v->type, batch);
  int d = (int)v->attr[0].as.ints.at[0];
  for (int64_t k = 0; k < y.count; k++) {
    int64_t at[IR_MAX_RANK];
    extent_split(&y, k, at);
    at[d] = in_range(in[1][k], x.size[d]);
    out[k] = in[0][extent_flat(&x, at)];
  }
}

static NestTemp gather_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  NestIndex at[IR_MAX_RANK];
  int d = (int)y->attr[0].as.ints.at[0];
  for (int i = 0; i < y->type.rank; i++) at[i] = index[i];
  Dim size = value_at(n->g, y->in[0])->type.dim[d];
  at[d] = nest_ix_temp(n, nest_cast(n, nest_pull(n, y->in[1], index), DT_i64), size);
  return nest_pull(n, y->in[0], at);
}

/* ---------- scatter_add(x, index, src; dim) ---------- */
static bool scatter_add_infer(const Graph *g, Value *v, const char **error, int *code) {
  if (!index_fits(g, v, error, code)) return false;
  Type index = infer_in(g, v, 1), src = infer_in(g, v, 2);
  v->type = infer_in(g, v, 0);
  index.dtype = v->type.dtype;
  if (!type_equal(index, src))
    return infer_fail(g, error, code, 405, "`scatter_add` of %s needs a source %s",
                      infer_type_text(g, src), infer_type_text(g, index));
  return true;
}

static void scatter_add_interpret(const Graph *g, const Value *v, int64_t batch,
                                  const double *const *in, double *out) {
  Extent index = extent_in(g, v, 1, batch), y = extent_of(v->type, batch);
  int d = (int)v->attr[0].as.ints.at[0];
  for (int64_t k = 0; k < y.count; k++) out[k] = in[0][k];
  for (int64_t k = 0; k < index.count; k++) {
    int64_t at[IR_MAX_RANK];
    extent_split(&index, k, at);
    at[d] = in_range(in[1][k], y.size[d]);
    out[extent_flat(&y, at)] += in[2][k];
  }
}

/* ---------- rows(table, index) ---------- */
static bool rows_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0), index = infer_in(g, v, 1);
  if (!index_is_integer(g, v, 1, error, code)) return false;
  if (x.rank < 1) return infer_fail(g, error, code, 406, "`rows` of a tensor of rank 0");
  if (index.rank + x.rank - 1 > IR_MAX_RANK)
    return infer_fail(g, error, code, 406, "`rows`: the result has more than %d dimensions",
                      IR_MAX_RANK);
  v->type = index;
  v->type.dtype = x.dtype;
  for (int i = 1; i < x.rank; i++) v->type.dim[v->type.rank++] = x.dim[i];
  return true;
}

static void rows_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                           double *out) {
  Extent x = extent_in(g, v, 0, batch), index = extent_in(g, v, 1, batch);
  int64_t width = x.stride[0];
  for (int64_t k = 0; k < index.count; k++) {
    const double *row = in[0] + in_range(in[1][k], x.size[0]) * width;
    for (int64_t j = 0; j < width; j++) out[k * width + j] = row[j];
  }
}

static NestTemp rows_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  int lead = value_at(n->g, y->in[1])->type.rank;
  NestIndex at[IR_MAX_RANK];
  Dim size = value_at(n->g, y->in[0])->type.dim[0];
  at[0] = nest_ix_temp(n, nest_cast(n, nest_pull(n, y->in[1], index), DT_i64), size);
  for (int i = lead; i < y->type.rank; i++) at[1 + i - lead] = index[i];
  return nest_pull(n, y->in[0], at);
}

/* ---------- rows_add(index, g; n, full) ---------- */
static bool rows_add_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type index = infer_in(g, v, 0), rest = infer_in(g, v, 1);
  if (!index_is_integer(g, v, 0, error, code)) return false;
  if (v->attr[0].as.dims.len != 1)
    return infer_fail(g, error, code, 501, "`rows_add` takes one size");
  bool fits = rest.rank >= index.rank;
  for (int i = 0; fits && i < index.rank; i++) fits = dim_equal(index.dim[i], rest.dim[i]);
  if (!fits)
    return infer_fail(g, error, code, 405, "`rows_add` of %s with index %s",
                      infer_type_text(g, rest), infer_type_text(g, index));
  v->type = type_scalar(v->attr[1].as.i ? dtype_computed(rest.dtype) : rest.dtype);
  v->type.dim[v->type.rank++] = v->attr[0].as.dims.at[0];
  for (int i = index.rank; i < rest.rank; i++) v->type.dim[v->type.rank++] = rest.dim[i];
  return true;
}

static void rows_add_interpret(const Graph *g, const Value *v, int64_t batch,
                               const double *const *in, double *out) {
  Extent index = extent_in(g, v, 0, batch), y = extent_of(v->type, batch);
  int64_t width = y.stride[0];
  for (int64_t k = 0; k < y.count; k++) out[k] = 0;
  for (int64_t k = 0; k < index.count; k++) {
    double *row = out + in_range(in[0][k], y.size[0]) * width;
    for (int64_t j = 0; j < width; j++) row[j] += in[1][k * width + j];
  }
}

const OpCode family_indexing[] = {
    {.op = OP_gather, .infer = gather_infer, .interpret = gather_interpret, .lower = gather_lower},
    {.op = OP_scatter_add, .infer = scatter_add_infer, .interpret = scatter_add_interpret},
    {.op = OP_rows, .infer = rows_infer, .interpret = rows_interpret, .lower = rows_lower},
    {.op = OP_rows_add, .infer = rows_add_infer, .interpret = rows_add_interpret},
    {.op = OP_none},
};
