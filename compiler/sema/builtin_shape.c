/* Built-in functions about shapes and layout. Sizes are known or symbolic in the batch; layout becomes
   the movement ops of the table. */
#include "builtin.h"
#include "fold.h"
#include "op.h"
#include "signature.h"

/* ---------- helpers ---------- */

Datum shape_list(Eval *e, Type t) {
  Datum dims[IR_MAX_RANK];
  for (int i = 0; i < t.rank; i++) dims[i] = datum_dim(t.dim[i]);
  return datum_list(e->arena, dims, (uint32_t)t.rank);
}

bool dims_of(Eval *e, Datum d, Span at, const char *what, Attr *out) {
  Datum one = d;
  DatumList list = {&one, 1};
  if (d.kind == DATUM_list || d.kind == DATUM_tuple) list = d.as.list;
  if (list.len > IR_MAX_RANK) {
    eval_report(e, DIAG_E0716, at, "%s has %u dimensions; at most %d are supported", what, list.len,
                IR_MAX_RANK);
    return false;
  }
  out->as.dims.len = (int)list.len;
  for (uint32_t i = 0; i < list.len; i++)
    if (!need_dim(e, list.at[i], at, "a dimension", &out->as.dims.at[i])) return false;
  return true;
}

bool axis_of(Eval *e, Datum d, Span at, int rank, int64_t *out) {
  int64_t i;
  if (!need_int(e, d, at, "a dim", &i)) return false;
  if (i < -rank || i >= rank) {
    eval_report(e, DIAG_E0412, at, "dim %lld of a tensor with %d dimension%s", (long long)i, rank,
                rank == 1 ? "" : "s");
    return false;
  }
  *out = i < 0 ? i + rank : i;
  return true;
}

bool axes_of(Eval *e, Datum d, Span at, int rank, Attr *out) {
  DatumList list = {&d, 1};
  if (d.kind == DATUM_list || d.kind == DATUM_tuple) list = d.as.list;
  out->as.ints.len = 0;
  for (uint32_t i = 0; i < list.len; i++) {
    int64_t axis;
    if (!axis_of(e, list.at[i], at, rank, &axis)) return false;
    for (int k = 0; k < out->as.ints.len; k++)
      if (out->as.ints.at[k] == axis) {
        eval_report(e, DIAG_E0412, at, "dim %lld is named twice", (long long)axis);
        return false;
      }
    out->as.ints.at[out->as.ints.len++] = axis;
  }
  return true;
}

Datum emit_reshape(Eval *e, Val x, const Dim *dim, int rank, Span at) {
  Attr attr[IR_MAX_ATTRS] = {0};
  Attr *shape = &attr[op_attr(OP_reshape, "shape")];
  shape->as.dims.len = rank;
  for (int i = 0; i < rank; i++) shape->as.dims.at[i] = dim[i];
  return emit_op(e, OP_reshape, &x, 1, attr, at);
}

Datum emit_slice(Eval *e, Val x, int axis, Dim start, Dim stop, Span at) {
  Type t = value_at(e->build->graph, x)->type;
  Attr attr[IR_MAX_ATTRS] = {0};
  Attr *from = &attr[op_attr(OP_slice, "start")], *to = &attr[op_attr(OP_slice, "stop")];
  from->as.dims.len = to->as.dims.len = t.rank;
  for (int i = 0; i < t.rank; i++) {
    from->as.dims.at[i] = i == axis ? start : dim_of(0);
    to->as.dims.at[i] = i == axis ? stop : t.dim[i];
  }
  attr[op_attr(OP_slice, "step")].as.ints.len = -1;
  return emit_op(e, OP_slice, &x, 1, attr, at);
}

/* ---------- sizes ---------- */

/* The type of what may be asked for its shape; numbers have rank 0. */
static bool type_of(Eval *e, const BuiltinCall *c, Type *out) {
  Datum d = c->value[0];
  if (d.kind == DATUM_error) return false;
  if (datum_is_tensorlike(d) || datum_is_numeric(d) || d.kind == DATUM_host ||
      d.kind == DATUM_dim) {
    *out = tensor_type(e, d);
    return true;
  }
  eval_report(e, d.kind == DATUM_none ? DIAG_E0507 : DIAG_E0501, c->span[0],
              "a tensor is needed, not %s", datum_describe(e, d));
  return false;
}

Datum builtin_shape(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Type t;
  return type_of(e, c, &t) ? shape_list(e, t) : datum_error();
}

Datum builtin_ndim(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Type t;
  return type_of(e, c, &t) ? datum_int(t.rank) : datum_error();
}

