/* attention(q, k, v, mask?; causal, scale, keep, site) and its gradient. Time stands before the heads, as a
   projection leaves them: q [B, T, H, K], k [B, S, G, K], v [B, S, G, V] -> [B, T, H, V]; each head of k and
   v serves H / G heads of q. mask broadcasts to [B, H, T, S]: bool says what may be seen, f32 is added.
   keep < 1: weights are kept with that probability and scaled, by the draws of `site`. A row that sees
   nothing is zero.

   attention's by-product 1 is the logsumexp of each row [B, H, T], 0 for a row that sees nothing.
   attention_grad(g, y, logsumexp, q, k, v, mask?; ...) is the gradient of q; by-products 1 and 2 are those
   of k and v. */
#include "die.h"
#include "family.h"
#include <math.h>
#include <stdlib.h>

enum { Q, K, V, MASK, GRAD_FIRST = 3 };

static bool has_rank(const Graph *g, const Value *v, int first, const char **error, int *code) {
  for (int i = first; i < first + MASK; i++) {
    Type t = infer_in(g, v, i);
    if (t.rank != 4 || dtype_category(t.dtype) != 'f' || t.dtype != infer_in(g, v, first).dtype)
      return infer_fail(g, error, code, 406,
                        "attention takes floats of rank 4 and one type, not %s",
                        infer_type_text(g, t));
  }
  return true;
}

static bool mask_fits(const Graph *g, Type mask, Type q, Type k, const char **error, int *code) {
  Type scores = {.dtype = DT_f32, .rank = 4, .dim = {q.dim[0], q.dim[2], q.dim[1], k.dim[1]}};
  bool fits = mask.rank <= 4 && (mask.dtype == DT_bool || dtype_category(mask.dtype) == 'f');
  for (int i = 0; fits && i < mask.rank; i++) {
    Dim d = mask.dim[i];
    fits = dim_is(d, 1) || dim_equal(d, scores.dim[i + 4 - mask.rank]);
  }
  return fits || infer_fail(g, error, code, 415, "a mask %s for scores %s",
                            infer_type_text(g, mask), infer_type_text(g, scores));
}

/* Inputs from `first` on are q, k, v and perhaps a mask. */
static bool operands_fit(const Graph *g, const Value *v, int first, const char **error, int *code) {
  if (v->inputs != first + MASK && v->inputs != first + MASK + 1)
    return infer_fail(g, error, code, 503, "attention takes q, k, v and perhaps a mask");
  if (!has_rank(g, v, first, error, code)) return false;
  Type q = infer_in(g, v, first + Q), k = infer_in(g, v, first + K), x = infer_in(g, v, first + V);
  bool fits = dim_equal(q.dim[0], k.dim[0]) && dim_equal(q.dim[3], k.dim[3]);
  for (int i = 0; i < 3; i++) fits = fits && dim_equal(k.dim[i], x.dim[i]);
  for (int i = 1; i < 4; i++)
    fits = fits && dim_known(q.dim[i]) && dim_known(k.dim[i]) && dim_known(x.dim[i]);
  if (!fits || q.dim[2].fixed % k.dim[2].fixed)
    return infer_fail(g, error, code, 405, "sizes differ in attention: %s, %s, %s",
                      infer_type_text(g, q), infer_type_text(g, k), infer_type_text(g, x));
  return v->inputs == first + MASK || mask_fits(g, infer_in(g, v, first + MASK), q, k, error, code);
}

static bool attention_infer(const Graph *g, Value *v, const char **error, int *code) {
  if (!operands_fit(g, v, 0, error, code)) return false;
  v->type = infer_in(g, v, Q);
  v->type.dim[3] = infer_in(g, v, V).dim[3];
  return true;
}

static bool logsumexp_type(const Graph *g, const Value *v, int index, Type *out) {
  Type q = infer_in(g, v, Q);
  *out = (Type){.dtype = DT_f32, .rank = 3, .dim = {q.dim[0], q.dim[2], q.dim[1]}};
  return index == 1;
}

