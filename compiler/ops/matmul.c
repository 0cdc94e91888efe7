/* matmul(a, b; ta, tb, full): [batch.., M, K] x [batch.., K, N]; ta, tb read the last two dimensions of
   an input transposed; batch dimensions broadcast. A call of the runtime, never part of a loop
   nest. So is all_sum. */
#include "family.h"

static Dim rows_of(Type t, bool transposed) {
  return t.dim[t.rank - (transposed ? 1 : 2)];
}
static Dim columns_of(Type t, bool transposed) {
  return t.dim[t.rank - (transposed ? 2 : 1)];
}

static bool matmul_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type a = infer_in(g, v, 0), b = infer_in(g, v, 1);
  bool ta = v->attr[0].as.i != 0, tb = v->attr[1].as.i != 0;
  if (a.rank < 2 || b.rank < 2)
    return infer_fail(g, error, code, 406,
                      "a matrix product takes tensors of rank 2 or more: %s @ %s",
                      infer_type_text(g, a), infer_type_text(g, b));
  DType t = infer_promote(g, v, 0);
  if (dtype_category(t) != 'f')
    return infer_fail(g, error, code, 506, "a matrix product takes floats, not %s: cast first",
                      dtype_name(t));
  Dim k = columns_of(a, ta), other = rows_of(b, tb);
  if (!dim_equal(k, other))
    return infer_fail(g, error, code, 405, "sizes differ: %s and %s in the product of %s and %s",
                      infer_dim_text(g, k), infer_dim_text(g, other), infer_type_text(g, a),
                      infer_type_text(g, b));
  Type r = b, batch = a;
  Dim m = rows_of(a, ta), n = columns_of(b, tb);
  r.rank -= 2;
  batch.rank -= 2;
  if (!infer_broadcast(g, batch, &r, error, code)) return false;
  r.dim[r.rank++] = m;
  r.dim[r.rank++] = n;
  r.dtype = v->attr[2].as.i ? dtype_computed(t) : t;
  v->type = r;
  return true;
}

/* First element of the matrix of input x that belongs to batch element at[] of the result. */
static int64_t matrix_of(const Extent *x, const Extent *y, const int64_t *at) {
  int64_t flat = 0;
  for (int i = 0; i < x->rank - 2; i++)
    if (x->size[i] != 1) flat += at[i + y->rank - x->rank] * x->stride[i];
  return flat;
}

static void matmul_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                             double *out) {
  Extent a = extent_in(g, v, 0, batch), b = extent_in(g, v, 1, batch),
         y = extent_of(v->type, batch);
  bool ta = v->attr[0].as.i != 0, tb = v->attr[1].as.i != 0;
  int64_t k_size = ta ? a.size[a.rank - 2] : a.size[a.rank - 1];
  int64_t a_row = ta ? 1 : a.size[a.rank - 1], a_k = ta ? a.size[a.rank - 1] : 1;
  int64_t b_k = tb ? 1 : b.size[b.rank - 1], b_column = tb ? b.size[b.rank - 1] : 1;
  for (int64_t e = 0; e < y.count; e++) {
    int64_t at[IR_MAX_RANK];
    extent_split(&y, e, at);
    const double *x = in[0] + matrix_of(&a, &y, at) + at[y.rank - 2] * a_row;
    const double *w = in[1] + matrix_of(&b, &y, at) + at[y.rank - 1] * b_column;
    double sum = 0;
    for (int64_t k = 0; k < k_size; k++) sum += x[k * a_k] * w[k * b_k];
    out[e] = sum;
  }
}

static double matmul_flops(const Graph *g, const Value *v, int64_t batch) {
  Dim inner = columns_of(infer_in(g, v, 0), v->attr[0].as.i != 0);
  return 2 * (double)dim_at(inner, batch) * (double)type_elements_at(v->type, batch);
}

/* ---------- matmul_bias(x, w, bias): x w^T + bias ---------- */
static bool biased_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0), w = infer_in(g, v, 1), b = infer_in(g, v, 2);
  bool fits = x.rank == 2 && w.rank == 2 && b.rank == 1 && x.dtype == w.dtype &&
              dtype_category(x.dtype) == 'f' && x.dtype == b.dtype &&
              dim_equal(x.dim[1], w.dim[1]) && dim_equal(w.dim[0], b.dim[0]);
  if (!fits)
    return infer_fail(g, error, code, 405, "sizes differ in %s x %s + %s", infer_type_text(g, x),
                      infer_type_text(g, w), infer_type_text(g, b));
  v->type = (Type){.dtype = x.dtype, .rank = 2, .dim = {x.dim[0], w.dim[0]}};
  return true;
}

static void biased_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                             double *out) {
  Extent x = extent_in(g, v, 0, batch), y = extent_of(v->type, batch);
  for (int64_t e = 0; e < y.count; e++) {
    int64_t i = e / y.size[1], j = e % y.size[1], n = x.size[1];
    double sum = in[2][j];
    for (int64_t k = 0; k < n; k++) sum += in[0][i * n + k] * in[1][j * n + k];
    out[e] = sum;
  }
}

static double biased_flops(const Graph *g, const Value *v, int64_t batch) {
  return 2 * (double)dim_at(infer_in(g, v, 0).dim[1], batch) *
         (double)type_elements_at(v->type, batch);
}

/* ---------- all_sum(x): alone, a rank's own value ---------- */
static bool all_sum_infer(const Graph *g, Value *v, const char **error, int *code) {
  v->type = infer_in(g, v, 0);
  if (dtype_category(v->type.dtype) != 'f')
    return infer_fail(g, error, code, 506, "`all_sum` takes floats, not %s: cast first",
                      dtype_name(v->type.dtype));
  for (int i = 0; i < v->type.rank; i++)
    if (v->type.dim[i].per_batch)
      return infer_fail(
          g, error, code, 405,
          "`all_sum` of %s: ranks may have batches of other sizes; sum over the batch "
          "first",
          infer_type_text(g, v->type));
  return true;
}

static void all_sum_interpret(const Graph *g, const Value *v, int64_t batch,
                              const double *const *in, double *out) {
  (void)g;
  memcpy(out, in[0], (size_t)extent_of(v->type, batch).count * sizeof *out);
}

const OpCode family_matmul[] = {
    {.op = OP_all_sum, .infer = all_sum_infer, .interpret = all_sum_interpret},
    {.op = OP_matmul, .infer = matmul_infer, .interpret = matmul_interpret, .flops = matmul_flops},
    {.op = OP_matmul_bias,
     .infer = biased_infer,
     .interpret = biased_interpret,
     .flops = biased_flops},
    {.op = OP_none},
};
