/* Built-in functions that make tensors: arange, full and the random ones. Where a leaf is being
   constructed there is no graph: then they give the initial value of the leaf. Draws in a graph get a
   site from the path of their call, or from the name of their stream, the same in every build. */
#include "builtin.h"
#include "fold.h"
#include "op.h"
#include <math.h>
#include <string.h>

Datum builtin_arange(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Attr attr[IR_MAX_ATTRS] = {0};
  Attr *n = &attr[op_attr(OP_arange, "n")];
  n->as.dims.len = 1;
  if (!need_dim(e, c->value[0], c->span[0], "the length", &n->as.dims.at[0])) return datum_error();
  if (!e->build) {
    eval_report(e, DIAG_E0716, c->at,
                "initial values computed with `arange` are not supported yet");
    return datum_error();
  }
  return emit_op(e, OP_arange, NULL, 0, attr, c->at);
}

static Datum initial(Eval *e, const BuiltinCall *c, uint32_t shape, Draw draw) {
  Attr dims;
  if (!dims_of(e, c->value[shape], c->span[shape], "the shape", &dims)) return datum_error();
  Datum d = {.kind = DATUM_draw};
  Type t = {.rank = dims.as.dims.len};
  for (int i = 0; i < t.rank; i++) t.dim[i] = dims.as.dims.at[i];
  d.as.draw.draw = draw;
  d.as.draw.shape = shape_list(e, t).as.list;
  return d;
}

Datum builtin_full(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  if (!e->build) {
    double x;
    if (!need_number(e, c->value[0], c->span[0], "the value", &x)) return datum_error();
    return initial(e, c, 1, (Draw){.kind = INIT_fill, .a = x});
  }
  Val v;
  Attr attr[IR_MAX_ATTRS] = {0};
  if (!need_tensor(e, c->value[0], c->span[0], "the value", &v)) return datum_error();
  Attr *shape = &attr[op_attr(OP_expand, "shape")];
  if (!dims_of(e, c->value[1], c->span[1], "the shape", shape)) return datum_error();
  if (!shape->as.dims.len) return datum_tensor(v);
  attr[op_attr(OP_expand, "dim")].as.ints.len = -1;
  return emit_op(e, OP_expand, &v, 1, attr, c->at);
}

/* ---------- draws ---------- */

/* Draws of a transform belong to the sample and the epoch, all others to its place in the update. */
static bool of_data(const Eval *e) {
  return !strcmp(e->build->graph->name, "transform");
}

/* Number of the place of a draw: a hash of its path. The k-th draw at one path gets "#k". */
static int64_t site_of(Eval *e, const char *what, const char *stream) {
  Build *build = e->build;
  const char *path;
  if (stream) {
    path = arena_printf(e->arena, "stream %s", stream);
  } else {
    path = text_intern(arena_printf(e->arena, "%s%s %s", of_data(e) ? "transform " : "",
                                    graph_scope_path(e->arena, build->graph, e->scope), what));
    int seen = 0;
    for (uint32_t i = 0; i < build->sites.len; i++) seen += build->sites.at[i] == path;
    vec_push(e->arena, &build->sites, path);
    if (seen) path = arena_printf(e->arena, "%s#%d", path, seen);
  }
  return (int64_t)(text_hash(path, strlen(path), 0) >> 1);
}

static Datum draw(Eval *e, OpKind op, const Attr *numbers, const BuiltinCall *c, uint32_t shape) {
  const char *stream = NULL, *name = op_def(op)->name;
  uint32_t k = shape + 1;
  if (c->value[k].kind != DATUM_none && !need_text(e, c->value[k], c->span[k], "`stream`", &stream))
    return datum_error();
  if (!e->training && !stream) {
    eval_report(e, DIAG_E0615, c->at, "`%s` draws in the evaluation graph", name);
    diag_help("draw under `if training`, or name a stream: `stream = \"...\"`");
    return datum_error();
  }
  Attr attr[IR_MAX_ATTRS] = {0};
  memcpy(attr, numbers, sizeof attr);
  if (!dims_of(e, c->value[shape], c->span[shape], "the shape", &attr[op_attr(op, "shape")]))
    return datum_error();
  attr[op_attr(op, "site")].as.i = site_of(e, name, stream);
  attr[op_attr(op, "data")].as.i = of_data(e);
  return emit_op(e, op, NULL, 0, attr, c->at);
}

