/* x[...]: items of lists and module lists, and indexing of tensors by ints, slices, none and `...`.
   Ints drop a dimension, slices keep it, none inserts one. Bounds are clamped as in Python where both
   are known; against a symbolic size only what can be decided for every batch is taken. */
#include "builtin.h"
#include "expr.h"
#include "fold.h"
#include "op.h"

/* ---------- lists ---------- */

static bool item_index(Eval *e, Datum d, Span at, uint32_t len, uint32_t *out) {
  int64_t i;
  if (!need_int(e, d, at, "the index of a list", &i)) return false;
  int64_t k = i < 0 ? i + len : i;
  if (k < 0 || k >= len) {
    eval_report(e, DIAG_E0413, at, "index %lld of a list of %u", (long long)i, len);
    return false;
  }
  return *out = (uint32_t)k, true;
}

static bool slice_bound(Eval *e, const Expr *x, Env *env, int64_t otherwise, int64_t *out) {
  if (!x) return *out = otherwise, true;
  return need_int(e, eval_expr(e, x, env), x->span, "the bound of a slice", out);
}

static int64_t clamp_bound(int64_t i, int64_t len) {
  if (i < 0) i += len;
  return i < 0 ? 0 : i > len ? len : i;
}

/* Of a slice with a negative step: from start down to the element after stop, which may be -1. */
static void backward_bounds(int64_t len, int64_t *start, int64_t *stop) {
  if (*start < 0) *start += len;
  if (*stop < 0) *stop += len;
  if (*start >= len) *start = len - 1;
  if (*stop >= len) *stop = len - 1;
  if (*stop < -1) *stop = -1;
}

static Datum list_slice(Eval *e, DatumList list, const Subscript *s, Env *env) {
  int64_t len = list.len, step, start, stop;
  if (!slice_bound(e, s->step, env, 1, &step)) return datum_error();
  if (!step) {
    eval_report(e, DIAG_E0413, s->span, "the step of a slice is 0");
    return datum_error();
  }
  Datum *items = ARENA_ARRAY(e->arena, Datum, len ? len : 1);
  uint32_t n = 0;
  if (step < 0) {
    if (!slice_bound(e, s->start, env, len - 1, &start)) return datum_error();
    if (!slice_bound(e, s->stop, env, -len - 1, &stop)) return datum_error();
    backward_bounds(len, &start, &stop);
    for (int64_t i = start; i > stop; i += step) items[n++] = list.at[i];
  } else {
    if (!slice_bound(e, s->start, env, 0, &start)) return datum_error();
    if (!slice_bound(e, s->stop, env, len, &stop)) return datum_error();
    start = clamp_bound(start, len);
    stop = clamp_bound(stop, len);
    for (int64_t i = start; i < stop; i += step) items[n++] = list.at[i];
  }
  return (Datum){.kind = DATUM_list, .as.list = {items, n}};
}

static Datum list_subscript(Eval *e, Datum object, const Expr *x, Env *env) {
  DatumList list;
  if (!iterate(e, object, x->span, &list)) return datum_error();
  const Subscript *s = &x->as.index.subs.at[0];
  if (x->as.index.subs.len != 1 || s->kind == SUB_ellipsis) {
    eval_report(e, DIAG_E0501, x->span, "a list takes one index or slice");
    return datum_error();
  }
  if (s->kind == SUB_slice) return list_slice(e, list, s, env);
  uint32_t i;
  if (!item_index(e, eval_expr(e, s->start, env), s->span, list.len, &i)) return datum_error();
  return list.at[i];
}

static Datum map_subscript(Eval *e, Datum object, const Expr *x, Env *env) {
  const Subscript *s = &x->as.index.subs.at[0];
  const char *key;
  if (x->as.index.subs.len != 1 || s->kind != SUB_index) {
    eval_report(e, DIAG_E0501, x->span, "a map takes one key");
    return datum_error();
  }
  if (!need_text(e, eval_expr(e, s->start, env), s->span, "the key of a map", &key))
    return datum_error();
  const Datum *d = datum_map_find(object, key);
  if (d) return *d;
  eval_report(e, DIAG_E0413, s->span, "the map has no key `%s`", key);
  return datum_error();
}

