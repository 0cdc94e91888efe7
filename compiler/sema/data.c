/* The datasets of a job. In: the `dataset` blocks. Out: Job.dataset (fields, sources, splits of the
   first one) and the members that the objective reads. A transform is evaluated over one sample, once
   per graph, and what is read of it is copied into that graph with the batch in front (lift.c).
   `transform NAME` belongs to a split: the training graph stands for `train`, the other one for
   `validation`. Further datasets are checked in the same way; no program is made of them yet. Their
   fields are numbered behind those of the datasets before. */
#include "data_source.h"
#include "diag.h"
#include "die.h"
#include "op.h"

typedef struct LetName {
  const char *name;
  int32_t source; /* -1: wrong */
  Span at;
} LetName;

typedef struct View { /* the dataset as one graph sees it */
  Graph *graph, *sample;
  Env *env;
  Val *map; /* sample value -> value of the graph (lift.c) */
} View;

typedef struct Made {
  const char *name;
  const Stmt *by;
  Span at;
} Made;

typedef struct DataState {
  Analysis *a;
  Dataset *d;
  uint32_t first_field; /* number of its first field in input nodes */
  const Decl *decl;
  File *file;
  VEC(LetName) lets;
  VEC(View) views;
  VEC(const char *) read; /* members that were read */
  VEC(Made) transformed;  /* names that transforms make, with their places */
  bool transforming;      /* a transform is being evaluated */
} DataState;

/* ---------- fields ---------- */

static void not_yet(const TypeExpr *t, const char *what) {
  diag_report(DIAG_E0716, t->span, "fields of %s are not supported yet", what);
  diag_help("stored types are uint8, int32, int64 and float");
}

static void category_of(Field *f, int64_t classes) {
  f->type = type_scalar(classes <= 256 ? DT_u8 : DT_i64);
  f->has_range = true;
  f->high = (double)classes;
}

static bool category_type(Analysis *a, Eval *e, Env *env, const TypeExpr *t, Field *f) {
  const Arg *arg = t->args.len == 1 ? &t->args.at[0] : NULL;
  Datum d = arg ? eval_expr(e, arg->value, env) : datum_error();
  if (arg && d.kind == DATUM_error) return false;
  if (arg && d.kind == DATUM_int && d.as.i > 0) {
    category_of(f, d.as.i);
    return true;
  }
  if (!arg || d.kind != DATUM_list || !d.as.list.len) {
    diag_report(DIAG_E0501, t->span, "`category` takes the list of its names, or how many it has");
    diag_help("for example `category([\"no\", \"yes\"])`");
    return false;
  }
  for (uint32_t i = 0; i < d.as.list.len; i++) {
    const char *name = NULL;
    if (!need_text(e, d.as.list.at[i], arg->value->span, "a category", &name)) return false;
    for (uint32_t k = 0; k < f->categories.len; k++) {
      if (strcmp(f->categories.at[k], name) != 0) continue;
      diag_report(DIAG_E0504, arg->value->span, "category \"%s\" stands twice", name);
      return false;
    }
    vec_push(a->arena, &f->categories, name);
  }
  category_of(f, d.as.list.len);
  return true;
}

/* Integers that are stored in files and have no type of their own in graphs: they widen. */
static const struct {
  const char *name;
  DType wide;
  int bytes;
  double low, high; /* of its values */
} narrow[] = {{"uint16", DT_i32, 2, 0, 65536},
              {"int8", DT_i32, 1, -128, 128},
              {"int16", DT_i32, 2, -32768, 32768},
              {"uint32", DT_i64, 4, 0, 4294967296.0},
              {"uint64", DT_i64, 8, 0, 18446744073709551616.0}};
enum { NARROW = sizeof(narrow) / sizeof(*narrow) };

static bool stored_dtype(const TypeExpr *t, const char *name, Field *f) {
  DType *out = &f->type.dtype;
  f->stored = 8;
  if (!name || !strcmp(name, "float")) return *out = DT_f32, f->stored = 4, true;
  if (!strcmp(name, "int")) return *out = DT_i64, true;
  f->text = !strcmp(name, "text");
  if (f->text) *out = DT_u8;
  bool known = f->text || dtype_parse(name, out);
  if (known) f->stored = f->text ? 0 : (int)dtype_bytes(*out);
  for (int i = 0; i < NARROW && !known; i++) {
    if (strcmp(name, narrow[i].name) != 0) continue;
    known = true;
    *out = narrow[i].wide;
    f->low = narrow[i].low;
    f->high = narrow[i].high;
    f->stored = narrow[i].bytes;
    f->negative = narrow[i].low < 0;
  }
  if (!known || *out == DT_bool) {
    diag_report(DIAG_E0501, t->span, "`%s` is no type of a field", name);
    diag_help("stored types are uint8, int32, int64 and float");
    return false;
  }
  bool read = *out == DT_u8 || *out == DT_i32 || *out == DT_i64 || *out == DT_f32;
  if (!read || !strcmp(name, "uint64")) not_yet(t, name);
  return true;
}

