/* Pooling as in torch.nn.functional: pool_max, pool_sum (also divided: averages) and what takes their gradients
   back. Windows lie over the last dimensions but `inner`. Calls of the runtime (pool.h says how they
   see it). */
#include "pool.h"
#include "die.h"
#include "family.h"
#include <math.h>

bool pool_is(OpKind op) {
  return op == OP_pool_max || op == OP_pool_sum || op == OP_pool_max_grad || op == OP_pool_sum_grad;
}

static bool is_max(const Value *v) {
  return v->op == OP_pool_max || v->op == OP_pool_max_grad;
}

static Attr *attr_of(const Value *v, const char *name) {
  int k = op_attr(v->op, name);
  return k < 0 ? NULL : &v->attr[k];
}

static bool flag(const Value *v, const char *name) {
  return attr_of(v, name)->as.i != 0;
}

/* The attribute holds n numbers, none below `least`; left out: all `value`. */
static bool numbers(const Graph *g, const Value *v, const char *name, int n, int64_t least,
                    const int64_t *value, int64_t *out, const char **error, int *code) {
  Attr *a = attr_of(v, name);
  if (a && a->as.ints.len < 0) {
    a->as.ints.len = n;
    for (int i = 0; i < n; i++) a->as.ints.at[i] = value[i];
  }
  if (a && !infer_numbers(g, v, op_attr(v->op, name), n, least, error, code)) return false;
  for (int i = 0; i < n; i++) out[i] = a ? a->as.ints.at[i] : value[i];
  return true;
}

/* Number of windows, as PyTorch counts them: with `ceil` the last may reach over the end, if it begins in
   the tensor or in the padding before it. */
static int64_t count(const PoolShape *p, int i, bool ceil) {
  int64_t room = p->in[i] + 2 * p->padding[i] - p->dilation[i] * (p->window[i] - 1) - 1;
  if (room < 0) return 0;
  int64_t n = (room + (ceil ? p->stride[i] - 1 : 0)) / p->stride[i] + 1;
  return ceil && (n - 1) * p->stride[i] >= p->in[i] + p->padding[i] ? n - 1 : n;
}

static bool read_attributes(const Graph *g, const Value *v, PoolShape *p, const char **error,
                            int *code) {
  static const int64_t zero[POOL_MAX_SPACE], one[POOL_MAX_SPACE] = {1, 1, 1};
  int n = p->space;
  p->adaptive = flag(v, "adaptive");
  if (!numbers(g, v, "window", n, 1, one, p->window, error, code) ||
      !numbers(g, v, "stride", n, 1, p->window, p->stride, error, code) ||
      !numbers(g, v, "padding", n, 0, zero, p->padding, error, code) ||
      !numbers(g, v, "dilation", n, 1, one, p->dilation, error, code))
    return false;
  for (int i = 0; i < n && !p->adaptive; i++)
    if (2 * p->padding[i] > p->window[i])
      return infer_fail(g, error, code, 410, "`padding` is %lld; it is at most half of the window",
                        (long long)p->padding[i]);
  p->divide = is_max(v) ? POOL_sum : (PoolDivide)attr_of(v, "divide")->as.i;
  if (p->divide < POOL_sum || p->divide > POOL_valid)
    return infer_fail(g, error, code, 410, "`divide` of `%s` is 0, 1 or 2", op_def(v->op)->name);
  return true;
}

/* The tensor that windows lie over, of this type but with sizes p->in if they are set. */
static bool read_tensor(const Graph *g, const Value *v, Type t, PoolShape *p, const char **error,
                        int *code) {
  int inner = (int)attr_of(v, "inner")->as.i, lead = t.rank - inner - p->space;
  if (p->space < 1 || p->space > POOL_MAX_SPACE || lead < 0 || inner < 0)
    return infer_fail(g, error, code, 406, "`%s` over %d dimensions of %s", op_def(v->op)->name,
                      p->space, infer_type_text(g, t));
  p->outer = dim_of(1);
  p->inner = 1;
  for (int i = 0; i < t.rank; i++) {
    if (i < lead) {
      if (!dim_mul(p->outer, t.dim[i], &p->outer))
        return infer_fail(g, error, code, 508, "`%s` of %s: the batch occurs twice",
                          op_def(v->op)->name, infer_type_text(g, t));
      continue;
    }
    if (!dim_known(t.dim[i]))
      return infer_fail(g, error, code, 508,
                        "`%s` moves over a dimension of %s, which is not known while compiling",
                        op_def(v->op)->name, infer_dim_text(g, t.dim[i]));
    if (i < lead + p->space)
      p->in[i - lead] = t.dim[i].fixed;
    else
      p->inner *= t.dim[i].fixed;
  }
  if (dtype_category(t.dtype) != 'f')
    return infer_fail(g, error, code, 506, "`%s` takes floats, not %s: cast first",
                      op_def(v->op)->name, dtype_name(t.dtype));
  return true;
}

