/* The dataset of a job. In: the `dataset` block. Out: Job.dataset (fields, sources, splits) and the
   members that the objective reads. A transform is evaluated over one sample, once per graph, and what
   is read of it is copied into that graph with the batch in front (lift.c).
   `transform NAME` belongs to a split: the training graph stands for `train`, the other one for
   `validation`. */
#include "analysis.h"
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

typedef struct DataState {
  Analysis *a;
  const Decl *decl;
  File *file;
  VEC(LetName) lets;
  VEC(View) views;
  VEC(const char *) read;   /* members that were read */
  VEC(Binding) transformed; /* names that transforms make, with their places */
} DataState;

/* ---------- fields ---------- */

static void refuse_type(const TypeExpr *t, const char *what) {
  diag_report(DIAG_E0716, t->span, "fields of %s are not supported yet", what);
  diag_help("stored types are uint8, int32, int64 and float");
}

static bool category_type(Analysis *a, Eval *e, Env *env, const TypeExpr *t, Field *f) {
  const Arg *arg = t->args.len == 1 ? &t->args.at[0] : NULL;
  Datum d = arg ? eval_expr(e, arg->value, env) : datum_error();
  if (arg && d.kind == DATUM_error) return false;
  if (!arg || d.kind != DATUM_list || !d.as.list.len) {
    if (d.kind == DATUM_int)
      refuse_type(t, "categories without their names");
    else {
      diag_report(DIAG_E0501, t->span, "`category` takes the list of its names");
      diag_help("for example `category([\"no\", \"yes\"])`");
    }
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
  f->type = type_scalar(d.as.list.len <= 256 ? DT_u8 : DT_i64);
  f->has_range = true;
  f->high = d.as.list.len;
  return true;
}

static bool stored_dtype(const TypeExpr *t, const char *name, DType *out) {
  if (!name || !strcmp(name, "float"))
    *out = DT_f32;
  else if (!strcmp(name, "int"))
    *out = DT_i64;
  else if (!dtype_parse(name, out)) {
    static const char *const known[] = {"uint16", "int8", "int16", "uint32", "uint64", "text"};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
      if (strcmp(name, known[i]) != 0) continue;
      refuse_type(t, name);
      return false;
    }
    diag_report(DIAG_E0501, t->span, "`%s` is no type of a field", name);
    diag_help("stored types are uint8, int32, int64 and float");
    return false;
  }
  if (*out == DT_u8 || *out == DT_i32 || *out == DT_i64 || *out == DT_f32) return true;
  refuse_type(t, name);
  return false;
}

static bool field_dims(Eval *e, Env *env, const TypeExpr *t, Field *f) {
  for (uint32_t i = 0; i < t->dims.len; i++) {
    const Expr *x = t->dims.at[i].value;
    if (!x || (x->kind == EXPR_name && !strcmp(x->as.name.text, "_"))) {
      diag_report(DIAG_E0716, t->dims.at[i].span,
                  "fields whose length differs by sample are not supported yet");
      return false;
    }
  }
  Type dims;
  if (!eval_dims(e, t, env, &dims)) return false;
  dims.dtype = f->type.dtype;
  f->type = dims;
  return true;
}

static bool range_end(Eval *e, Env *env, const Expr *x, double *out) {
  return need_number(e, eval_expr(e, x, env), x->span, "the end of a range", out);
}

static bool field_range(Eval *e, Env *env, const Expr *range, Field *f) {
  if (!range) return true;
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
  f->has_range = true;
  return true;
}

static bool make_field(Analysis *a, Eval *e, Env *env, const DataItem *item) {
  Dataset *d = &a->job->dataset;
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
    ok = stored_dtype(t, t->name, &f.type.dtype) &&
         (t->kind == TYPE_name || field_dims(e, env, t, &f));
  } else {
    diag_report(DIAG_E0501, t->span, "this is no type of a field");
    diag_help("stored types are uint8, int32, int64 and float");
    ok = false;
  }
  if (ok) ok = field_range(e, env, item->range, &f);
  if (!ok) f.type = type_scalar(DT_COUNT); /* reading it is an error that was reported */
  vec_push(a->arena, &d->fields, f);
  return ok;
}

/* ---------- lets and splits ---------- */

int32_t data_let(Analysis *a, const char *name) {
  for (uint32_t i = 0; i < a->data->lets.len; i++) {
    if (a->data->lets.at[i].name != name) continue;
    return a->data->lets.at[i].source;
  }
  return -2;
}