Datum builtin_size(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Type t;
  int64_t axis;
  if (!type_of(e, c, &t) || !axis_of(e, c->value[1], c->span[1], t.rank, &axis))
    return datum_error();
  return datum_dim(t.dim[axis]);
}

static Datum product(Eval *e, DatumList list, Span at) {
  Datum out = datum_int(1);
  for (uint32_t i = 0; i < list.len; i++) out = fold_binary(e, BIN_mul, out, list.at[i], at, at);
  return out;
}

Datum builtin_numel(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Type t;
  if (!type_of(e, c, &t)) return datum_error();
  return product(e, shape_list(e, t).as.list, c->at);
}

Datum builtin_len(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Datum d = c->value[0];
  if (d.kind == DATUM_list || d.kind == DATUM_tuple) return datum_int(d.as.list.len);
  if (d.kind == DATUM_map) return datum_int(d.as.map.len);
  if (d.kind == DATUM_instance && d.as.instance->kind == INSTANCE_list)
    return datum_int(d.as.instance->children.len);
  eval_report(e, DIAG_E0501, c->span[0], "`len` takes a list, not %s", datum_describe(e, d));
  return datum_error();
}

Datum builtin_prod(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Datum d = c->value[0];
  if (d.kind == DATUM_list || d.kind == DATUM_tuple) return product(e, d.as.list, c->at);
  if (d.kind == DATUM_int) return d;
  eval_report(e, DIAG_E0501, c->span[0], "`prod` takes a list of ints, not %s",
              datum_describe(e, d));
  return datum_error();
}

Datum builtin_dtype(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Type t;
  return type_of(e, c, &t) ? datum_dtype(t.dtype) : datum_error();
}

Datum builtin_text(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  if (c->value[0].kind == DATUM_text) return c->value[0];
  Text t = {0};
  datum_print(&t, c->value[0]);
  Datum d = datum_text(arena_strdup(e->arena, t.at ? t.at : ""));
  text_free(&t);
  return d;
}

Datum builtin_extreme(Eval *e, const Builtin *b, const BuiltinCall *c) {
  DatumList list = {c->value, c->n};
  if (c->n == 1 && c->value[0].kind == DATUM_list) list = c->value[0].as.list;
  if (!list.len) {
    eval_report(e, DIAG_E0503, c->at, "`%s` of nothing", b->name);
    return datum_error();
  }
  Datum out = list.at[0];
  for (uint32_t i = 1; i < list.len; i++) {
    Datum in[2] = {out, list.at[i]};
    out = fold_elementwise(e, (OpKind)b->op, in, 2, c->at);
  }
  return out;
}

Datum builtin_need_float(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Datum d = c->value[0];
  if (!datum_is_tensorlike(d) || dtype_category(tensor_type(e, d).dtype) == 'f') return d;
  eval_report(e, DIAG_E0517, c->at, "the mean of %s", datum_describe(e, d));
  diag_help("`cast(x, float)` converts first");
  return datum_error();
}

/* ---------- layout ---------- */

bool first_tensor(Eval *e, const BuiltinCall *c, Val *v, Type *t) {
  if (!need_tensor(e, c->value[0], c->span[0], "the first argument", v)) return false;
  *t = value_at(e->build->graph, *v)->type;
  return true;
}

Datum builtin_reshape(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val v;
  Type t;
  Attr attr[IR_MAX_ATTRS] = {0};
  if (!first_tensor(e, c, &v, &t)) return datum_error();
  Attr *shape = &attr[op_attr(OP_reshape, "shape")];
  if (!dims_of(e, c->value[1], c->span[1], "the shape", shape)) return datum_error();
  bool same = shape->as.dims.len == t.rank;
  for (int i = 0; i < t.rank && same; i++) same = dim_equal(shape->as.dims.at[i], t.dim[i]);
  return same ? datum_tensor(v) : emit_op(e, OP_reshape, &v, 1, attr, c->at);
}

Datum builtin_permute(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val v;
  Type t;
  Attr attr[IR_MAX_ATTRS] = {0};
  if (!first_tensor(e, c, &v, &t)) return datum_error();
  if (!axes_of(e, c->value[1], c->span[1], t.rank, &attr[op_attr(OP_permute, "dims")]))
    return datum_error();
  return emit_op(e, OP_permute, &v, 1, attr, c->at);
}

