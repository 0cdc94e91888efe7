/* Windows: windows and spread move elements. Space is the last dimensions, one for each entry of the lists of
   attributes; its sizes are known. */
#include "family.h"
#include "die.h"

static bool space_known(const Graph *g, const Value *v, Type x, int n, const char **error,
                        int *code) {
  if (n > x.rank)
    return infer_fail(g, error, code, 406, "`%s` over %d dimensions of %s", op_def(v->op)->name, n,
                      infer_type_text(g, x));
  for (int i = x.rank - n; i < x.rank; i++)
    if (!dim_known(x.dim[i]))
      return infer_fail(g, error, code, 508,
                        "`%s` moves over a dimension of %s, which is not known while compiling",
                        op_def(v->op)->name, infer_dim_text(g, x.dim[i]));
  return true;
}

/* Number of windows of `size` places along a dimension; less than 1: it does not fit. */
static int64_t window_count(int64_t x, int64_t size, int64_t stride, int64_t padding,
                            int64_t dilation) {
  int64_t room = x + 2 * padding - dilation * (size - 1) - 1;
  return room < 0 ? 0 : room / stride + 1;
}

static bool too_small(const Graph *g, const Value *v, Type x, int64_t size, const char **error,
                      int *code) {
  return infer_fail(g, error, code, 410, "`%s`: a window of %lld does not fit into %s",
                    op_def(v->op)->name, (long long)size, infer_type_text(g, x));
}

/* ---------- windows, spread ---------- */

static bool windows_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0);
  const int64_t *size = v->attr[0].as.ints.at;
  int n = v->attr[0].as.ints.len, lead = x.rank - n;
  if (!space_known(g, v, x, n, error, code)) return false;
  for (int k = 0; k < 3; k++)
    if (!infer_numbers(g, v, k, n, 1, error, code)) return false;
  if (x.rank + n > IR_MAX_RANK)
    return infer_fail(g, error, code, 406, "windows of %s have more than %d dimensions",
                      infer_type_text(g, x), IR_MAX_RANK);
  v->type = x;
  v->type.rank = x.rank + n;
  for (int i = 0; i < n; i++) {
    int64_t count = window_count(x.dim[lead + i].fixed, size[i], v->attr[1].as.ints.at[i], 0,
                                 v->attr[2].as.ints.at[i]);
    if (count < 1) return too_small(g, v, x, size[i], error, code);
    v->type.dim[lead + i] = dim_of(size[i]);
    v->type.dim[lead + n + i] = dim_of(count);
  }
  return true;
}

static void windows_interpret(const Graph *g, const Value *v, int64_t batch,
                              const double *const *in, double *out) {
  Extent x = extent_in(g, v, 0, batch), y = extent_of(v->type, batch);
  int n = v->attr[0].as.ints.len, lead = x.rank - n;
  for (int64_t k = 0; k < y.count; k++) {
    int64_t at[IR_MAX_RANK];
    extent_split(&y, k, at);
    for (int i = 0; i < n; i++)
      at[lead + i] =
          at[lead + n + i] * v->attr[1].as.ints.at[i] + at[lead + i] * v->attr[2].as.ints.at[i];
    out[k] = in[0][extent_flat(&x, at)];
  }
}

static NestTemp windows_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  NestIndex at[IR_MAX_RANK];
  int space = y->attr[0].as.ints.len, lead = y->type.rank - 2 * space;
  for (int i = 0; i < lead; i++) at[i] = index[i];
  for (int i = 0; i < space; i++)
    at[lead + i] =
        nest_ix_add(n, nest_ix_mul(n, index[lead + space + i], dim_of(y->attr[1].as.ints.at[i])),
                    nest_ix_mul(n, index[lead + i], dim_of(y->attr[2].as.ints.at[i])));
  return nest_pull(n, y->in[0], at);
}

static bool spread_infer(const Graph *g, Value *v, const char **error, int *code) {
  Type x = infer_in(g, v, 0);
  int n = v->attr[0].as.ints.len;
  if (!space_known(g, v, x, 2 * n, error, code)) return false;
  for (int k = 0; k < 3; k++)
    if (!infer_numbers(g, v, k, n, 1, error, code)) return false;
  v->type = x;
  for (int i = 0; i < n; i++) v->type.dim[x.rank - n + i] = dim_of(v->attr[0].as.ints.at[i]);
  return true;
}

static void spread_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                             double *out) {
  Extent x = extent_in(g, v, 0, batch), y = extent_of(v->type, batch);
  int n = v->attr[0].as.ints.len, lead = x.rank - 2 * n;
  for (int64_t k = 0; k < y.count; k++) out[k] = 0;
  for (int64_t k = 0; k < x.count; k++) {
    int64_t at[IR_MAX_RANK];
    bool inside = true;
    extent_split(&x, k, at);
    for (int i = 0; i < n; i++) {
      int64_t *o = &at[lead + n + i];
      *o = *o * v->attr[1].as.ints.at[i] + at[lead + i] * v->attr[2].as.ints.at[i];
      inside = inside && *o < y.size[lead + n + i];
    }
    if (inside) out[extent_flat(&y, at)] = in[0][k];
  }
}

static NestTemp both(Nest *n, NestTemp a, NestTemp b) {
  return a ? nest_op(n, OP_and, DT_bool, a, b, 0) : b;
}

static NestTemp compare(Nest *n, OpKind op, NestIndex ix, int64_t bound) {
  return nest_op(n, op, DT_bool, nest_index(n, ix), nest_index(n, nest_ix_const(n, dim_of(bound))),
                 0);
}

static NestTemp spread_lower(Nest *n, Val v, const NestIndex *index) {
  const Value *y = value_at(n->g, v);
  Type x = value_at(n->g, y->in[0])->type;
  NestIndex at[IR_MAX_RANK];
  NestTemp inside = 0;
  int space = y->attr[0].as.ints.len, lead = x.rank - 2 * space;
  for (int i = 0; i < lead + space; i++) at[i] = index[i];
  for (int i = 0; i < space; i++) {
    int64_t stride = y->attr[1].as.ints.at[i], dilation = y->attr[2].as.ints.at[i];
    int64_t count = x.dim[lead + space + i].fixed;
    NestIndex from =
        nest_ix_add(n, index[lead + space + i], nest_ix_mul(n, index[lead + i], dim_of(-dilation)));
    inside = both(n, inside, compare(n, OP_ge, from, 0));
    inside = both(n, inside, compare(n, OP_le, from, (count - 1) * stride));
    if (stride > 1)
      inside = both(n, inside, compare(n, OP_eq, nest_ix_mod(n, from, dim_of(stride)), 0));
    at[lead + space + i] = stride > 1 ? nest_ix_div(n, from, dim_of(stride)) : from;
  }
  if (!inside) return nest_pull(n, y->in[0], at);
  NestTemp t = nest_pull_guarded(n, y->in[0], at, inside);
  return nest_select(n, inside, t, nest_const(n, 0, y->type.dtype));
}

const OpCode family_windows[] = {
    {.op = OP_windows,
     .infer = windows_infer,
     .interpret = windows_interpret,
     .lower = windows_lower},
    {.op = OP_spread, .infer = spread_infer, .interpret = spread_interpret, .lower = spread_lower},
    {.op = OP_none},
};
