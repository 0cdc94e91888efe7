/* Reductions over axes: sum, amax and argmax are roots of loop nests; the others are written with
   them after grad (OPF_decompose). Attributes: dim (empty: none reduced), keepdim. */
#include "family.h"
#include "die.h"
#include <math.h>

static bool reduce_dtype(const Graph *g, Value *v, DType from, const char **error, int *code) {
  bool is_float = dtype_category(from) == 'f';
  switch (v->op) {
  case OP_sum:
    v->type.dtype = is_float ? from : DT_i64;
    return true;
  case OP_argmax:
    v->type.dtype = DT_i64;
    return true;
  case OP_any:
  case OP_all:
    if (from != DT_bool)
      return infer_fail(g, error, code, 506, "`%s` takes a bool tensor, not %s",
                        op_def(v->op)->name, dtype_name(from));
    v->type.dtype = from;
    return true;
  case OP_logsumexp:
    if (!is_float)
      return infer_fail(g, error, code, 506, "`logsumexp` takes floats, not %s: cast first",
                        dtype_name(from));
    v->type.dtype = from;
    return true;
  default:
    v->type.dtype = from;
    return true;
  }
}

static bool reduce_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0);
  bool keep = v->attr[1].as.i != 0;
  if (!infer_axes(g, &v->attr[0], x.rank, true, error, code)) return false;
  if (v->op == OP_argmax && v->attr[0].as.ints.len != 1)
    return infer_fail(g, error, code, 503, "`argmax` needs one dim");
  v->type = type_scalar(x.dtype);
  for (int i = 0; i < x.rank; i++) {
    bool reduced = infer_has_axis(&v->attr[0], i);
    if (reduced && !keep) continue;
    v->type.dim[v->type.rank++] = reduced ? dim_of(1) : x.dim[i];
  }
  return reduce_dtype(g, v, x.dtype, error, code);
}

/* The axes of the input in two lists: kept (walked by the result) and reduced. */
typedef struct Walk {
  Extent x, kept, reduced;
} Walk;

static Walk walk_of(const Graph *g, const Value *v, int64_t batch) {
  Walk w = {.x = extent_in(g, v, 0, batch)};
  w.kept.count = w.reduced.count = 1;
  for (int i = 0; i < w.x.rank; i++) {
    Extent *e = infer_has_axis(&v->attr[0], i) ? &w.reduced : &w.kept;
    e->size[e->rank] = w.x.size[i];
    e->stride[e->rank++] = w.x.stride[i]; /* strides of the input */
    e->count *= w.x.size[i];
  }
  return w;
}

static int64_t walk_at(const Extent *e, int64_t k) {
  int64_t flat = 0;
  for (int i = e->rank; i-- > 0;) {
    flat += k % e->size[i] * e->stride[i];
    k /= e->size[i];
  }
  return flat;
}

static double reduce_row(OpKind op, const double *x, const Extent *r) {
  double sum = 0, best = x[0], at = 0;
  for (int64_t k = 0; k < r->count; k++) {
    double e = x[walk_at(r, k)];
    sum += e;
    bool better = op == OP_amin ? e < best : e > best;
    if (k && (better || (isnan(e) && !isnan(best)))) {
      best = e;
      at = (double)k;
    }
  }
  switch (op) {
  case OP_sum:
    return sum;
  case OP_argmax:
    return at;
  case OP_any:
    return sum > 0;
  case OP_all:
    return sum == (double)r->count;
  case OP_logsumexp: {
    double shift = isinf(best) ? 0 : best, total = 0;
    for (int64_t k = 0; k < r->count; k++) total += exp(x[walk_at(r, k)] - shift);
    return log(total) + shift;
  }
  default:
    return best; /* amax, amin: NaN wins, as in PyTorch */
  }
}

static void reduce_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                             double *out) {
  Walk w = walk_of(g, v, batch);
  for (int64_t k = 0; k < w.kept.count; k++)
    out[k] = reduce_row(v->op, in[0] + walk_at(&w.kept, k), &w.reduced);
}

const OpCode family_reduce[] = {
    {.op = OP_sum, .infer = reduce_infer, .interpret = reduce_interpret},
    {.op = OP_amax, .infer = reduce_infer, .interpret = reduce_interpret},
    {.op = OP_argmax, .infer = reduce_infer, .interpret = reduce_interpret},
    {.op = OP_amin, .infer = reduce_infer, .interpret = reduce_interpret},
    {.op = OP_any, .infer = reduce_infer, .interpret = reduce_interpret},
    {.op = OP_all, .infer = reduce_infer, .interpret = reduce_interpret},
    {.op = OP_logsumexp, .infer = reduce_infer, .interpret = reduce_interpret},
    {.op = OP_none},
};