Datum builtin_transpose(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val v;
  Type t;
  int64_t d0, d1;
  Attr attr[IR_MAX_ATTRS] = {0};
  if (!first_tensor(e, c, &v, &t)) return datum_error();
  if (!axis_of(e, c->value[1], c->span[1], t.rank, &d0)) return datum_error();
  if (!axis_of(e, c->value[2], c->span[2], t.rank, &d1)) return datum_error();
  if (d0 == d1) return datum_tensor(v);
  Attr *dims = &attr[op_attr(OP_permute, "dims")];
  dims->as.ints.len = t.rank;
  for (int i = 0; i < t.rank; i++) dims->as.ints.at[i] = i == d0 ? d1 : i == d1 ? d0 : i;
  return emit_op(e, OP_permute, &v, 1, attr, c->at);
}

Datum builtin_expand(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val v;
  Type t;
  Attr attr[IR_MAX_ATTRS] = {0};
  if (!first_tensor(e, c, &v, &t)) return datum_error();
  if (!dims_of(e, c->value[1], c->span[1], "the shape", &attr[op_attr(OP_expand, "shape")]))
    return datum_error();
  attr[op_attr(OP_expand, "dim")].as.ints.len = -1;
  return emit_op(e, OP_expand, &v, 1, attr, c->at);
}

Datum builtin_flip(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val v;
  Type t;
  Attr attr[IR_MAX_ATTRS] = {0};
  if (!first_tensor(e, c, &v, &t)) return datum_error();
  if (!axes_of(e, c->value[1], c->span[1], t.rank, &attr[op_attr(OP_flip, "dims")]))
    return datum_error();
  return emit_op(e, OP_flip, &v, 1, attr, c->at);
}

/* ---------- joining and cutting ---------- */

Datum concat_values(Eval *e, Val *v, uint32_t n, int64_t axis, Span at) {
  while (n > 1) { /* the op takes a few at a time */
    uint32_t out = 0;
    for (uint32_t i = 0; i < n; i += IR_MAX_LISTED) {
      int k = (int)(n - i < IR_MAX_LISTED ? n - i : IR_MAX_LISTED);
      Attr attr[IR_MAX_ATTRS] = {0};
      Attr *dim = &attr[op_attr(OP_concat, "dim")];
      dim->as.ints.len = 1;
      dim->as.ints.at[0] = axis;
      Datum d = k == 1 ? datum_tensor(v[i]) : emit_op(e, OP_concat, &v[i], k, attr, at);
      if (d.kind == DATUM_error) return d;
      v[out++] = d.as.tensor;
    }
    n = out;
  }
  return datum_tensor(v[0]);
}

static bool tensor_list(Eval *e, const BuiltinCall *c, Val **out, uint32_t *n) {
  Datum d = c->value[0];
  if (d.kind != DATUM_list && d.kind != DATUM_tuple) {
    eval_report(e, DIAG_E0501, c->span[0], "a list of tensors is needed, not %s",
                datum_describe(e, d));
    return false;
  }
  *n = d.as.list.len;
  if (!*n) {
    eval_report(e, DIAG_E0501, c->span[0], "the list of tensors is empty");
    return false;
  }
  *out = ARENA_ARRAY(e->arena, Val, *n);
  for (uint32_t i = 0; i < *n; i++)
    if (!need_tensor(e, d.as.list.at[i], c->span[0], "an item of the list", &(*out)[i]))
      return false;
  return true;
}

/* Beside vectors, a number is a vector of one element. */
static bool number_parts(Eval *e, Val *v, uint32_t n, Span at) {
  int most = 0;
  for (uint32_t i = 0; i < n; i++) {
    int rank = value_at(e->build->graph, v[i])->type.rank;
    if (rank > most) most = rank;
  }
  for (uint32_t i = 0; most == 1 && i < n; i++) {
    if (value_at(e->build->graph, v[i])->type.rank) continue;
    Dim one = dim_of(1);
    Datum d = emit_reshape(e, v[i], &one, 1, at);
    if (d.kind == DATUM_error) return false;
    v[i] = d.as.tensor;
  }
  return true;
}

Datum builtin_concat(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val *v;
  uint32_t n;
  int64_t axis = 0;
  if (!tensor_list(e, c, &v, &n)) return datum_error();
  if (!number_parts(e, v, n, c->at)) return datum_error();
  int rank = value_at(e->build->graph, v[0])->type.rank;
  if (c->given[1] && !axis_of(e, c->value[1], c->span[1], rank, &axis)) return datum_error();
  return concat_values(e, v, n, axis, c->at);
}

