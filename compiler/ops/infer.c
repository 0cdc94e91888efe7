/* Helpers of type rules: messages, promotion, broadcasting, axes. */
#include "family.h"
#include <stdarg.h>

bool infer_fail(const Graph *g, const char **error, int *code, int number, const char *format,
                ...) {
  va_list args;
  va_start(args, format);
  *error = arena_vprintf(g->arena, format, args);
  va_end(args);
  *code = number;
  return false;
}

const char *infer_type_text(const Graph *g, Type type) {
  Text t = {0};
  type_print(&t, type);
  const char *s = arena_strdup(g->arena, t.at);
  text_free(&t);
  return s;
}

const char *infer_dim_text(const Graph *g, Dim d) {
  Text t = {0};
  dim_print(&t, d);
  const char *s = arena_strdup(g->arena, t.at);
  text_free(&t);
  return s;
}

static int category_rank(DType t) {
  char c = dtype_category(t);
  return c == 'b' ? 0 : c == 'i' ? 1 : 2;
}

/* The stronger class keeps its dtype unless the weaker one is of a higher category. */
static bool join(bool has, DType strong, bool has_weak, DType weak, DType *out) {
  if (!has) {
    *out = weak;
    return has_weak;
  }
  *out = has_weak && category_rank(weak) > category_rank(strong) ? weak : strong;
  return true;
}

DType infer_promote(const Graph *g, const Value *v, int first) {
  enum { NUMBER, SCALAR, TENSOR, CLASSES };
  bool has[CLASSES] = {false};
  DType of[CLASSES] = {DT_bool, DT_bool, DT_bool}, out = DT_bool;
  for (int i = first; i < v->inputs; i++) {
    const Value *x = value_at(g, v->in[i]);
    int k = x->type.rank ? TENSOR : x->op == OP_const ? NUMBER : SCALAR;
    of[k] = has[k] ? dtype_promote(of[k], x->type.dtype) : x->type.dtype;
    has[k] = true;
  }
  bool any = join(has[SCALAR], of[SCALAR], has[NUMBER], of[NUMBER], &out);
  join(has[TENSOR], of[TENSOR], any, out, &out);
  return out;
}

bool infer_broadcast(const Graph *g, Type a, Type *into, const char **error, int *code) {
  Type b = *into, r = {.dtype = into->dtype, .rank = a.rank > b.rank ? a.rank : b.rank};
  for (int i = 1; i <= r.rank; i++) { /* from the last dimension */
    Dim da = i <= a.rank ? a.dim[a.rank - i] : dim_of(1);
    Dim db = i <= b.rank ? b.dim[b.rank - i] : dim_of(1);
    if (!dim_is(da, 1) && !dim_is(db, 1) && !dim_equal(da, db))
      return infer_fail(g, error, code, 415, "shapes do not broadcast: %s and %s (sizes %s and %s)",
                        infer_type_text(g, b), infer_type_text(g, a), infer_dim_text(g, db),
                        infer_dim_text(g, da));
    r.dim[r.rank - i] = dim_is(da, 1) ? db : da;
  }
  *into = r;
  return true;
}

bool infer_has_axis(const Attr *axes, int axis) {
  for (int i = 0; i < axes->as.ints.len; i++)
    if (axes->as.ints.at[i] == axis) return true;
  return false;
}

bool infer_axes(const Graph *g, Attr *axes, int rank, bool sort, const char **error, int *code) {
  int n = axes->as.ints.len;
  if (n < 0) {
    n = axes->as.ints.len = rank;
    for (int i = 0; i < rank; i++) axes->as.ints.at[i] = i;
  }
  Attr out = {.as.ints.len = 0};
  for (int i = 0; i < n; i++) {
    int64_t a = axes->as.ints.at[i];
    if (a < -rank || a >= rank)
      return infer_fail(g, error, code, 412,
                        "dim %d is out of range: the tensor has %d dimension%s", (int)a, rank,
                        rank == 1 ? "" : "s");
    if (a < 0) a += rank;
    if (infer_has_axis(&out, (int)a))
      return infer_fail(g, error, code, 412, "dim %d is named twice", (int)a);
    int k = out.as.ints.len++;
    for (; sort && k > 0 && out.as.ints.at[k - 1] > a; k--)
      out.as.ints.at[k] = out.as.ints.at[k - 1];
    out.as.ints.at[k] = a;
  }
  *axes = out;
  return true;
}

bool infer_numbers(const Graph *g, const Value *v, int k, int n, int64_t least, const char **error,
                   int *code) {
  const char *name = op_def(v->op)->attr[k].name;
  const Attr *a = &v->attr[k];
  if (a->as.ints.len != n)
    return infer_fail(g, error, code, 406, "`%s` of `%s` has %d numbers for %d dimension%s", name,
                      op_def(v->op)->name, a->as.ints.len, n, n == 1 ? "" : "s");
  for (int i = 0; i < n; i++)
    if (a->as.ints.at[i] < least)
      return infer_fail(g, error, code, 410, "`%s` of `%s` is %lld; it is at least %lld", name,
                        op_def(v->op)->name, (long long)a->as.ints.at[i], (long long)least);
  return true;
}

Value infer_copy(const Value *v, Attr *room) {
  Value copy = *v;
  op_copy_attrs(v, room);
  copy.attr = room;
  return copy;
}