static bool grad_infer(const Graph *g, Value *v, const char **error, int *code) {
  if (!operands_fit(g, v, GRAD_FIRST, error, code)) return false;
  Type y = infer_in(g, v, GRAD_FIRST + Q);
  y.dim[3] = infer_in(g, v, GRAD_FIRST + V).dim[3];
  Type lse = {.dtype = infer_in(g, v, 2).dtype, .rank = 3, .dim = {y.dim[0], y.dim[2], y.dim[1]}};
  if (!type_equal(infer_in(g, v, 0), y) || !type_equal(infer_in(g, v, 1), y) ||
      !type_equal(infer_in(g, v, 2), lse))
    return infer_fail(g, error, code, 405, "the gradient of an attention with another result");
  v->type = infer_in(g, v, GRAD_FIRST + Q);
  return true;
}

static bool grad_part_type(const Graph *g, const Value *v, int index, Type *out) {
  if (index < 1 || index > 2) return false;
  *out = infer_in(g, v, GRAD_FIRST + index);
  return true;
}

/* ---------- meaning ---------- */
typedef struct Heads {
  const double *q, *k, *v, *mask;
  Extent eq, ek, ev, em;
  int64_t step[4]; /* of the mask, over batch, head, query, key */
  bool added, causal;
  double scale;
  int64_t share; /* heads of q for one of k */
} Heads;

static Heads heads_of(const Graph *g, const Value *v, int first, int64_t batch,
                      const double *const *in) {
  Heads h = {.q = in[first + Q], .k = in[first + K], .v = in[first + V]};
  h.eq = extent_in(g, v, first + Q, batch);
  h.ek = extent_in(g, v, first + K, batch);
  h.ev = extent_in(g, v, first + V, batch);
  h.causal = v->attr[op_attr(v->op, "causal")].as.i != 0;
  h.scale = v->attr[op_attr(v->op, "scale")].as.f;
  h.share = h.eq.size[2] / h.ek.size[2];
  check(v->attr[op_attr(v->op, "keep")].as.f == 1, "the interpreter draws no weights of attention");
  if (v->inputs == first + MASK) return h;
  h.mask = in[first + MASK];
  h.em = extent_in(g, v, first + MASK, batch);
  h.added = infer_in(g, v, first + MASK).dtype != DT_bool;
  for (int i = 0; i < h.em.rank; i++)
    if (h.em.size[i] != 1) h.step[i + 4 - h.em.rank] = h.em.stride[i];
  return h;
}

static const double *row_of(const double *x, const Extent *e, int64_t b, int64_t t, int64_t h) {
  return x + b * e->stride[0] + t * e->stride[1] + h * e->stride[2];
}

static double dot(const double *a, const double *b, int64_t n) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}

static double score(const Heads *h, int64_t b, int64_t t, int64_t head, int64_t s) {
  if (h->causal && s > t) return -INFINITY;
  double x = dot(row_of(h->q, &h->eq, b, t, head), row_of(h->k, &h->ek, b, s, head / h->share),
                 h->eq.size[3]) *
             h->scale;
  if (!h->mask) return x;
  double m = h->mask[b * h->step[0] + head * h->step[1] + t * h->step[2] + s * h->step[3]];
  return h->added ? x + m : m != 0 ? x : -INFINITY;
}

/* The logsumexp of a row; 0 where it sees nothing. */
static double row_logsumexp(const Heads *h, int64_t b, int64_t t, int64_t head) {
  double most = -INFINITY, sum = 0;
  int64_t n = h->ek.size[1];
  for (int64_t s = 0; s < n; s++) most = fmax(most, score(h, b, t, head, s));
  if (most == -INFINITY) return 0;
  for (int64_t s = 0; s < n; s++) sum += exp(score(h, b, t, head, s) - most);
  return most + log(sum);
}

static void attention_interpret(const Graph *g, const Value *v, int64_t batch,
                                const double *const *in, double *out) {
  Heads h = heads_of(g, v, 0, batch, in);
  Extent y = extent_of(v->type, batch);
  for (int64_t e = 0; e < y.count; e++) out[e] = 0;
  for (int64_t e = 0; e < y.count; e += y.size[3]) {
    int64_t at[IR_MAX_RANK];
    extent_split(&y, e, at);
    double lse = row_logsumexp(&h, at[0], at[1], at[2]);
    for (int64_t s = 0; s < h.ek.size[1]; s++) {
      double w = exp(score(&h, at[0], at[1], at[2], s) - lse);
      const double *x = row_of(h.v, &h.ev, at[0], s, at[2] / h.share);
      for (int64_t c = 0; c < y.size[3] && w != 0; c++) out[e + c] += w * x[c];
    }
  }
}

