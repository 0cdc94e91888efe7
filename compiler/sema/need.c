/* What a place needs of a value: an int, a tensor ... Host scalars that must be known are fixed here.
   Each function reports and returns false when the value is something else. Also the reports that
   carry the chain of calls. */
#include "eval.h"
#include "fold.h"
#include "op.h"
#include <math.h>
#include <string.h>

/* ---------- reports ---------- */

static bool library_place(Span at) {
  const Source *s = at.file ? source_get(at.file) : NULL;
  return s && (!strncmp(s->path, "std/", 4) || s->path[0] == '<');
}

void eval_report(Eval *e, DiagCode code, Span at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(e->arena, format, args);
  va_end(args);
  /* What goes wrong inside the library is the doing of the call that the user wrote. */
  const Frame *f = e->frame;
  Span place = at;
  const char *inside = NULL;
  for (; f && library_place(place); f = f->caller) {
    place = f->at;
    inside = f->what;
  }
  if (library_place(place)) place = at, inside = NULL, f = e->frame;
  if (inside) {
    diag_report(code, place, "%s (in the call of `%s`)", text, inside);
    diag_note(at, "found here");
  } else {
    diag_report(code, place, "%s", text);
  }
  int shown = 0;
  for (; f && shown < 4; f = f->caller) {
    if (!f->at.file || library_place(f->at)) continue;
    diag_note(f->at, "in the call of `%s`", f->what);
    shown++;
  }
}

/* ---------- scalars ---------- */

static bool wrong(Eval *e, Datum d, Span at, const char *what, const char *wanted) {
  if (d.kind == DATUM_error) return false;
  if (d.kind == DATUM_none)
    eval_report(e, DIAG_E0507, at, "%s is `none`; %s is needed", what, wanted);
  else if (datum_is_tensorlike(d) || d.kind == DATUM_dim)
    eval_report(e, DIAG_E0508, at, "%s must be known while compiling; this is %s", what,
                datum_describe(e, d));
  else if (d.kind == DATUM_recipe)
    eval_report(e, DIAG_E0515, at, "%s is a call that waits for arguments of a place", what);
  else
    eval_report(e, DIAG_E0501, at, "%s must be %s, not %s", what, wanted, datum_describe(e, d));
  return false;
}

/* The reason that `--print_config` gives: the text at the place and its file. */
static const char *reason_text(Eval *e, Span at, const char *what) {
  const Source *s = at.file ? source_get(at.file) : NULL;
  if (!s) return what;
  int n = (int)(at.end - at.begin);
  if (n > 60) n = 60;
  size_t path = strlen(s->path);
  if (path > 4 && !strcmp(s->path + path - 4, ".ddp")) path -= 4;
  return arena_printf(e->arena, "`%s%.*s` in %.*s", e->need ? e->need : "", n, s->text + at.begin,
                      (int)path, s->path);
}

/* The value of a host scalar, fixing what it comes from. */
static bool host_known(Eval *e, Datum d, Span at, const char *what, double *out) {
  const HostValue *h = d.as.host.value;
  if (!h->known) {
    eval_report(e, DIAG_E0508, at,
                "%s must be known while compiling, and this changes while the "
                "job runs",
                what);
    return false;
  }
  for (uint32_t i = 0; i < h->n_keys; i++)
    if (e->program->hooks.fix)
      e->program->hooks.fix(e->program->hooks.self, h->keys[i], reason_text(e, at, what), at);
  *out = h->value;
  return true;
}

bool need_int(Eval *e, Datum d, Span at, const char *what, int64_t *out) {
  double x;
  if (d.kind == DATUM_int) return *out = d.as.i, true;
  if (d.kind == DATUM_host && !d.as.host.value->is_bool) {
    if (!host_known(e, d, at, what, &x)) return false;
    if (x == floor(x)) return *out = (int64_t)x, true;
    d = datum_float(x);
  }
  if (d.kind == DATUM_float) {
    eval_report(e, DIAG_E0411, at, "%s must be an int, not %s", what, datum_describe(e, d));
    diag_help("`/` gives a float; `//` divides ints");
    return false;
  }
  return wrong(e, d, at, what, "an int");
}

bool need_number(Eval *e, Datum d, Span at, const char *what, double *out) {
  if (datum_number(d, out)) return true;
  if (d.kind == DATUM_host && !d.as.host.value->is_bool) return host_known(e, d, at, what, out);
  return wrong(e, d, at, what, "a number");
}

bool need_bool(Eval *e, Datum d, Span at, const char *what, bool *out) {
  if (d.kind == DATUM_bool) return *out = d.as.b, true;
  if (d.kind == DATUM_host && d.as.host.value->is_bool) {
    double x;
    if (!host_known(e, d, at, what, &x)) return false;
    return *out = x != 0, true;
  }
  if (datum_is_tensorlike(d)) {
    eval_report(e, DIAG_E0509, at, "%s is a tensor (%s)", what, datum_describe(e, d));
    diag_help("`where(condition, a, b)` chooses element by element");
    return false;
  }
  return wrong(e, d, at, what, "a bool");
}

bool need_text(Eval *e, Datum d, Span at, const char *what, const char **out) {
  if (d.kind != DATUM_text) return wrong(e, d, at, what, "a text");
  return *out = d.as.text.at, true;
}

bool need_dim(Eval *e, Datum d, Span at, const char *what, Dim *out) {
  if (d.kind == DATUM_dim) return *out = d.as.dim, true;
  int64_t n;
  if (!need_int(e, d, at, what, &n)) return false;
  return *out = dim_of(n), true;
}

/* ---------- tensors ---------- */