static bool is_ragged(const Expr *x) {
  return x->kind == EXPR_name && !strcmp(x->as.name.text, "_");
}

static bool field_dims(Eval *e, Env *env, const TypeExpr *t, Field *f) {
  TypeExpr fixed = *t; /* without the lengths that differ */
  fixed.dims.at = ARENA_ARRAY(e->arena, DimExpr, t->dims.len + 1);
  fixed.dims.len = 0;
  fixed.name = NULL; /* the dtype is known already */
  for (uint32_t i = 0; i < t->dims.len; i++) {
    const Expr *x = t->dims.at[i].value;
    if (!x) {
      diag_report(DIAG_E0501, t->dims.at[i].span, "the rank of a field is written out");
      return false;
    }
    if (!is_ragged(x)) {
      fixed.dims.at[fixed.dims.len++] = t->dims.at[i];
      continue;
    }
    f->ragged = true;
    diag_report(DIAG_E0716, t->dims.at[i].span,
                "fields whose length differs by sample are not supported yet");
  }
  Type dims, all = {.rank = 0};
  if (!eval_dims(e, &fixed, env, &dims)) return false;
  for (int k = 0; k < dims.rank; k++) {
    if (dim_known(dims.dim[k]) && dims.dim[k].fixed >= 1) continue;
    diag_report(DIAG_E0410, t->span, "dimension %d of field `%s` is %lld", k, f->name,
                (long long)dims.dim[k].fixed);
    return false;
  }
  all.dtype = dims.dtype = f->type.dtype;
  for (uint32_t i = 0, k = 0; i < t->dims.len && i < IR_MAX_RANK; i++) {
    bool ragged = is_ragged(t->dims.at[i].value);
    all.dim[all.rank++] = ragged ? (Dim){0, -1} : dims.dim[k++];
  }
  if (type_elements_at(dims, 1) > TYPE_MOST_ELEMENTS) {
    diag_report(DIAG_E0421, t->span, "a sample of field `%s` has more than 2^47 elements", f->name);
    return false;
  }
  f->type = f->ragged ? all : dims; /* one expression may be a list of sizes */
  if (!f->text) return true;
  diag_report(DIAG_E0501, t->span, "a field of texts is one text per sample");
  return false;
}

static bool range_end(Eval *e, Env *env, const Expr *x, double *out) {
  return need_number(e, eval_expr(e, x, env), x->span, "the end of a range", out);
}

static bool field_range(Eval *e, Env *env, const Expr *range, Field *f) {
  double most = f->high; /* of a narrow type; 0: not one */
  double least = f->low;
  if (most != 0 && !range) f->has_range = most < 1e19; /* of the type, where int64 holds it */
  if (!range) return true;
  if (f->text) {
    diag_report(DIAG_E0501, range->span, "`%s` is a text and has no range", f->name);
    return false;
  }
  if (range->kind != EXPR_binary || range->as.binary.op != BIN_range) {
    diag_report(DIAG_E0501, range->span, "the values of a field are a range: `in 0..10`");
    return false;
  }
  if (!range_end(e, env, range->as.binary.left, &f->low) ||
      !range_end(e, env, range->as.binary.right, &f->high)) {
    return false;
  }
  bool ints = dtype_category(f->type.dtype) == 'i';
  if (ints ? f->low >= f->high : f->low > f->high) {
    diag_report(DIAG_E0702, range->span, "the range of `%s` is empty", f->name);
    return false;
  }
  if (f->type.dtype == DT_u8 && (f->low < 0 || f->high > 256)) {
    diag_report(DIAG_E0702, range->span, "`%s` is uint8: its values lie in 0..256", f->name);
    return false;
  }
  if (most != 0 && (f->low < least || f->high > most)) {
    diag_report(DIAG_E0702, range->span, "values of `%s` lie in %.0f..%.0f", f->name, least, most);
    return false;
  }
  f->has_range = true;
  return true;
}