/* Two numbers with defaults, then shape and stream. */
static Datum two_numbers(Eval *e, OpKind op, int kind, double a, double b, const BuiltinCall *c) {
  if (c->given[0] && !need_number(e, c->value[0], c->span[0], "this number", &a))
    return datum_error();
  if (c->given[1] && !need_number(e, c->value[1], c->span[1], "this number", &b))
    return datum_error();
  if (!e->build) return initial(e, c, 2, (Draw){.kind = kind, .a = a, .b = b});
  Attr attr[IR_MAX_ATTRS] = {0};
  attr[0].as.f = a;
  attr[1].as.f = b;
  return draw(e, op, attr, c, 2);
}

Datum builtin_uniform(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  return two_numbers(e, OP_uniform, INIT_uniform, 0, 1, c);
}

Datum builtin_normal(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  return two_numbers(e, OP_normal, INIT_normal, 0, 1, c);
}

Datum builtin_bernoulli(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  double p;
  Attr attr[IR_MAX_ATTRS] = {0};
  if (!need_number(e, c->value[0], c->span[0], "the probability", &p)) return datum_error();
  if (!(p >= 0 && p <= 1)) {
    eval_report(e, DIAG_E0417, c->span[0], "a probability lies between 0 and 1");
    return datum_error();
  }
  if (!e->build) return initial(e, c, 1, (Draw){.kind = INIT_bernoulli, .a = p});
  attr[op_attr(OP_bernoulli, "p")].as.f = p;
  return draw(e, OP_bernoulli, attr, c, 1);
}

Datum builtin_randint(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  Attr attr[IR_MAX_ATTRS] = {0};
  int64_t low, high;
  if (!need_int(e, c->value[0], c->span[0], "`low`", &low)) return datum_error();
  if (!need_int(e, c->value[1], c->span[1], "`high`", &high)) return datum_error();
  if (low >= high) {
    eval_report(e, DIAG_E0417, c->at, "`randint` needs `low` below `high`, which it never gives");
    return datum_error();
  }
  if (!e->build) {
    Draw ints = {.kind = INIT_randint, .a = (double)low, .b = (double)high};
    return initial(e, c, 2, ints);
  }
  attr[op_attr(OP_randint, "lo")].as.i = low;
  attr[op_attr(OP_randint, "hi")].as.i = high;
  return draw(e, OP_randint, attr, c, 2);
}

/* ---------- initial values of parts ---------- */

static double normal_below(double x) {
  return 0.5 * (1 + erf(x / sqrt(2)));
}

/* torch.nn.init.trunc_normal_: drawn again until nothing lies outside of a..b. */
Datum builtin_trunc_normal(Eval *e, const Builtin *b, const BuiltinCall *c) {
  double x[4] = {0, 1, -2, 2};
  for (uint32_t k = 0; k < 4; k++)
    if (c->given[k] && !need_number(e, c->value[k], c->span[k], "this number", &x[k]))
      return datum_error();
  if (e->build) {
    eval_report(e, DIAG_E0716, c->at, "`%s` in a graph is not supported yet", b->name);
    diag_help("`normal` and `clamp` come close");
    return datum_error();
  }
  if (!(x[1] > 0) || !(x[2] < x[3])) {
    eval_report(e, DIAG_E0417, c->at, "`trunc_normal` needs `std` above 0 and `a` below `b`");
    return datum_error();
  }
  /* PyTorch draws in another way where little of the distribution is left. */
  if (!(normal_below((x[3] - x[0]) / x[1]) - normal_below((x[2] - x[0]) / x[1]) > 0.3))
    eval_report(e, DIAG_E0716, c->at,
                "`trunc_normal` where less than 0.3 of the distribution lies between `a` and `b` "
                "is not supported yet");
  return initial(
      e, c, 4, (Draw){.kind = INIT_trunc_normal, .a = x[0], .b = x[1], .low = x[2], .high = x[3]});
}

/* torch.nn.init.orthogonal_: the first dimension against all others. */
Datum builtin_orthogonal(Eval *e, const Builtin *b, const BuiltinCall *c) {
  double gain = 1;
  if (c->given[0] && !need_number(e, c->value[0], c->span[0], "`gain`", &gain))
    return datum_error();
  if (e->build) {
    eval_report(e, DIAG_E0716, c->at, "`%s` in a graph is not supported yet", b->name);
    return datum_error();
  }
  Datum d = initial(e, c, 1, (Draw){.kind = INIT_orthogonal, .a = gain});
  if (d.kind == DATUM_error || d.as.draw.shape.len >= 2) return d;
  eval_report(e, DIAG_E0406, c->at, "`%s` makes tensors of 2 and more dimensions", b->name);
  return datum_error();
}