/* ---------- tensors ---------- */

typedef struct Take { /* one dimension of the result of the slice */
  Dim start, stop;
  int64_t step;
  bool drop;  /* an index: the dimension goes */
  bool fresh; /* none: a new dimension of 1 */
  Val at;     /* an index that is known at run time only; NO_VAL: none */
} Take;

/* A bound against a size; known: clamped. With the batch in it: decided or E0414. */
static bool tensor_bound(Eval *e, const Expr *x, Env *env, Dim size, Dim otherwise, Dim *out) {
  if (!x) return *out = otherwise, true;
  Dim d;
  if (!need_dim(e, eval_expr(e, x, env), x->span, "the bound of a slice", &d)) return false;
  if (dim_known(d) && dim_known(size)) return *out = dim_of(clamp_bound(d.fixed, size.fixed)), true;
  if (dim_equal(d, size)) return *out = d, true;
  if (dim_known(d)) { /* k: or :k needs k elements, -k counts from the end */
    *out = d.fixed >= 0 ? d : (Dim){size.per_batch, size.fixed + d.fixed};
    if (d.fixed <= 0) return true;
    /* at least k in every batch of one or more */
    if (size.per_batch >= 0 && size.per_batch + size.fixed >= d.fixed) return true;
  }
  Text t = {0};
  dim_print(&t, size);
  eval_report(e, DIAG_E0414, x->span, "this bound cannot be decided against the size %s", t.at);
  text_free(&t);
  return false;
}

/* The same elements forwards: apply_takes turns them round. */
static bool take_backward(Eval *e, const Subscript *s, Env *env, Dim size, Take *t) {
  int64_t start, stop;
  if (!dim_known(size)) {
    eval_report(e, DIAG_E0414, s->span, "a step against a symbolic size");
    return false;
  }
  if (!slice_bound(e, s->start, env, size.fixed - 1, &start)) return false;
  if (!slice_bound(e, s->stop, env, -size.fixed - 1, &stop)) return false;
  backward_bounds(size.fixed, &start, &stop);
  if (start <= stop) {
    eval_report(e, DIAG_E0410, s->span, "this slice is empty");
    return false;
  }
  int64_t last = start + (start - stop - 1) / -t->step * t->step;
  t->start = dim_of(last);
  t->stop = dim_of(start + 1);
  return true;
}

static bool take_slice(Eval *e, const Subscript *s, Env *env, Dim size, Take *t) {
  t->step = 1;
  if (s->step && !slice_bound(e, s->step, env, 1, &t->step)) return false;
  if (t->step == -1 && !s->start && !s->stop) return t->start = dim_of(0), t->stop = size, true;
  if (!t->step) {
    eval_report(e, DIAG_E0413, s->span, "the step of a slice is 0");
    return false;
  }
  if (t->step < 0) return take_backward(e, s, env, size, t);
  if (!tensor_bound(e, s->start, env, size, dim_of(0), &t->start)) return false;
  if (!tensor_bound(e, s->stop, env, size, size, &t->stop)) return false;
  if (t->step > 1 && !dim_known(size)) {
    eval_report(e, DIAG_E0414, s->span, "a step against a symbolic size");
    return false;
  }
  if (dim_known(t->start) && dim_known(t->stop) && t->stop.fixed < t->start.fixed)
    t->stop = t->start;
  if (dim_equal(t->start, t->stop)) {
    eval_report(e, DIAG_E0410, s->span, "this slice is empty");
    return false;
  }
  return true;
}