static bool make_field(DataState *s, Eval *e, Env *env, const DataItem *item) {
  Analysis *a = s->a;
  Dataset *d = s->d;
  Field f = {.name = item->name.text, .column = item->source_name, .at = item->span};
  f.at = item->name.span.file ? item->name.span : item->span;
  for (uint32_t i = 0; i < d->fields.len; i++) {
    if (d->fields.at[i].name != f.name) continue;
    diag_report(DIAG_E0302, f.at, "field `%s` is declared twice", f.name);
    diag_note(d->fields.at[i].at, "first declared here");
    return false;
  }
  const TypeExpr *t = item->type;
  bool ok = true;
  if (t->kind == TYPE_error) return false;
  if (t->kind == TYPE_apply && t->name && !strcmp(t->name, "category")) {
    ok = category_type(a, e, env, t, &f);
  } else if (t->kind == TYPE_tensor || t->kind == TYPE_name) {
    f.type = type_scalar(DT_f32);
    ok = stored_dtype(t, t->name, &f) && (t->kind == TYPE_name || field_dims(e, env, t, &f));
  } else {
    diag_report(DIAG_E0501, t->span, "this is no type of a field");
    diag_help("stored types are uint8, int32, int64 and float");
    ok = false;
  }
  bool category = f.has_range;
  if (ok && category && item->range) {
    diag_report(DIAG_E0501, item->range->span, "a category has its names, and no range");
    ok = false;
  }
  if (ok && !category) ok = field_range(e, env, item->range, &f);
  bool declared = category || item->range;
  bool counted = ok && declared && f.low == 0 && dtype_category(f.type.dtype) == 'i';
  if (counted) f.classes = (int64_t)f.high;
  if (!ok) f.type = type_scalar(DT_COUNT); /* reading it is an error that was reported */
  vec_push(a->arena, &d->fields, f);
  return ok;
}

/* ---------- lets and splits ---------- */

static DataState *state_of(Analysis *a, const Dataset *d) {
  for (uint32_t i = 0; i < a->data.len; i++) {
    if (a->data.at[i]->d == d) return a->data.at[i];
  }
  return NULL;
}

int32_t data_let(Analysis *a, const Dataset *d, const char *name) {
  const DataState *s = state_of(a, d);
  for (uint32_t i = 0; i < s->lets.len; i++) {
    if (s->lets.at[i].name == name) return s->lets.at[i].source;
  }
  return -2;
}

static void make_let(DataState *s, Eval *e, Env *env, const DataItem *item) {
  for (uint32_t i = 0; i < s->lets.len; i++) {
    if (s->lets.at[i].name != item->name.text) continue;
    diag_report(DIAG_E0302, item->name.span, "`%s` is declared twice", item->name.text);
    diag_note(s->lets.at[i].at, "first declared here");
    return;
  }
  LetName let = {.name = item->name.text, .at = item->name.span};
  let.source = source_build(s->a, s->d, e, env, item->value);
  vec_push(s->a->arena, &s->lets, let);
}

static void make_split(DataState *s, Eval *e, Env *env, const DataItem *item) {
  Dataset *d = s->d;
  for (uint32_t i = 0; i < d->splits.len; i++) {
    if (d->splits.at[i].name != item->name.text) continue;
    diag_report(DIAG_E0302, item->name.span, "split `%s` is declared twice", item->name.text);
    diag_note(d->splits.at[i].at, "first declared here");
    return;
  }
  Split made = {.name = item->name.text, .at = item->name.span};
  made.source = source_build(s->a, d, e, env, item->value);
  if (made.source >= 0 && d->sources.at[made.source].stream) {
    diag_report(DIAG_E0501, item->value->span, "a row of tokens has no samples");
    diag_help("`windows(..., stride = n)` cuts them out of it");
  }
  vec_push(s->a->arena, &d->splits, made);
}

static const Split *find_split(const Dataset *d, const char *name) {
  for (uint32_t i = 0; i < d->splits.len; i++) {
    if (!strcmp(d->splits.at[i].name, name)) return &d->splits.at[i];
  }
  return NULL;
}

/* ---------- what the objective sees ---------- */

Val data_input(Graph *g, const Field *f) {
  Attr attrs[3] = {{.as.i = f->number}, {.as.i = (int64_t)f->type.dtype}};
  attrs[2].as.dims.len = f->type.rank;
  for (int i = 0; i < f->type.rank; i++) attrs[2].as.dims.at[i] = f->type.dim[i];
  return ir_must(g, OP_input, NULL, 0, attrs, f->at, 0);
}