static void make_let(Analysis *a, Eval *e, Env *env, const DataItem *item) {
  for (uint32_t i = 0; i < a->data->lets.len; i++) {
    if (a->data->lets.at[i].name != item->name.text) continue;
    diag_report(DIAG_E0302, item->name.span, "`%s` is declared twice", item->name.text);
    diag_note(a->data->lets.at[i].at, "first declared here");
    return;
  }
  LetName let = {.name = item->name.text, .at = item->name.span};
  let.source = source_build(a, &a->job->dataset, e, env, item->value);
  vec_push(a->arena, &a->data->lets, let);
}

static void make_split(Analysis *a, Eval *e, Env *env, const DataItem *item) {
  Dataset *d = &a->job->dataset;
  for (uint32_t i = 0; i < d->splits.len; i++) {
    if (d->splits.at[i].name != item->name.text) continue;
    diag_report(DIAG_E0302, item->name.span, "split `%s` is declared twice", item->name.text);
    diag_note(d->splits.at[i].at, "first declared here");
    return;
  }
  Split s = {.name = item->name.text, .at = item->name.span};
  s.source = source_build(a, d, e, env, item->value);
  vec_push(a->arena, &d->splits, s);
}

static const Split *find_split(const Dataset *d, const char *name) {
  for (uint32_t i = 0; i < d->splits.len; i++) {
    if (!strcmp(d->splits.at[i].name, name)) return &d->splits.at[i];
  }
  return NULL;
}

/* ---------- what the objective sees ---------- */

static Val field_input(Graph *g, const Field *f, int32_t number) {
  Attr attrs[3] = {{.as.i = number}, {.as.i = (int64_t)f->type.dtype}};
  attrs[2].as.dims.len = f->type.rank;
  for (int i = 0; i < f->type.rank; i++) attrs[2].as.dims.at[i] = f->type.dim[i];
  return ir_must(g, OP_input, NULL, 0, attrs, f->at, 0);
}

static void run_transforms(DataState *s, View *view, Eval *e) {
  const char *split = view->graph->training ? "train" : "validation";
  for (int common = 0; common < 2; common++) {
    for (uint32_t i = 0; i < s->decl->data.len; i++) {
      const DataItem *item = &s->decl->data.at[i];
      if (item->kind != DATA_transform) continue;
      if (common ? item->name.text != NULL
                 : !item->name.text || strcmp(item->name.text, split) != 0) {
        continue;
      }
      eval_stmts(e, item->body, view->env);
    }
  }
}

