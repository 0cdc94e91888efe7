/* Views as strides: where each element of a value lies in the memory of the value it was cut from. In: a value
   and a base that it is reshapes, permutations, slices and expansions of. Out: offset and strides, if there
   are such. */
#include "op.h"
#include "plan.h"

static const Attr *attr_of(const Value *x, const char *name) {
  return &x->attr[op_attr(x->op, name)];
}

static bool contiguous(Type t, View *out) {
  Dim n = dim_of(1);
  *out = (View){.offset = dim_of(0)};
  for (int i = t.rank; i-- > 0;) {
    out->stride[i] = n;
    if (!dim_mul(n, t.dim[i], &n)) return false;
  }
  return true;
}

/* The dimensions without those of size 1, which stand nowhere. */
typedef struct Axes {
  int n, at[IR_MAX_RANK];
} Axes;
static Axes real_axes(Type t) {
  Axes a = {0};
  for (int i = 0; i < t.rank; i++)
    if (!dim_is(t.dim[i], 1)) a.at[a.n++] = i;
  return a;
}

/* Is a product of sizes still short of the other size? */
static bool shorter(Dim a, Dim b) {
  return a.per_batch < b.per_batch || (a.per_batch == b.per_batch && a.fixed < b.fixed);
}

/* From the last dimension on: runs of dimensions on both sides with equal products. Dimensions of
   the input that become one must lie one behind the other. */
static bool reshaped(Type from, const View *in, Type to, View *out) {
  Axes a = real_axes(from), b = real_axes(to);
  *out = (View){.offset = in->offset};
  int i = a.n, j = b.n;
  while (i > 0 && j > 0) {
    Dim have = from.dim[a.at[--i]], want = to.dim[b.at[--j]];
    Dim step = in->stride[a.at[i]];
    out->stride[b.at[j]] = step;
    while (!dim_equal(have, want)) {
      if (shorter(have, want)) { /* one more of the input: right behind? */
        Dim end;
        if (i == 0 || !dim_mul(step, have, &end)) return false;
        if (!dim_equal(in->stride[a.at[i - 1]], end)) return false;
        if (!dim_mul(have, from.dim[a.at[--i]], &have)) return false;
      } else {
        Dim next;
        if (j == 0 || !dim_mul(step, want, &next)) return false;
        out->stride[b.at[--j]] = next;
        if (!dim_mul(want, to.dim[b.at[j]], &want)) return false;
      }
    }
  }
  return i == 0 && j == 0;
}

static bool sliced(const Value *x, const View *in, View *out) {
  const Attr *start = attr_of(x, "start"), *step = attr_of(x, "step");
  *out = *in;
  for (int i = 0; i < x->type.rank; i++) {
    Dim skip;
    if (!dim_mul(start->as.dims.at[i], in->stride[i], &skip)) return false;
    out->offset.per_batch += skip.per_batch;
    out->offset.fixed += skip.fixed;
    int64_t k = step->as.ints.len > 0 ? step->as.ints.at[i] : 1;
    if (!dim_mul(in->stride[i], dim_of(k), &out->stride[i])) return false;
  }
  return true;
}

static void expanded(const Graph *g, const Value *x, const View *in, View *out) {
  const Attr *lacks = attr_of(x, "dim");
  Type from = value_at(g, x->in[0])->type;
  *out = (View){.offset = in->offset};
  int own = 0;
  for (int i = 0; i < x->type.rank; i++) {
    bool fresh = false;
    for (int k = 0; k < lacks->as.ints.len; k++) fresh = fresh || lacks->as.ints.at[k] == i;
    if (fresh) continue;
    if (!dim_is(from.dim[own], 1)) out->stride[i] = in->stride[own];
    own++;
  }
}

bool plan_view(const Graph *g, Val v, Val base, View *out) {
  const Value *x = value_at(g, v);
  View in;
  if (v == base) return contiguous(x->type, out);
  if (x->inputs != 1 || !plan_view(g, x->in[0], base, &in)) return false;
  if (x->op == OP_reshape) return reshaped(value_at(g, x->in[0])->type, &in, x->type, out);
  if (x->op == OP_slice) return sliced(x, &in, out);
  if (x->op == OP_expand) {
    expanded(g, x, &in, out);
    return true;
  }
  if (x->op != OP_permute) return false;
  const Attr *dims = attr_of(x, "dims");
  out->offset = in.offset;
  for (int i = 0; i < x->type.rank; i++) out->stride[i] = in.stride[dims->as.ints.at[i]];
  return true;
}

/* Calls that read through strides still want the elements of the last dimension side by side. */
static bool readable(Type t, const View *v) {
  return t.rank == 0 || dim_is(t.dim[t.rank - 1], 1) || dim_is(v->stride[t.rank - 1], 1);
}

Val plan_view_base(const Graph *g, Val v, bool (*stop)(void *self, Val v), void *self) {
  Val base = v;
  View view;
  for (Val at = v; !stop(self, at) && value_at(g, at)->inputs == 1;) {
    at = value_at(g, at)->in[0];
    if (op_has(value_at(g, at)->op, OPF_source) && !stop(self, at)) break;
    if (!plan_view(g, v, at, &view)) break;
    if (readable(value_at(g, v)->type, &view)) base = at;
  }
  return base;
}