static bool read_shape(const Graph *g, Value *v, PoolShape *p, const char **error, int *code) {
  Type x = infer_in(g, v, 0), y = infer_in(g, v, v->inputs - 1);
  *p = (PoolShape){.space = attr_of(v, "window")->as.ints.len};
  if (!read_tensor(g, v, x, p, error, code)) return false;
  int lead = x.rank - (int)attr_of(v, "inner")->as.i - p->space;
  v->type = x;
  for (int i = 0; i < p->space && v->op == OP_pool_sum_grad; i++) {
    if (attr_of(v, "to")->as.ints.len != p->space)
      return infer_fail(g, error, code, 406, "`to` of `pool_sum_grad` has %d numbers",
                        attr_of(v, "to")->as.ints.len);
    p->in[i] = attr_of(v, "to")->as.ints.at[i];
    v->type.dim[lead + i] = dim_of(p->in[i]);
  }
  if (!read_attributes(g, v, p, error, code)) return false;
  for (int i = 0; i < p->space; i++) {
    p->out[i] = p->adaptive ? p->window[i] : count(p, i, flag(v, "ceil"));
    if (p->out[i] < 1)
      return infer_fail(g, error, code, 410, "`%s`: a window of %lld does not fit into %s",
                        op_def(v->op)->name, (long long)p->window[i], infer_type_text(g, x));
    if (v->op == OP_pool_max || v->op == OP_pool_sum)
      v->type.dim[lead + i] = dim_of(p->out[i]);
    else if (!dim_is(y.dim[lead + i], p->out[i]))
      return infer_fail(g, error, code, 405, "`%s`: %s is no gradient of %s", op_def(v->op)->name,
                        infer_type_text(g, y), infer_type_text(g, v->type));
  }
  return true;
}

static bool pool_infer(const Graph *g, Value *v, const char **error, int *code) {
  PoolShape p;
  return read_shape(g, v, &p, error, code);
}

PoolShape pool_shape(const Graph *g, const Value *v) {
  Attr attrs[IR_MAX_ATTRS];
  Value copy = infer_copy(v, attrs);
  PoolShape p;
  const char *error;
  int code;
  check(read_shape(g, &copy, &p, &error, &code), "%s: %s", op_def(v->op)->name, error);
  return p;
}

/* ---------- meaning ---------- */

/* Along one dimension: the places of window o, from `first`, `n` of them `step` apart, and how many it has
   with the padding that is there. */
typedef struct Range {
  int64_t first, n, step, padded;
} Range;

static Range range_of(const PoolShape *p, int i, int64_t o) {
  if (p->adaptive) {
    int64_t first = o * p->in[i] / p->out[i];
    int64_t end = ((o + 1) * p->in[i] + p->out[i] - 1) / p->out[i];
    return (Range){first, end - first, 1, end - first};
  }
  int64_t step = p->dilation[i], first = o * p->stride[i] - p->padding[i];
  int64_t end = first + step * (p->window[i] - 1) + 1;
  int64_t last = p->in[i] + p->padding[i]; /* a window that reaches further is cut */
  int64_t padded = (end < last ? end : last) - first;
  while (first < 0) first += step;
  int64_t stop = end < p->in[i] ? end : p->in[i];
  return (Range){first, stop > first ? (stop - first + step - 1) / step : 0, step, padded};
}

typedef struct Spots { /* of one window: flat places in the tensor's windowed dimensions */
  int64_t n, divisor, first[POOL_MAX_SPACE];
  Range range[POOL_MAX_SPACE];
} Spots;

static Spots spots_of(const PoolShape *p, int64_t out) {
  Spots s = {1, 1, {0}, {{0}}};
  for (int i = p->space; i-- > 0; out /= p->out[i]) {
    s.range[i] = range_of(p, i, out % p->out[i]);
    s.n *= s.range[i].n;
    s.divisor *= p->divide == POOL_padded  ? s.range[i].padded
                 : p->divide == POOL_valid ? s.range[i].n
                                           : 1;
  }
  return s;
}

static int64_t spot(const PoolShape *p, const Spots *s, int64_t k) {
  int64_t flat = 0, scale = 1;
  for (int i = p->space; i-- > 0; k /= s->range[i].n) {
    flat += (s->range[i].first + k % s->range[i].n * s->range[i].step) * scale;
    scale *= p->in[i];
  }
  return flat;
}

static void pool_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                           double *out) {
  PoolShape p = pool_shape(g, v);
  bool back = v->inputs == 2 || v->op == OP_pool_sum_grad, max = is_max(v);
  int64_t from = 1, to = 1, total = type_elements_at(v->type, batch);
  for (int i = 0; i < p.space; i++) {
    from *= p.in[i];
    to *= p.out[i];
  }
  const double *small = in[v->inputs - 1]; /* backward: the gradient */
  for (int64_t k = 0; k < total && back; k++) out[k] = 0;
  for (int64_t k = 0; k < dim_at(p.outer, batch) * to * p.inner; k++) {
    int64_t c = k % p.inner, base = k / p.inner / to * from;
    Spots s = spots_of(&p, k / p.inner % to);
    double r = max ? -INFINITY : 0;
    int64_t best = -1;
    for (int64_t f = 0; f < s.n; f++) {
      int64_t at = (base + spot(&p, &s, f)) * p.inner + c;
      if (max ? best < 0 || in[0][at] > r || isnan(in[0][at]) : false) {
        r = in[0][at];
        best = at;
      }
      if (!max && back) out[at] += small[k] / (double)s.divisor;
      if (!max && !back) r += in[0][at];
    }
    if (!back)
      out[k] = max ? r : r / (double)s.divisor;
    else if (best >= 0)
      out[best] += small[k];
  }
}

const OpCode family_pool[] = {
    {.op = OP_pool_max, .infer = pool_infer, .interpret = pool_interpret},
    {.op = OP_pool_sum, .infer = pool_infer, .interpret = pool_interpret},
    {.op = OP_pool_max_grad, .infer = pool_infer, .interpret = pool_interpret},
    {.op = OP_pool_sum_grad, .infer = pool_infer, .interpret = pool_interpret},
    {.op = OP_none},
};
