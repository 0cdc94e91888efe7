/* Built-in functions along one dimension: gather, scatter_add, cumsum, sort, argsort, topk; and pad.
   What has several results is made of ops with one: the order, and what stands there. */
#include "builtin.h"
#include "fold.h"
#include "op.h"
#include <float.h>
#include <math.h>

enum { TOPK_BY_MAXIMA = 16 }; /* up to here topk takes one maximum after the other */

/* An op whose only attribute is one dim. */
static Datum along(Eval *e, OpKind op, const Val *in, int n, int64_t axis, Span at) {
  Attr attr[IR_MAX_ATTRS] = {0};
  Attr *dim = &attr[op_attr(op, "dim")];
  dim->as.ints.len = 1;
  dim->as.ints.at[0] = axis;
  return emit_op(e, op, in, n, attr, at);
}

Datum builtin_gather(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val in[2];
  Type t;
  int64_t axis;
  if (!first_tensor(e, c, &in[0], &t)) return datum_error();
  if (!need_tensor(e, c->value[1], c->span[1], "the index", &in[1])) return datum_error();
  if (!axis_of(e, c->value[2], c->span[2], t.rank, &axis)) return datum_error();
  return along(e, OP_gather, in, 2, axis, c->at);
}

Datum builtin_scatter_add(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val in[3];
  Type t;
  int64_t axis;
  if (!first_tensor(e, c, &in[0], &t)) return datum_error();
  if (!need_tensor(e, c->value[1], c->span[1], "the index", &in[1])) return datum_error();
  if (!need_tensor(e, c->value[2], c->span[2], "the source", &in[2])) return datum_error();
  if (!axis_of(e, c->value[3], c->span[3], t.rank, &axis)) return datum_error();
  return along(e, OP_scatter_add, in, 3, axis, c->at);
}

Datum builtin_cumsum(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val v;
  Type t;
  int64_t axis;
  if (!first_tensor(e, c, &v, &t) || !axis_of(e, c->value[1], c->span[1], t.rank, &axis))
    return datum_error();
  return along(e, OP_cumsum, &v, 1, axis, c->at);
}

/* PyTorch's: two numbers for each dimension, the last dimension first. */
Datum builtin_pad(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val v;
  Type t;
  Attr attr[IR_MAX_ATTRS] = {0}, both;
  double value = 0;
  if (!first_tensor(e, c, &v, &t)) return datum_error();
  bool pairs = c->value[1].kind == DATUM_list && c->value[1].as.list.len % 2 == 0;
  if (!pairs || (int)c->value[1].as.list.len > 2 * t.rank) {
    eval_report(e, DIAG_E0501, c->span[1],
                "`pad` takes two numbers for each dimension, the last dimension first; this is %s "
                "for %d dimension%s",
                datum_describe(e, c->value[1]), t.rank, t.rank == 1 ? "" : "s");
    return datum_error();
  }
  if (c->given[2] && !need_number(e, c->value[2], c->span[2], "the value", &value))
    return datum_error();
  Attr *side[2] = {&attr[op_attr(OP_pad, "lo")], &attr[op_attr(OP_pad, "hi")]};
  for (int k = 0; k < 2; k++) side[k]->as.dims.len = t.rank;
  for (uint32_t i = 0; i < c->value[1].as.list.len; i++) {
    if (!dims_of(e, c->value[1].as.list.at[i], c->span[1], "the padding", &both))
      return datum_error();
    side[i % 2]->as.dims.at[t.rank - 1 - (int)i / 2] = both.as.dims.at[0];
  }
  attr[op_attr(OP_pad, "value")].as.f = value;
  attr[op_attr(OP_pad, "step")].as.ints.len = -1;
  return emit_op(e, OP_pad, &v, 1, attr, c->at);
}

/* ---------- order ---------- */

static Datum order_of(Eval *e, Val v, int64_t axis, bool descending, Span at) {
  Attr attr[IR_MAX_ATTRS] = {0};
  Attr *dim = &attr[op_attr(OP_argsort, "dim")];
  dim->as.ints.len = 1;
  dim->as.ints.at[0] = axis;
  attr[op_attr(OP_argsort, "descending")].as.i = descending;
  return emit_op(e, OP_argsort, &v, 1, attr, at);
}