static bool take_index(Eval *e, Datum d, const Subscript *s, Dim size, Take *t) {
  int64_t i;
  if (datum_is_tensorlike(d)) {
    Type is = tensor_type(e, d);
    if (!is.rank && dtype_category(is.dtype) == 'i') {
      *t = (Take){dim_of(0), size, 1, false, false, NO_VAL};
      return need_tensor(e, d, s->span, "an index", &t->at);
    }
    eval_report(e, is.rank ? DIAG_E0406 : DIAG_E0506, s->span,
                "an index is one integer; this is %s", datum_describe(e, d));
    diag_help("`rows(table, index)` and `gather(x, index, dim)` take tensors of indices");
    return false;
  }
  if (!need_int(e, d, s->span, "an index", &i)) return false;
  Dim at = i >= 0 ? dim_of(i) : (Dim){size.per_batch, size.fixed + i};
  int64_t least = size.per_batch >= 0 ? size.per_batch + size.fixed : 0;
  if (dim_known(size)) least = size.fixed;
  if (i >= least || i < -least) {
    Text text = {0};
    dim_print(&text, size);
    eval_report(e, DIAG_E0413, s->span, "index %lld of a dimension of %s", (long long)i, text.at);
    text_free(&text);
    return false;
  }
  *t = (Take){at, {at.per_batch, at.fixed + 1}, 1, true, false, NO_VAL};
  return true;
}

/* One Take per subscript, with `...` and what is left out filled in. Gives their number; -1. */
static int plan_takes(Eval *e, const Expr *x, Env *env, Type is, Take *take, int max) {
  SubscriptList subs = x->as.index.subs;
  Datum *index = ARENA_ARRAY(e->arena, Datum, subs.len + 1);
  int used = 0, ellipses = 0;
  for (uint32_t i = 0; i < subs.len; i++) {
    if (subs.at[i].kind == SUB_index) index[i] = eval_expr(e, subs.at[i].start, env);
    if (subs.at[i].kind == SUB_index && index[i].kind == DATUM_error) return -1;
    ellipses += subs.at[i].kind == SUB_ellipsis;
    used += subs.at[i].kind == SUB_slice ||
            (subs.at[i].kind == SUB_index && index[i].kind != DATUM_none);
  }
  if (used > is.rank || ellipses > 1) {
    eval_report(e, ellipses > 1 ? DIAG_E0407 : DIAG_E0406, x->span, "%d indices for %d dimensions",
                used, is.rank);
    return -1;
  }
  int n = 0, dim = 0;
  for (uint32_t i = 0; i <= subs.len; i++) {
    bool rest = i == subs.len || subs.at[i].kind == SUB_ellipsis;
    if (rest) { /* what `...` skips; at the end what no index names */
      int left = i == subs.len ? is.rank - dim : is.rank - used;
      for (; left > 0 && n < max; left--, dim++)
        take[n++] = (Take){dim_of(0), is.dim[dim], 1, false, false, NO_VAL};
      continue;
    }
    if (n == max) break;
    const Subscript *s = &subs.at[i];
    Take *t = &take[n++];
    *t = (Take){.step = 1};
    if (s->kind == SUB_index && index[i].kind == DATUM_none) {
      t->fresh = true;
      continue;
    }
    bool ok = s->kind == SUB_slice ? take_slice(e, s, env, is.dim[dim], t)
                                   : take_index(e, index[i], s, is.dim[dim], t);
    if (!ok) return -1;
    dim++;
  }
  return n;
}