/* The positions 0.. along dimension `axis` of a tensor of this rank. */
static Datum positions(Eval *e, Dim n, int axis, int rank, Span at) {
  Attr attr[IR_MAX_ATTRS] = {0};
  attr[op_attr(OP_arange, "n")].as.dims.len = 1;
  attr[op_attr(OP_arange, "n")].as.dims.at[0] = n;
  Datum d = emit_op(e, OP_arange, NULL, 0, attr, at);
  Dim shape[IR_MAX_RANK];
  for (int i = 0; i < rank; i++) shape[i] = i == axis ? n : dim_of(1);
  return d.kind == DATUM_error ? d : emit_reshape(e, d.as.tensor, shape, rank, at);
}

/* x with `value` in one row of the first dimension: a tensor, or the initial value of a leaf. */
Datum builtin_set_row(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Datum x = c->value[0];
  int64_t row;
  double value;
  if (!need_int(e, c->value[1], c->span[1], "the row", &row) ||
      !need_number(e, c->value[2], c->span[2], "the value", &value))
    return datum_error();
  Type t;
  bool draw = x.kind == DATUM_draw;
  if (draw) {
    t = (Type){.rank = (int)x.as.draw.shape.len};
    for (int i = 0; i < t.rank; i++) datum_dim_value(x.as.draw.shape.at[i], &t.dim[i]);
  } else {
    Val v;
    if (!need_tensor(e, x, c->span[0], "the first argument", &v)) return datum_error();
    t = value_at(e->build->graph, v)->type;
  }
  int64_t rows = t.rank ? t.dim[0].fixed : 0;
  if (!t.rank || !dim_known(t.dim[0]) || row < -rows || row >= rows) {
    eval_report(e, DIAG_E0413, c->span[1], "row %lld of %lld", (long long)row, (long long)rows);
    return datum_error();
  }
  if (row < 0) row += rows;
  if (!draw) {
    Datum at = positions(e, t.dim[0], 0, t.rank, c->at), same[2] = {at, datum_int(row)};
    Datum in[3] = {fold_elementwise(e, OP_eq, same, 2, c->at), c->value[2], x};
    return fold_elementwise(e, (OpKind)b->op, in, 3, c->at);
  }
  if (x.as.draw.draw.count) {
    eval_report(e, DIAG_E0716, c->at, "a second part of an initial value is not supported yet");
    return datum_error();
  }
  int64_t width = type_elements_at(t, 1) / rows;
  Draw *d = &x.as.draw.draw;
  d->count = width, d->offset = row * width, d->step = 1, d->value = value;
  return x;
}

/* `value` on the diagonal of a matrix, 0 elsewhere. */
Datum builtin_diagonal(Eval *e, const Builtin *b, const BuiltinCall *c) {
  Attr dims;
  double value;
  if (!need_number(e, c->value[0], c->span[0], "the value", &value) ||
      !dims_of(e, c->value[1], c->span[1], "the shape", &dims))
    return datum_error();
  if (dims.as.dims.len != 2) {
    eval_report(e, DIAG_E0406, c->span[1], "a matrix has 2 dimensions, not %d", dims.as.dims.len);
    return datum_error();
  }
  Dim rows = dims.as.dims.at[0], columns = dims.as.dims.at[1];
  if (e->build) {
    Datum i = positions(e, rows, 0, 2, c->at), same[2] = {i, positions(e, columns, 1, 2, c->at)};
    Datum in[3] = {fold_elementwise(e, OP_eq, same, 2, c->at), datum_float(value), datum_float(0)};
    return fold_elementwise(e, (OpKind)b->op, in, 3, c->at);
  }
  int64_t least = rows.fixed < columns.fixed ? rows.fixed : columns.fixed;
  return initial(
      e, c, 1,
      (Draw){.kind = INIT_fill, .count = least, .step = columns.fixed + 1, .value = value});
}

Datum builtin_sequential(Eval *e, const Builtin *b, const BuiltinCall *c) {
  (void)b;
  for (uint32_t i = 0; i < c->n; i++) {
    bool module = c->value[i].kind == DATUM_module || c->value[i].kind == DATUM_list ||
                  c->value[i].kind == DATUM_instance;
    if (module) continue;
    eval_report(e, DIAG_E0501, c->span[i], "`Sequential` takes modules, not %s",
                datum_describe(e, c->value[i]));
    return datum_error();
  }
  return datum_list(e->arena, c->value, c->n);
}
