/* Ops along one dimension whose elements stand in an order: cumsum and argsort. Both are written as
   comparisons of all pairs after grad (OPF_decompose): no memory, quadratic time. */
#include "family.h"
#include <math.h>

static bool order_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0);
  const char *name = op_def(v->op)->name;
  if (!infer_axes(g, &v->attr[0], x.rank, true, error, code)) return false;
  if (v->attr[0].as.ints.len != 1)
    return infer_fail(g, error, code, 503, "`%s` needs one dim", name);
  if (x.rank == IR_MAX_RANK)
    return infer_fail(g, error, code, 406, "`%s` of a tensor of %d dimensions", name, x.rank);
  if (v->op == OP_argsort && x.dtype == DT_bool)
    return infer_fail(g, error, code, 506, "`argsort` takes numbers, not bool: cast first");
  v->type = x;
  if (v->op == OP_argsort || dtype_category(x.dtype) != 'f') v->type.dtype = DT_i64;
  return true;
}

static void cumsum_row(const double *x, double *out, int64_t n, int64_t stride) {
  double sum = 0;
  for (int64_t k = 0; k < n; k++) out[k * stride] = sum += x[k * stride];
}

static bool before(double a, double b, bool descending) {
  if (descending) return a > b || (isnan(a) && !isnan(b));
  return a < b || (isnan(b) && !isnan(a));
}

/* Insertion: equal elements keep their order. */
static void argsort_row(const double *x, double *out, int64_t n, int64_t stride, bool descending) {
  for (int64_t k = 0; k < n; k++) {
    int64_t to = k;
    for (; to > 0 && before(x[k * stride], x[(int64_t)out[(to - 1) * stride] * stride], descending);
         to--)
      out[to * stride] = out[(to - 1) * stride];
    out[to * stride] = (double)k;
  }
}

static void order_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                            double *out) {
  Extent x = extent_in(g, v, 0, batch);
  int d = (int)v->attr[0].as.ints.at[0];
  for (int64_t k = 0; k < x.count; k++) {
    if (k / x.stride[d] % x.size[d]) continue; /* not the first of its row */
    if (v->op == OP_cumsum)
      cumsum_row(in[0] + k, out + k, x.size[d], x.stride[d]);
    else
      argsort_row(in[0] + k, out + k, x.size[d], x.stride[d], v->attr[1].as.i != 0);
  }
}

const OpCode family_order[] = {
    {.op = OP_cumsum, .infer = order_infer, .interpret = order_interpret},
    {.op = OP_argsort, .infer = order_infer, .interpret = order_interpret},
    {.op = OP_none},
};