/* (what stands at the places of `index`, index) */
static Datum values_and_indices(Eval *e, Val v, Datum index, int64_t axis, Span at) {
  if (index.kind == DATUM_error) return index;
  Val in[2] = {v, index.as.tensor};
  Datum pair[2] = {along(e, OP_gather, in, 2, axis, at), index};
  return pair[0].kind == DATUM_error ? pair[0] : datum_tuple(e->arena, pair, 2);
}

/* sort gives (values, indices), argsort the indices. */
Datum builtin_sort(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Val v;
  Type t;
  int64_t axis;
  bool descending = false;
  Datum dim = c->given[1] ? c->value[1] : datum_int(-1);
  if (!first_tensor(e, c, &v, &t) || !axis_of(e, dim, c->span[1], t.rank, &axis))
    return datum_error();
  if (c->given[2] && !need_bool(e, c->value[2], c->span[2], "`descending`", &descending))
    return datum_error();
  Datum index = order_of(e, v, axis, descending, c->at);
  return b->op == OP_argsort ? index : values_and_indices(e, v, index, axis, c->at);
}

/* The places of the k largest: the largest of all, of those that are left, and so on. What was taken
   becomes -inf; so that it cannot be taken twice, -inf itself counts as the lowest finite number. */
static Datum maxima(Eval *e, Val v, int64_t k, int64_t axis, Span at) {
  Graph *g = e->build->graph;
  Type t = value_at(g, v)->type;
  Val index[TOPK_BY_MAXIMA], taken = ir_const(g, (double)-INFINITY, t.dtype, at, e->scope);
  Attr size[IR_MAX_ATTRS] = {{.as.dims = {1, {t.dim[axis]}}}}, best[IR_MAX_ATTRS] = {0};
  best[op_attr(OP_argmax, "dim")].as.ints.len = 1;
  best[op_attr(OP_argmax, "dim")].as.ints.at[0] = axis;
  best[op_attr(OP_argmax, "keepdim")].as.i = true;
  Dim line[IR_MAX_RANK];
  for (int i = 0; i < t.rank; i++) line[i] = i == axis ? t.dim[i] : dim_of(1);
  Datum places = emit_op(e, OP_arange, NULL, 0, size, at);
  if (places.kind != DATUM_error) places = emit_reshape(e, places.as.tensor, line, t.rank, at);
  Val low[2] = {
      v, ir_const(g, t.dtype == DT_f64 ? -DBL_MAX : (double)-FLT_MAX, t.dtype, at, e->scope)};
  Datum left = emit_op(e, OP_maximum, low, 2, NULL, at);
  for (int64_t i = 0; i < k; i++) {
    if (left.kind == DATUM_error || places.kind == DATUM_error) return datum_error();
    Datum next = emit_op(e, OP_argmax, &left.as.tensor, 1, best, at);
    if (next.kind == DATUM_error) return next;
    Val same[2] = {places.as.tensor, index[i] = next.as.tensor};
    Datum here = emit_op(e, OP_eq, same, 2, NULL, at);
    Val pick[3] = {here.as.tensor, taken, left.as.tensor};
    if (i + 1 < k) left = emit_op(e, OP_where, pick, 3, NULL, at);
  }
  return concat_values(e, index, (uint32_t)k, axis, at);
}

/* (the k largest, or smallest, in order; their indices) */
Datum builtin_topk(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val v;
  Type t;
  int64_t axis, k;
  bool largest = true;
  Datum dim = c->given[2] ? c->value[2] : datum_int(-1);
  if (!first_tensor(e, c, &v, &t) || !axis_of(e, dim, c->span[2], t.rank, &axis) ||
      !need_int(e, c->value[1], c->span[1], "`k`", &k))
    return datum_error();
  if (c->given[3] && !need_bool(e, c->value[3], c->span[3], "`largest`", &largest))
    return datum_error();
  if (k < 1 || (dim_known(t.dim[axis]) && k > t.dim[axis].fixed)) {
    eval_report(e, DIAG_E0413, c->span[1], "`topk` takes from 1 to %lld elements here, not %lld",
                (long long)t.dim[axis].fixed, (long long)k);
    return datum_error();
  }
  if (largest && k <= TOPK_BY_MAXIMA && dtype_category(t.dtype) == 'f')
    return values_and_indices(e, v, maxima(e, v, k, axis, c->at), axis, c->at);
  Datum index = order_of(e, v, axis, largest, c->at);
  if (index.kind != DATUM_error)
    index = emit_slice(e, index.as.tensor, (int)axis, dim_of(0), dim_of(k), c->at);
  return values_and_indices(e, v, index, axis, c->at);
}