static View *make_view(DataState *s, Eval *e) {
  Analysis *a = s->a;
  Graph *graph = e->build->graph;
  for (uint32_t i = 0; i < s->views.len; i++) {
    if (s->views.at[i].graph == graph) return &s->views.at[i];
  }
  View view = {.graph = graph, .sample = graph_new(a->arena, "transform", graph->training)};
  view.env = env_new(a->arena, NULL, s->file);
  Dataset *d = &a->job->dataset;
  for (uint32_t i = 0; i < d->fields.len; i++) {
    const Field *f = &d->fields.at[i];
    Datum v = f->type.dtype == DT_COUNT ? datum_error()
                                        : datum_tensor(field_input(view.sample, f, (int32_t)i));
    env_define(a->arena, view.env, f->name, v, BIND_local, f->at);
  }
  Eval ev =
      eval_new(a->program, build_new(a->arena, view.sample, e->leaves), e->leaves, graph->training);
  ev.frame = e->frame;
  run_transforms(s, &view, &ev);
  /* Copies of a value are made once per graph. */
  view.map = ARENA_ARRAY(a->arena, Val, view.sample->values.len);
  vec_push(a->arena, &s->views, view);
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

static Datum data_member(void *self, Eval *e, const char *name, Span at) {
  DataState *s = self;
  if (!e->build) {
    eval_report(e, DIAG_E0508, at, "`%s.%s` is known only when the program runs",
                s->decl->name.text, name);
    return datum_error();
  }
  View *view = make_view(s, e);
  for (uint32_t i = 0; i < view->env->names.len; i++) {
    const Binding *b = &view->env->names.at[i];
    if (b->name != name) continue;
    note_read(s, name);
    if (b->value.kind == DATUM_error) return b->value;
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

Datum data_declare(Analysis *a, Eval *e, File *file, const Decl *decl) {
  (void)e;
  if (a->data) return datum_object(a->data, &data_class);
  DataState *s = ARENA_NEW(a->arena, DataState);
  *s = (DataState){.a = a, .decl = decl, .file = file};
  a->data = s;
  Dataset *d = &a->job->dataset;
  d->name = decl->name.text;
  d->at = decl->name.span;
  Eval ev = analysis_eval(a);
  Env *env = env_new(a->arena, NULL, file);
  for (uint32_t i = 0; i < decl->data.len; i++) {
    if (decl->data.at[i].kind == DATA_field) make_field(a, &ev, env, &decl->data.at[i]);
  }
  for (uint32_t i = 0; i < decl->data.len; i++) {
    const DataItem *item = &decl->data.at[i];
    if (item->kind == DATA_let) make_let(a, &ev, env, item);
    if (item->kind == DATA_split) make_split(a, &ev, env, item);
    if (item->kind != DATA_transform) continue;
    for (uint32_t k = 0; k < item->body.len; k++) {
      const Stmt *stmt = item->body.at[k];
      for (uint32_t t = 0; t < stmt->targets.len; t++) {
        vec_push(a->arena, &s->transformed,
                 (Binding){.name = stmt->targets.at[t].text, .at = stmt->targets.at[t].span});
      }
    }
  }
  for (uint32_t i = 0; i < decl->data.len; i++) {
    const DataItem *item = &decl->data.at[i];
    if (item->kind != DATA_transform || !item->name.text) continue;
    if (!find_split(d, item->name.text)) {
      diag_report(DIAG_E0301, item->name.span, "there is no split `%s`", item->name.text);
    } else if (strcmp(item->name.text, "train") != 0 &&
               strcmp(item->name.text, "validation") != 0) {
      diag_report(
          DIAG_E0716, item->name.span,
          "a transform of a split other than `train` and `validation` is not supported yet");
    }
  }
  return datum_object(s, &data_class);
}

/* ---------- after the graphs ---------- */

static void mark_used(Analysis *a, const Graph *g) {
  for (Val v = 1; g && v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (x->op != OP_input) continue;
    a->job->dataset.fields.at[x->attr[0].as.i].used = true;
  }
}

static void check_used(Analysis *a) {
  Dataset *d = &a->job->dataset;
  DataState *s = a->data;
  for (uint32_t i = 0; i < d->fields.len; i++) {
    const Field *f = &d->fields.at[i];
    if (f->used || f->name[0] == '_' || f->type.dtype == DT_COUNT || was_read(s, f->name)) continue;
    diag_report(DIAG_E0812, f->at, "field `%s` is never read", f->name);
    diag_help("start its name with `_` if the column is only skipped");
  }
  for (uint32_t i = 0; i < s->transformed.len; i++) {
    const Binding *b = &s->transformed.at[i];
    if (b->name[0] == '_' || was_read(s, b->name)) continue;
    bool field = false;
    for (uint32_t k = 0; k < d->fields.len; k++) field |= d->fields.at[k].name == b->name;
    bool later = false; /* used by another line of the transform */
    for (uint32_t v = 0; v < s->views.len && !field; v++) {
      const Binding *bound = env_find(s->views.at[v].env, b->name);
      if (bound && bound->value.kind == DATUM_tensor) {
        const Graph *g = s->views.at[v].sample;
        for (Val w = 1; w < g->values.len; w++) {
          for (int k = 0; k < value_at(g, w)->inputs; k++) {
            later |= value_at(g, w)->in[k] == bound->value.as.tensor;
          }
        }
      }
    }
    if (field || later) continue;
    diag_report(DIAG_E0303, b->at, "`%s` is never read", b->name);
  }
}

/* Splits that settings need. The evaluation split exists whenever it is declared, so that the program
   can be told to evaluate when it starts. */
static void check_splits(Analysis *a) {
  Dataset *d = &a->job->dataset;
  if (!find_split(d, "train")) {
    diag_report(DIAG_E0805, d->at, "dataset `%s` has no split `train`", d->name);
    diag_help("add `split train = ...`");
  }
  if (find_split(d, "validation")) {
    a->job->eval_split = text_intern("validation");
    return;
  }
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
  if (!a->data) return;
  mark_used(a, a->job->train);
  mark_used(a, a->job->eval);
  if (a->objective_ok) check_used(a); /* else what is unread may be read where the error is */
  check_splits(a);
}