Datum stack_values(Eval *e, Val *v, uint32_t n, int64_t axis, Span at) {
  Type t = value_at(e->build->graph, v[0])->type;
  for (uint32_t i = 0; i < n; i++) {
    Type is = value_at(e->build->graph, v[i])->type;
    if (!type_equal(is, t) || t.rank == IR_MAX_RANK) {
      eval_report(e, DIAG_E0420, at, "%s and %s cannot be stacked",
                  datum_describe(e, datum_tensor(v[0])), datum_describe(e, datum_tensor(v[i])));
      return datum_error();
    }
    Dim dim[IR_MAX_RANK];
    for (int k = 0; k <= t.rank; k++) dim[k] = k == axis ? dim_of(1) : t.dim[k > axis ? k - 1 : k];
    Datum d = emit_reshape(e, v[i], dim, t.rank + 1, at);
    if (d.kind == DATUM_error) return d;
    v[i] = d.as.tensor;
  }
  return concat_values(e, v, n, axis, at);
}

Datum builtin_stack(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val *v;
  uint32_t n;
  int64_t axis = 0;
  if (!tensor_list(e, c, &v, &n)) return datum_error();
  int rank = value_at(e->build->graph, v[0])->type.rank;
  if (c->given[1] && !axis_of(e, c->value[1], c->span[1], rank + 1, &axis)) return datum_error();
  return stack_values(e, v, n, axis, c->given[0] ? c->span[0] : c->at);
}

/* Pieces of `piece` elements along the axis, the last one as long as what is left. */
static Datum pieces(Eval *e, Val v, int64_t axis, Dim size, Dim piece, Span at) {
  Datum out[256];
  uint32_t n = 0;
  Dim from = dim_of(0);
  while (!dim_equal(from, size)) {
    Dim to;
    if (!dim_sum(e, from, piece, 1, at, &to)) return datum_error();
    if (dim_known(to) && dim_known(size) && to.fixed > size.fixed) to = size;
    if (n == 256) {
      eval_report(e, DIAG_E0519, at, "more than 256 pieces");
      return datum_error();
    }
    out[n] = emit_slice(e, v, (int)axis, from, to, at);
    if (out[n++].kind == DATUM_error) return datum_error();
    from = to;
  }
  return datum_tuple(e->arena, out, n);
}

Datum builtin_chunk(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val v;
  Type t;
  int64_t axis = 0, n;
  if (!first_tensor(e, c, &v, &t)) return datum_error();
  if (c->given[2] && !axis_of(e, c->value[2], c->span[2], t.rank, &axis)) return datum_error();
  if (!need_int(e, c->value[1], c->span[1], "the number of chunks", &n)) return datum_error();
  if (n < 1 || n > 65536 || !t.rank) {
    eval_report(e, DIAG_E0413, c->span[1], "%lld chunks of a tensor with %d dimensions",
                (long long)n, t.rank);
    return datum_error();
  }
  Dim piece, size = t.dim[axis];
  if (dim_known(size))
    piece = dim_of((size.fixed + n - 1) / n);
  else if (!dim_div(size, dim_of(n), &piece)) {
    eval_report(e, DIAG_E0409, c->at, "a symbolic size does not come out as %lld equal chunks",
                (long long)n);
    return datum_error();
  }
  return pieces(e, v, axis, size, piece, c->at);
}

Datum builtin_split(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Val v;
  Type t;
  int64_t axis = 0;
  if (!first_tensor(e, c, &v, &t)) return datum_error();
  if (!axis_of(e, c->given[2] ? c->value[2] : datum_int(0), c->span[2], t.rank, &axis))
    return datum_error();
  Datum sizes = c->value[1];
  Dim piece;
  if (sizes.kind != DATUM_list) {
    if (!need_dim(e, sizes, c->span[1], "the size of a piece", &piece)) return datum_error();
    bool whole = dim_known(piece) && dim_known(t.dim[axis]) && piece.fixed > 0;
    if (whole) return pieces(e, v, axis, t.dim[axis], piece, c->at);
    eval_report(e, DIAG_E0410, c->span[1], "pieces need a known size of at least 1");
    return datum_error();
  }
  Datum *out = ARENA_ARRAY(e->arena, Datum, sizes.as.list.len + 1);
  Dim from = dim_of(0);
  for (uint32_t i = 0; i < sizes.as.list.len; i++) {
    if (!need_dim(e, sizes.as.list.at[i], c->span[1], "the size of a piece", &piece))
      return datum_error();
    Dim to;
    if (!dim_sum(e, from, piece, 1, c->at, &to)) return datum_error();
    out[i] = emit_slice(e, v, (int)axis, from, to, c->at);
    if (out[i].kind == DATUM_error) return out[i];
    from = to;
  }
  if (!dim_equal(from, t.dim[axis])) {
    eval_report(e, DIAG_E0405, c->span[1], "the pieces do not add up to the dimension");
    return datum_error();
  }
  return (Datum){.kind = DATUM_tuple, .as.list = {out, sizes.as.list.len}};
}