static void logsumexp_interpret(const Graph *g, const Value *v, int64_t batch,
                                const double *const *in, int index, double *out) {
  Heads h = heads_of(g, v, 0, batch, in);
  Type t;
  logsumexp_type(g, v, index, &t);
  Extent y = extent_of(t, batch);
  for (int64_t e = 0; e < y.count; e++) {
    int64_t at[IR_MAX_RANK];
    extent_split(&y, e, at);
    out[e] = row_logsumexp(&h, at[0], at[2], at[1]);
  }
}

/* which: 0 = q, 1 = k, 2 = v. */
static void grad_interpret_part(const Graph *g, const Value *v, int64_t batch,
                                const double *const *in, int which, double *out) {
  Heads h = heads_of(g, v, GRAD_FIRST, batch, in);
  const Extent *to = which == Q ? &h.eq : which == K ? &h.ek : &h.ev;
  Extent y = extent_in(g, v, 0, batch);
  for (int64_t e = 0; e < to->count; e++) out[e] = 0;
  for (int64_t e = 0; e < y.count; e += y.size[3]) {
    int64_t at[IR_MAX_RANK];
    extent_split(&y, e, at);
    int64_t b = at[0], t = at[1], head = at[2], row = (b * y.size[2] + head) * y.size[1] + t;
    const double *dy = in[0] + e;
    double delta = dot(dy, in[1] + e, y.size[3]);
    for (int64_t s = 0; s < h.ek.size[1]; s++) {
      double w = exp(score(&h, b, t, head, s) - in[2][row]);
      double ds = w * (dot(dy, row_of(h.v, &h.ev, b, s, head / h.share), y.size[3]) - delta);
      const double *from = which == Q   ? row_of(h.k, &h.ek, b, s, head / h.share)
                           : which == K ? row_of(h.q, &h.eq, b, t, head)
                                        : dy;
      double *sum = out + (which == Q ? row_of(out, to, b, t, head) - out
                                      : row_of(out, to, b, s, head / h.share) - out);
      double f = which == V ? w : ds * h.scale;
      for (int64_t c = 0; c < to->size[3]; c++) sum[c] += f * from[c];
    }
  }
}

static void grad_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                           double *out) {
  grad_interpret_part(g, v, batch, in, Q, out);
}

/* Two products of [T, K] and [S, K] each; causal ones do half of it. */
static double products(const Graph *g, const Value *v, int first, int64_t batch, int n) {
  Type q = infer_in(g, v, first), k = infer_in(g, v, first + K), x = infer_in(g, v, first + V);
  double scores = (double)dim_at(q.dim[0], batch) * (double)q.dim[2].fixed *
                  (double)q.dim[1].fixed * (double)k.dim[1].fixed;
  bool causal = v->attr[op_attr(v->op, "causal")].as.i != 0;
  return (causal ? 0.5 : 1) * n * scores * (double)(q.dim[3].fixed + x.dim[3].fixed);
}
static double attention_flops(const Graph *g, const Value *v, int64_t batch) {
  return products(g, v, 0, batch, 2);
}
static double grad_flops(const Graph *g, const Value *v, int64_t batch) {
  return products(g, v, GRAD_FIRST, batch, 5);
}

const OpCode family_attention[] = {
    {.op = OP_attention,
     .infer = attention_infer,
     .interpret = attention_interpret,
     .part_type = logsumexp_type,
     .interpret_part = logsumexp_interpret,
     .flops = attention_flops},
    {.op = OP_attention_grad,
     .infer = grad_infer,
     .interpret = grad_interpret,
     .part_type = grad_part_type,
     .interpret_part = grad_interpret_part,
     .flops = grad_flops},
    {.op = OP_none},
};
