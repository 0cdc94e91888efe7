/* Movement without choice of elements: reshape, permute, expand, flip. */
#include "family.h"
#include "die.h"

/* ---------- reshape ---------- */
/* Number of elements as a polynomial in B, so that [B,B] can be compared too. Absurd sizes wrap. */
typedef struct Poly {
  uint64_t at[IR_MAX_RANK + 1];
} Poly;

static Poly poly_elements(const Type *t) {
  Poly p = {{1}};
  for (int i = 0; i < t->rank; i++) {
    Poly q = {{0}};
    for (int k = 0; k <= IR_MAX_RANK; k++) {
      q.at[k] += p.at[k] * (uint64_t)t->dim[i].fixed;
      if (k < IR_MAX_RANK) q.at[k + 1] += p.at[k] * (uint64_t)t->dim[i].per_batch;
    }
    p = q;
  }
  return p;
}

/* The size written as -1: elements of x over those of the other sizes. Sizes that stand on both
   sides are left out first, so that [B, B, 4] -> [B, -1] can be told. */
static bool size_left_over(Type x, Type r, int hole, Dim *out) {
  Dim above = dim_of(1), below = dim_of(1);
  bool used[IR_MAX_RANK] = {false};
  for (int i = 0; i < r.rank; i++) {
    if (i == hole) continue;
    int k = 0;
    while (k < x.rank && (used[k] || !dim_equal(x.dim[k], r.dim[i]))) k++;
    if (k < x.rank)
      used[k] = true;
    else if (!dim_mul(below, r.dim[i], &below))
      return false;
  }
  for (int k = 0; k < x.rank; k++)
    if (!used[k] && !dim_mul(above, x.dim[k], &above)) return false;
  return dim_div(above, below, out);
}

static bool reshape_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0), r = type_scalar(x.dtype);
  Attr *shape = &v->attr[0];
  int hole = -1;
  r.rank = shape->as.dims.len;
  for (int i = 0; i < r.rank; i++) {
    r.dim[i] = shape->as.dims.at[i];
    if (!dim_is(r.dim[i], -1)) continue;
    if (hole >= 0) return infer_fail(g, error, code, 416, "only one size of a shape may be -1");
    hole = i;
  }
  if (hole >= 0) {
    if (!size_left_over(x, r, hole, &r.dim[hole]))
      return infer_fail(g, error, code, 416, "the size written as -1 does not come out whole: %s",
                        infer_type_text(g, x));
    shape->as.dims.at[hole] = r.dim[hole];
  }
  Poly a = poly_elements(&x), b = poly_elements(&r);
  for (int k = 0; k <= IR_MAX_RANK; k++)
    if (a.at[k] != b.at[k])
      return infer_fail(g, error, code, 416, "reshape changes the number of elements: %s to %s",
                        infer_type_text(g, x), infer_type_text(g, r));
  v->type = r;
  return true;
}

static void reshape_interpret(const Graph *g, const Value *v, int64_t batch,
                              const double *const *in, double *out) {
  (void)g;
  int64_t n = type_elements_at(v->type, batch);
  for (int64_t k = 0; k < n; k++) out[k] = in[0][k];
}

static Type part_of(Type t, int from, int to) {
  Type r = type_scalar(t.dtype);
  for (int i = from; i < to; i++) r.dim[r.rank++] = t.dim[i];
  return r;
}

/* Dimensions are taken in the smallest groups of equal products, so that [B,64] -> [B,8,8] leaves
   the batch alone and only splits the 64. */
static NestTemp reshape_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  Type to = y->type, from = value_at(n->g, y->in[0])->type;
  NestIndex at[IR_MAX_RANK];
  int a = 0, b = 0; /* first dimensions of the group in from, to */
  while (a < from.rank || b < to.rank) {
    int i = a, j = b;
    Dim p = dim_of(1), q = dim_of(1);
    bool linear = true;
    if (i < from.rank) p = from.dim[i++];
    if (j < to.rank) q = to.dim[j++];
    while (linear && !dim_equal(p, q) && (i < from.rank || j < to.rank)) {
      /* the side with the smaller product grows; a side at its end waits */
      bool grow_from =
          j == to.rank || (i < from.rank && (p.per_batch < q.per_batch ||
                                             (p.per_batch == q.per_batch && p.fixed < q.fixed)));
      linear = grow_from ? dim_mul(p, from.dim[i++], &p) : dim_mul(q, to.dim[j++], &q);
    }
    if (!linear || !dim_equal(p, q)) i = from.rank, j = to.rank; /* the rest in one piece */
    if (i - a == 1 && j - b == 1) {
      at[a] = index[b];
    } else {
      Type in = part_of(from, a, i), out = part_of(to, b, j);
      nest_ix_unflat(n, in, nest_ix_flat(n, out, index + b), at + a);
    }
    a = i;
    b = j;
  }
  return nest_pull(n, y->in[0], at);
}

/* ---------- permute ---------- */
static bool permute_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0);
  Attr *dims = &v->attr[0];
  if (dims->as.ints.len != x.rank)
    return infer_fail(g, error, code, 406, "permute names %d dims of a tensor of rank %d",
                      dims->as.ints.len, x.rank);
  if (!infer_axes(g, dims, x.rank, false, error, code)) return false;
  if (v->attr[1].as.i) {
    Attr inverse = *dims;
    for (int i = 0; i < x.rank; i++) inverse.as.ints.at[dims->as.ints.at[i]] = i;
    *dims = inverse;
    v->attr[1].as.i = 0;
  }
  v->type = x;
  for (int i = 0; i < x.rank; i++) v->type.dim[i] = x.dim[dims->as.ints.at[i]];
  return true;
}