static void run_transforms(DataState *s, const char *split, Env *env, Eval *e) {
  for (int common = 0; common < 2; common++) {
    for (uint32_t i = 0; i < s->decl->data.len; i++) {
      const DataItem *item = &s->decl->data.at[i];
      if (item->kind != DATA_transform) continue;
      if (common ? item->name.text != NULL
                 : !item->name.text || strcmp(item->name.text, split) != 0) {
        continue;
      }
      eval_stmts(e, item->body, env);
    }
  }
}

/* Fields as values over one sample, then the transforms of a split over them. */
static void view_fill(DataState *s, const char *split, View *view, Eval *e) {
  Analysis *a = s->a;
  view->sample = graph_new(a->arena, "transform", view->graph->training);
  view->env = env_new(a->arena, NULL, s->file);
  for (uint32_t i = 0; i < s->d->fields.len; i++) {
    Field *f = &s->d->fields.at[i];
    f->number = (int32_t)(s->first_field + i);
    Datum v = f->type.dtype == DT_COUNT ? datum_error()
              : f->text || f->ragged    ? transform_field(f)
                                        : datum_tensor(data_input(view->sample, f));
    env_define(a->arena, view->env, f->name, v, BIND_local, f->at);
  }
  Eval ev = eval_new(a->program, build_new(a->arena, view->sample, e->leaves), e->leaves,
                     view->graph->training);
  ev.frame = e->frame;
  s->transforming = true;
  run_transforms(s, split, view->env, &ev);
  s->transforming = false;
  /* Copies of a value are made once per graph. */
  view->map = ARENA_ARRAY(a->arena, Val, view->sample->values.len);
}

static View *make_view(DataState *s, Eval *e) {
  Graph *graph = e->build->graph;
  for (uint32_t i = 0; i < s->views.len; i++) {
    if (s->views.at[i].graph == graph) return &s->views.at[i];
  }
  View view = {.graph = graph};
  view_fill(s, graph->training ? "train" : "validation", &view, e);
  vec_push(s->a->arena, &s->views, view);
  return &s->views.at[s->views.len - 1];
}

static void note_read(DataState *s, const char *name) {
  for (uint32_t i = 0; i < s->read.len; i++) {
    if (s->read.at[i] == name) return;
  }
  vec_push(s->a->arena, &s->read, name);
}

static bool was_read(const DataState *s, const char *name) {
  for (uint32_t i = 0; i < s->read.len; i++) {
    if (s->read.at[i] == name) return true;
  }
  return false;
}

/* The objective sees tensors of one shape. */
static Datum raw_field(Eval *e, const Field *f, Span at) {
  if (f->ragged) {
    eval_report(e, DIAG_E0807, at, "the length of `%s` still differs by sample", f->name);
    diag_help("make it one in a `transform`: `%s = pad_to(%s, length)`", f->name, f->name);
  } else {
    eval_report(e, DIAG_E0501, at, "`%s` is a text, and the objective computes with numbers",
                f->name);
    diag_help("make numbers of it in a `transform`, such as `utf8(%s, length = 64)`", f->name);
  }
  diag_note(f->at, "declared here");
  return datum_error();
}

static Field *find_field(const Dataset *d, const char *name) {
  for (uint32_t i = 0; i < d->fields.len; i++) {
    if (d->fields.at[i].name == name) return &d->fields.at[i];
  }
  return NULL;
}

static Datum data_member(void *self, Eval *e, const char *name, Span at) {
  DataState *s = self;
  if (!e->build) {
    Field *f = find_field(s->d, name); /* its classes are known */
    if (f && f->type.dtype != DT_COUNT) return transform_field(f);
    eval_report(e, DIAG_E0508, at, "`%s.%s` is known only when the program runs",
                s->decl->name.text, name);
    return datum_error();
  }
  if (s->transforming) {
    eval_report(e, DIAG_E0310, at, "a transform of `%s` reads `%s.%s`, which it makes itself",
                s->decl->name.text, s->decl->name.text, name);
    diag_help("write `%s`: inside a transform fields go by their names", name);
    return datum_error();
  }
  View *view = make_view(s, e);
  for (uint32_t i = 0; i < view->env->names.len; i++) {
    const Binding *b = &view->env->names.at[i];
    if (b->name != name) continue;
    note_read(s, name);
    if (b->value.kind == DATUM_error) return b->value;
    const Field *raw = transform_field_of(b->value);
    if (raw) return raw_field(e, raw, at);
    if (b->value.kind != DATUM_tensor) return b->value; /* the same for all samples */
    Val lifted = lift_value(view->graph, view->sample, b->value.as.tensor, view->map, e->scope);
    if (lifted == NO_VAL) {
      diag_report(DIAG_E0716, b->at, "this transform is not supported yet");
      return datum_error();
    }
    return datum_tensor(lifted);
  }
  TextNearest near = {.wanted = name};
  for (uint32_t i = 0; i < view->env->names.len; i++) {
    text_offer(&near, view->env->names.at[i].name);
  }
  eval_report(e, DIAG_E0301, at, "dataset `%s` has no field `%s`", s->decl->name.text, name);
  if (near.best) diag_help("did you mean `%s`?", near.best);
  return datum_error();
}