static Val leaf_node(Eval *e, int32_t leaf, Span at) {
  Build *b = e->build;
  while (b->leaf_value.len <= (uint32_t)leaf) {
    vec_push(e->arena, &b->leaf_value, NO_VAL);
    vec_push(e->arena, &b->written, 0);
  }
  if (b->leaf_value.at[leaf] != NO_VAL) return b->leaf_value.at[leaf];
  /* A tied leaf is the leaf it is tied to. */
  const LeafEntry *l = &b->leaves->leaves.at[leaf];
  if (l->leaf.tied_to >= 0) return leaf_node(e, l->leaf.tied_to, at);
  OpKind op = l->leaf.buffer ? OP_buffer : OP_param;
  Attr attr[IR_MAX_ATTRS] = {0};
  attr[op_attr(op, "leaf")].as.i = l->number;
  attr[op_attr(op, "dtype")].as.i = l->leaf.type.dtype;
  Attr *shape = &attr[op_attr(op, "shape")];
  shape->as.dims.len = l->leaf.type.rank;
  for (int i = 0; i < l->leaf.type.rank; i++) shape->as.dims.at[i] = l->leaf.type.dim[i];
  Datum v = emit_op(e, op, NULL, 0, attr, at);
  return b->leaf_value.at[leaf] = v.kind == DATUM_tensor ? v.as.tensor : NO_VAL;
}

bool need_tensor(Eval *e, Datum d, Span at, const char *what, Val *out) {
  if (d.kind == DATUM_error) return false;
  if (!e->build) {
    eval_report(e, DIAG_E0508, at, "%s is a tensor, which has no value while compiling", what);
    return false;
  }
  Graph *g = e->build->graph;
  switch (d.kind) {
  case DATUM_tensor:
    *out = d.as.tensor;
    break;
  case DATUM_leaf:
    *out = leaf_node(e, d.as.leaf, at);
    break;
  case DATUM_int:
    *out = ir_const(g, (double)d.as.i, DT_i64, at, e->scope);
    break;
  case DATUM_float:
    *out = ir_const(g, d.as.f, e->build->compute, at, e->scope);
    break;
  case DATUM_bool:
    *out = ir_const(g, d.as.b, DT_bool, at, e->scope);
    break;
  case DATUM_host:
    *out = host_node(e, d, at);
    break;
  case DATUM_dim: {
    Attr attr[IR_MAX_ATTRS] = {0};
    attr[op_attr(OP_dimval, "size")].as.dims.len = 1;
    attr[op_attr(OP_dimval, "size")].as.dims.at[0] = d.as.dim;
    Datum v = emit_op(e, OP_dimval, NULL, 0, attr, at);
    *out = v.kind == DATUM_tensor ? v.as.tensor : NO_VAL;
    break;
  }
  case DATUM_none:
    eval_report(e, DIAG_E0507, at, "%s is `none`; a tensor is needed", what);
    return false;
  case DATUM_recipe:
    eval_report(e, DIAG_E0515, at, "%s is a call that waits for arguments of a place", what);
    return false;
  default:
    eval_report(e, DIAG_E0501, at, "%s must be a tensor, not %s", what, datum_describe(e, d));
    return false;
  }
  return *out != NO_VAL;
}

Type tensor_type(const Eval *e, Datum d) {
  switch (d.kind) {
  case DATUM_tensor:
    return e->build ? value_at(e->build->graph, d.as.tensor)->type : type_scalar(DT_f32);
  case DATUM_leaf:
    return e->leaves->leaves.at[d.as.leaf].leaf.type;
  case DATUM_bool:
    return type_scalar(DT_bool);
  case DATUM_int:
  case DATUM_dim:
    return type_scalar(DT_i64);
  case DATUM_host:
    return type_scalar(e->build ? e->build->host_dtype : DT_f64);
  default:
    return type_scalar(e->build ? e->build->compute : DT_f32);
  }
}

static DiagCode code_of(int number) {
  char name[8];
  DiagCode code;
  snprintf(name, sizeof name, "E%04d", number);
  return diag_find(name, &code) ? code : DIAG_E0501;
}

/* Values of the library stand at the call that the user wrote; an optimizer is read where it is
   written. */
static Span user_place(const Eval *e, Span at) {
  if (e->update) return at;
  Span place = at;
  for (const Frame *f = e->frame; f && library_place(place); f = f->caller) place = f->at;
  return library_place(place) ? at : place;
}

/* Far above any memory, and low enough for arithmetic on sizes. */
static bool too_large(Type t) {
  double n = 1;
  for (int i = 0; i < t.rank; i++) n *= (double)t.dim[i].per_batch * 65536 + (double)t.dim[i].fixed;
  return n > 0x1p62;
}

Datum emit_op(Eval *e, OpKind op, const Val *in, int n, const Attr *attrs, Span at) {
  static const Attr none[IR_MAX_ATTRS];
  if (!e->build) {
    eval_report(e, DIAG_E0508, at, "`%s` gives a tensor, which has no value while compiling",
                op_def(op)->name);
    return datum_error();
  }
  const char *error = NULL;
  int code = 501;
  Val v = ir_add(e->build->graph, op, in, n, attrs ? attrs : none, user_place(e, at), e->scope,
                 &error, &code);
  if (v == NO_VAL) {
    eval_report(e, code_of(code), at, "%s", error ? error : "operands do not fit");
  } else if (too_large(value_at(e->build->graph, v)->type)) {
    eval_report(e, DIAG_E0519, at, "a tensor of more than 2 ** 62 elements");
    return datum_error();
  }
  return datum_tensor(v);
}