static void permute_interpret(const Graph *g, const Value *v, int64_t batch,
                              const double *const *in, double *out) {
  Extent x = extent_in(g, v, 0, batch), y = extent_of(v->type, batch);
  for (int64_t k = 0; k < y.count; k++) {
    int64_t at[IR_MAX_RANK], flat = 0;
    extent_split(&y, k, at);
    for (int i = 0; i < y.rank; i++) flat += at[i] * x.stride[v->attr[0].as.ints.at[i]];
    out[k] = in[0][flat];
  }
}

static NestTemp permute_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  NestIndex at[IR_MAX_RANK];
  for (int i = 0; i < y->type.rank; i++) at[y->attr[0].as.ints.at[i]] = index[i];
  return nest_pull(n, y->in[0], at);
}

/* ---------- expand ---------- */
static bool expand_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0), r = type_scalar(x.dtype);
  Attr *dim = &v->attr[1];
  r.rank = v->attr[0].as.dims.len;
  for (int i = 0; i < r.rank; i++) r.dim[i] = v->attr[0].as.dims.at[i];
  int lacking = r.rank - x.rank;
  if (lacking < 0)
    return infer_fail(g, error, code, 415, "%s cannot be expanded to %s", infer_type_text(g, x),
                      infer_type_text(g, r));
  if (lacking == 0) dim->as.ints.len = 0;
  if (dim->as.ints.len < 0) {
    dim->as.ints.len = lacking;
    for (int i = 0; i < lacking; i++) dim->as.ints.at[i] = i;
  }
  if (!infer_axes(g, dim, r.rank, true, error, code)) return false;
  if (dim->as.ints.len != lacking)
    return infer_fail(g, error, code, 415, "%s cannot be expanded to %s along %d dims",
                      infer_type_text(g, x), infer_type_text(g, r), dim->as.ints.len);
  for (int i = 0, k = 0; i < r.rank; i++) {
    if (infer_has_axis(dim, i)) continue;
    if (!dim_is(x.dim[k], 1) && !dim_equal(x.dim[k], r.dim[i]))
      return infer_fail(g, error, code, 415, "%s cannot be expanded to %s (sizes %s and %s)",
                        infer_type_text(g, x), infer_type_text(g, r), infer_dim_text(g, x.dim[k]),
                        infer_dim_text(g, r.dim[i]));
    k++;
  }
  v->type = r;
  return true;
}

static void expand_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                             double *out) {
  Extent x = extent_in(g, v, 0, batch), y = extent_of(v->type, batch);
  for (int64_t k = 0; k < y.count; k++) {
    int64_t at[IR_MAX_RANK], flat = 0;
    extent_split(&y, k, at);
    for (int i = 0, d = 0; i < y.rank; i++) {
      if (infer_has_axis(&v->attr[1], i)) continue;
      if (x.size[d] != 1) flat += at[i] * x.stride[d];
      d++;
    }
    out[k] = in[0][flat];
  }
}

static NestTemp expand_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  Type x = value_at(n->g, y->in[0])->type;
  NestIndex at[IR_MAX_RANK];
  for (int i = 0, d = 0; i < y->type.rank; i++) {
    if (infer_has_axis(&y->attr[1], i)) continue;
    at[d] = dim_is(x.dim[d], 1) ? nest_ix_const(n, dim_of(0)) : index[i];
    d++;
  }
  return nest_pull(n, y->in[0], at);
}

/* ---------- flip ---------- */
static bool flip_infer(const Graph *g, Value *v, const char **error, int *code) {
  v->type = infer_in(g, v, 0);
  return infer_axes(g, &v->attr[0], v->type.rank, true, error, code);
}

static void flip_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                           double *out) {
  (void)g;
  Extent y = extent_of(v->type, batch);
  for (int64_t k = 0; k < y.count; k++) {
    int64_t at[IR_MAX_RANK];
    extent_split(&y, k, at);
    for (int i = 0; i < y.rank; i++)
      if (infer_has_axis(&v->attr[0], i)) at[i] = y.size[i] - 1 - at[i];
    out[k] = in[0][extent_flat(&y, at)];
  }
}

static NestTemp flip_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  NestIndex at[IR_MAX_RANK];
  for (int i = 0; i < y->type.rank; i++) {
    at[i] = index[i];
    if (!infer_has_axis(&y->attr[0], i)) continue;
    Dim last = y->type.dim[i];
    last.fixed -= 1;
    at[i] = nest_ix_add(n, nest_ix_const(n, last), nest_ix_mul(n, index[i], dim_of(-1)));
  }
  return nest_pull(n, y->in[0], at);
}

const OpCode family_movement[] = {
    {.op = OP_reshape,
     .infer = reshape_infer,
     .interpret = reshape_interpret,
     .lower = reshape_lower},
    {.op = OP_permute,
     .infer = permute_infer,
     .interpret = permute_interpret,
     .lower = permute_lower},
    {.op = OP_expand, .infer = expand_infer, .interpret = expand_interpret, .lower = expand_lower},
    {.op = OP_flip, .infer = flip_infer, .interpret = flip_interpret, .lower = flip_lower},
    {.op = OP_none},
};