/* flip, slice, reshape: each only where it does something. */
static Datum apply_takes(Eval *e, Val v, const Take *take, int n, Span at) {
  Type is = value_at(e->build->graph, v)->type;
  Attr slice[IR_MAX_ATTRS] = {0}, flip[IR_MAX_ATTRS] = {0};
  Attr *start = &slice[op_attr(OP_slice, "start")], *stop = &slice[op_attr(OP_slice, "stop")];
  Attr *step = &slice[op_attr(OP_slice, "step")], *dims = &flip[op_attr(OP_flip, "dims")];
  bool slices = false, shapes = false;
  int dim = 0, rank = 0;
  for (int i = 0; i < n; i++) {
    shapes = shapes || take[i].drop || take[i].fresh;
    if (take[i].fresh) continue;
    if (take[i].step < 0) dims->as.ints.at[dims->as.ints.len++] = dim;
    start->as.dims.at[dim] = take[i].start;
    stop->as.dims.at[dim] = take[i].stop;
    step->as.ints.at[dim] = take[i].step < 0 ? -take[i].step : take[i].step;
    slices = slices || !dim_is(take[i].start, 0) || !dim_equal(take[i].stop, is.dim[dim]) ||
             step->as.ints.at[dim] > 1;
    dim++;
  }
  start->as.dims.len = stop->as.dims.len = step->as.ints.len = dim;
  Datum d = datum_tensor(v);
  if (slices) d = emit_op(e, OP_slice, &v, 1, slice, at);
  if (d.kind == DATUM_error) return d;
  if (dims->as.ints.len) d = emit_op(e, OP_flip, &d.as.tensor, 1, flip, at);
  if (d.kind == DATUM_error || !shapes) return d;
  Type was = value_at(e->build->graph, d.as.tensor)->type;
  Dim shape[IR_MAX_RANK];
  dim = 0;
  for (int i = 0; i < n; i++) {
    if (!take[i].fresh && take[i].drop) {
      dim++;
      continue;
    }
    if (rank == IR_MAX_RANK) {
      eval_report(e, DIAG_E0716, at, "tensors of more than %d dimensions", IR_MAX_RANK);
      return datum_error();
    }
    shape[rank++] = take[i].fresh ? dim_of(1) : was.dim[dim++];
  }
  return emit_reshape(e, d.as.tensor, shape, rank, at);
}

/* Takes the element at run-time indices out of the dimensions that were kept for them: the dimension
   comes first, and `rows` reads it. */
static Datum apply_runtime(Eval *e, Datum d, const Take *take, int n, Span at) {
  int dim = 0; /* in the result so far */
  for (int i = 0; i < n && d.kind != DATUM_error; i++) {
    if (take[i].drop) continue;
    if (take[i].at == NO_VAL) {
      dim++;
      continue;
    }
    Val in[2] = {d.as.tensor, take[i].at};
    int rank = value_at(e->build->graph, in[0])->type.rank;
    Attr attr[IR_MAX_ATTRS] = {0};
    Attr *dims = &attr[op_attr(OP_permute, "dims")];
    dims->as.ints.len = rank;
    for (int k = 0; k < rank; k++) dims->as.ints.at[k] = !k ? dim : k <= dim ? k - 1 : k;
    if (dim) d = emit_op(e, OP_permute, in, 1, attr, at);
    if (d.kind == DATUM_error) return d;
    in[0] = d.as.tensor;
    d = emit_op(e, OP_rows, in, 2, NULL, at);
  }
  return d;
}

static Datum tensor_subscript(Eval *e, Datum object, const Expr *x, Env *env) {
  Val v;
  if (!need_tensor(e, object, x->as.index.object->span, "what is indexed", &v))
    return datum_error();
  Take take[2 * IR_MAX_RANK];
  int n = plan_takes(e, x, env, value_at(e->build->graph, v)->type, take, 2 * IR_MAX_RANK);
  if (n < 0) return datum_error();
  return apply_runtime(e, apply_takes(e, v, take, n, x->span), take, n, x->span);
}

Datum eval_subscript(Eval *e, const Expr *x, Env *env) {
  Datum object = eval_expr(e, x->as.index.object, env);
  if (object.kind == DATUM_error) return object;
  if (object.kind == DATUM_map) return map_subscript(e, object, x, env);
  bool list = object.kind == DATUM_list || object.kind == DATUM_tuple ||
              (object.kind == DATUM_instance && object.as.instance->kind == INSTANCE_list);
  if (list) return list_subscript(e, object, x, env);
  if (datum_is_tensorlike(object)) return tensor_subscript(e, object, x, env);
  if (object.kind == DATUM_none)
    eval_report(e, DIAG_E0507, x->span, "what is indexed is `none`");
  else
    eval_report(e, DIAG_E0501, x->span, "%s cannot be indexed", datum_describe(e, object));
  return datum_error();
}