static const ObjectClass data_class = {.what = "dataset", .member = data_member};

/* ---------- the block ---------- */

static void check_transform(DataState *s, Eval *e, const DataItem *item) {
  Analysis *a = s->a;
  for (uint32_t k = 0; k < item->body.len; k++) {
    const Stmt *stmt = item->body.at[k];
    for (uint32_t t = 0; t < stmt->targets.len; t++) {
      vec_push(a->arena, &s->transformed,
               (Made){stmt->targets.at[t].text, stmt, stmt->targets.at[t].span});
    }
  }
  const char *split = item->name.text;
  if (!split) return;
  if (!find_split(s->d, split)) {
    diag_report(DIAG_E0301, item->name.span, "there is no split `%s`", split);
    return;
  }
  if (!strcmp(split, "train") || !strcmp(split, "validation")) return;
  diag_report(DIAG_E0716, item->name.span,
              "a transform of a split other than `train` and `validation` is not supported yet");
  View view = {.graph = graph_new(a->arena, split, false)}; /* for its mistakes */
  view_fill(s, split, &view, e);
}

static DataState *state_new(Analysis *a, File *file, const Decl *decl) {
  DataState *s = ARENA_NEW(a->arena, DataState);
  *s = (DataState){.a = a, .decl = decl, .file = file};
  s->d = a->data.len ? ARENA_NEW(a->arena, Dataset) : &a->job->dataset;
  s->d->name = decl->name.text;
  s->d->at = decl->name.span;
  for (uint32_t i = 0; i < a->data.len; i++) s->first_field += a->data.at[i]->d->fields.len;
  if (a->data.len) {
    diag_report(DIAG_E0716, decl->name.span, "several datasets are not supported yet");
  }
  vec_push(a->arena, &a->data, s);
  return s;
}

Datum data_declare(Analysis *a, Eval *e, File *file, const Decl *decl) {
  (void)e;
  DataState *s = state_new(a, file, decl);
  Eval ev = analysis_eval(a);
  Env *env = env_new(a->arena, NULL, file);
  for (uint32_t i = 0; i < decl->data.len; i++) {
    if (decl->data.at[i].kind == DATA_field) make_field(s, &ev, env, &decl->data.at[i]);
  }
  for (uint32_t i = 0; i < decl->data.len; i++) {
    const DataItem *item = &decl->data.at[i];
    if (item->kind == DATA_let) make_let(s, &ev, env, item);
    if (item->kind == DATA_split) make_split(s, &ev, env, item);
  }
  if (s->d->fields.len && !a->options->check_only) text_vocabulary(a, s->d, &s->d->fields.at[0]);
  for (uint32_t i = 0; i < decl->data.len; i++) {
    if (decl->data.at[i].kind == DATA_transform) check_transform(s, &ev, &decl->data.at[i]);
  }
  return datum_object(s, &data_class);
}

/* ---------- after the graphs ---------- */

static Field *field_of(Analysis *a, int64_t number) {
  for (uint32_t i = 0; i < a->data.len; i++) {
    DataState *s = a->data.at[i];
    int64_t k = number - s->first_field;
    if (k >= 0 && k < s->d->fields.len) return &s->d->fields.at[k];
  }
  return NULL;
}

int64_t data_classes(void *self, const Graph *g, Val v) {
  const Value *x = value_at(g, v);
  const Field *f = x->op == OP_input ? field_of(self, x->attr[0].as.i) : NULL;
  return f ? data_field_classes(self, f) : 0;
}

int64_t data_field_classes(Analysis *a, const Field *f) {
  for (uint32_t i = 0; i < a->data.len && !f->classes; i++) {
    Dataset *d = a->data.at[i]->d; /* `ddpc check` has not looked at the text yet */
    if (d->fields.len && f == &d->fields.at[0]) text_vocabulary(a, d, &d->fields.at[0]);
  }
  return f->classes;
}

static void mark_used(Analysis *a, const Graph *g) {
  for (Val v = 1; g && v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    Field *f = x->op == OP_input ? field_of(a, x->attr[0].as.i) : NULL;
    if (f) f->used = true;
  }
}

void data_use(void *self, const Graph *g, Val v) {
  const Value *x = value_at(g, v);
  Field *f = x->op == OP_input ? field_of(self, x->attr[0].as.i) : NULL;
  if (f) f->used = true;
  for (int i = 0; i < x->inputs; i++) data_use(self, g, x->in[i]);
}

/* Does another line of the transform use the value that a name is bound to? */
static bool used_later(const DataState *s, const char *name) {
  for (uint32_t v = 0; v < s->views.len; v++) {
    const Binding *bound = env_find(s->views.at[v].env, name);
    if (!bound || bound->value.kind != DATUM_tensor) continue;
    const Graph *g = s->views.at[v].sample;
    for (Val w = 1; w < g->values.len; w++) {
      for (int k = 0; k < value_at(g, w)->inputs; k++) {
        if (value_at(g, w)->in[k] == bound->value.as.tensor) return true;
      }
    }
  }
  return false;
}

static bool made_in_vain(const DataState *s, const char *name) {
  for (uint32_t k = 0; k < s->d->fields.len; k++) {
    if (s->d->fields.at[k].name == name) return false;
  }
  return name[0] != '_' && !was_read(s, name) && !used_later(s, name);
}

static void check_used(DataState *s) {
  Dataset *d = s->d;
  for (uint32_t i = 0; i < d->fields.len; i++) {
    const Field *f = &d->fields.at[i];
    if (f->used || f->name[0] == '_' || f->type.dtype == DT_COUNT || was_read(s, f->name)) continue;
    diag_report(DIAG_E0812, f->at, "field `%s` is never read", f->name);
    diag_help("start its name with `_` if the column is only skipped");
  }
  for (uint32_t i = 0; i < s->transformed.len; i++) {
    const Made *m = &s->transformed.at[i];
    bool vain = true; /* of several results of one call, one is enough */
    for (uint32_t k = 0; k < m->by->targets.len; k++) {
      vain &= made_in_vain(s, m->by->targets.at[k].text);
    }
    if (vain) diag_report(DIAG_E0303, m->at, "`%s` is never read", m->name);
  }
}

static bool read_by_evaluation(const DataState *s) {
  for (uint32_t i = 0; i < s->views.len; i++) {
    if (!s->views.at[i].graph->training) return true;
  }
  return false;
}

/* Splits that settings need. The evaluation split exists whenever it is declared, so that the program
   can be told to evaluate when it starts. */
static void check_splits(DataState *s) {
  Analysis *a = s->a;
  Dataset *d = s->d;
  bool first = s == a->data.at[0];
  if (!find_split(d, "train")) {
    diag_report(DIAG_E0805, d->at, "dataset `%s` has no split `train`", d->name);
    diag_help("add `split train = ...`");
  }
  if (find_split(d, "validation")) {
    if (first) a->job->eval_split = text_intern("validation");
    return;
  }
  if (!first && !read_by_evaluation(s)) return;
  const SettingValue *strategy = settings_value(a->settings, "eval_strategy");
  const SettingValue *start = settings_value(a->settings, "eval_on_start");
  const char *key = strategy->kind == VALUE_text && strcmp(strategy->text, "no") != 0
                        ? "eval_strategy"
                    : start->kind == VALUE_bool && start->b ? "eval_on_start"
                                                            : NULL;
  if (!key) return;
  SettingSlot *slot = settings_slot(a->settings, key);
  diag_report(DIAG_E0805, slot->key_at.file ? slot->key_at : d->at,
              "`%s = %s` needs a split `validation`, and dataset `%s` has none", key,
              setting_text(a->arena, slot->row, settings_value(a->settings, key)), d->name);
  diag_note(d->at, "the dataset is here");
}

void data_finish(Analysis *a) {
  mark_used(a, a->job->train);
  mark_used(a, a->job->eval);
  mark_used(a, a->job->predict);
  for (uint32_t i = 0; i < a->data.len; i++) {
    /* without the graphs, what is unread may be read where the error is */
    if (a->objective_ok) check_used(a->data.at[i]);
    check_splits(a->data.at[i]);
  }
}
