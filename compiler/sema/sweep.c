/* The sweep of a job. In: the `sweep` block. Out: Job.sweep, one axis a line with its values as texts
   that -D and the flags of a program take. A program of the job itself has the values of `train`. */
#include "analysis.h"
#include "diag.h"
#include <string.h>

typedef struct Line {
  Analysis *a;
  const Setting *line;
  const SettingRow *row; /* a setting, or */
  SettingSlot *slot;
  const Decl *param;
  SweepAxis axis;
} Line;

static void cannot_vary(const Line *l, const char *why) {
  diag_report(DIAG_E0712, l->line->key_span, "`%s` cannot vary: %s", l->line->key, why);
}

static bool unknown_axis(Line *l) {
  TextNearest near = {.wanted = l->line->key};
  for (int i = 0; i < setting_rows(); i++) text_offer(&near, setting_row(i)->key);
  for (uint32_t i = 0; i < l->a->root->names.len; i++) {
    const FileName *n = &l->a->root->names.at[i];
    if (n->decl->kind == DECL_param) text_offer(&near, n->name);
  }
  diag_report(DIAG_E0712, l->line->key_span, "`%s` is neither a setting nor a param of the job",
              l->line->key);
  if (near.best) diag_help("did you mean `%s`?", near.best);
  return false;
}

/* What the axis is over. */
static bool find_axis(Line *l) {
  const char *key = l->line->key;
  FileName *name = file_find(l->a->root, key);
  l->axis.key = key;
  if (name && name->decl->kind == DECL_param) {
    l->param = name->decl;
    name->used = true;
    l->axis.name = key;
    l->axis.compile_time = true;
    return true;
  }
  int i = setting_find(NULL, key);
  if (i < 0) return unknown_axis(l);
  l->row = setting_row(i);
  l->slot = &l->a->settings->slots[i];
  l->axis.name = arena_printf(l->a->arena, "%s.%s", l->row->block, key);
  l->axis.compile_time = l->row->class == 'C' || l->slot->fixed_by != NULL;
  if (l->row->class == 'X') return cannot_vary(l, "it is no key of ddpc"), false;
  if (l->row->class == 'A') return cannot_vary(l, "it changes nothing"), false;
  if (!l->slot->is_final) return true;
  cannot_vary(l, "it is `final`");
  diag_note(l->slot->key_at, "here");
  return false;
}

/* A value as it would be written, for what reads settings. */
static Expr *literal_of(Arena *a, Datum d, Span at) {
  Expr *x = ARENA_NEW(a, Expr);
  *x = (Expr){.kind = EXPR_error, .span = at};
  if (d.kind == DATUM_int) x->kind = EXPR_int, x->as.i = d.as.i;
  if (d.kind == DATUM_float) x->kind = EXPR_float, x->as.f = d.as.f;
  if (d.kind == DATUM_bool) x->kind = EXPR_bool, x->as.b = d.as.b;
  if (d.kind == DATUM_none) x->kind = EXPR_none;
  if (d.kind == DATUM_text) {
    x->kind = EXPR_text;
    x->as.text.text = d.as.text.at;
    x->as.text.length = d.as.text.length;
  }
  return x;
}

static bool add_setting(Line *l, const Expr *x) {
  SettingSlot slot = {
      .row = l->row, .file = l->a->root, .at = x->span, .key_at = l->line->key_span};
  SettingValue v;
  if (x->kind == EXPR_error || !setting_evaluate(l->a->settings, &slot, x, &v)) return false;
  bool optim = !strcmp(l->row->key, "optim");
  if (l->row->values[0] == '*' && v.kind == VALUE_text) { /* a definition */
    Eval e = analysis_eval(l->a);
    Datum d = definition_find(l->a, &e, l->row->key, optim ? "std/optim.ddp" : "std/schedule.ddp",
                              x, v.text, l->a->root, x->span);
    if (d.kind == DATUM_error) return false;
  }
  vec_push(l->a->arena, &l->axis.values, setting_text(l->a->arena, l->row, &v));
  return true;
}

static bool add_param(Line *l, const Expr *x) {
  Eval e = analysis_eval(l->a);
  Datum d = eval_expr(&e, x, env_new(l->a->arena, NULL, l->a->root));
  if (d.kind == DATUM_error) return false;
  if (!param_fits(l->param->type, &d)) {
    diag_report(DIAG_E0501, x->span, "`%s` is %s, and this is %s", l->line->key,
                l->param->type->kind == TYPE_name ? l->param->type->name : "of another type",
                datum_describe(&e, d));
    diag_note(l->param->span, "declared here");
    return false;
  }
  Text t = {0};
  if (d.kind == DATUM_text)
    text_add(&t, d.as.text.at);
  else
    datum_print(&t, d);
  vec_push(l->a->arena, &l->axis.values, arena_strndup(l->a->arena, t.at, t.len));
  text_free(&t);
  return true;
}

static bool add_value(Line *l, const Expr *x) {
  uint32_t n = l->axis.values.len;
  if (!(l->param ? add_param(l, x) : add_setting(l, x))) return false;
  for (uint32_t i = 0; i < n; i++) {
    if (strcmp(l->axis.values.at[i], l->axis.values.at[n]) != 0) continue;
    diag_report(DIAG_E0712, x->span, "the value %s stands twice on this axis",
                l->axis.values.at[n]);
    return false;
  }
  return true;
}

static void read_values(Line *l) {
  const Expr *x = l->line->value;
  if (x->kind == EXPR_list) {
    for (uint32_t i = 0; i < x->as.items.len; i++) {
      if (!add_value(l, x->as.items.at[i])) return;
    }
  } else {
    Eval e = analysis_eval(l->a);
    Datum d = eval_expr(&e, x, env_new(l->a->arena, NULL, l->a->root));
    if (d.kind == DATUM_error) return;
    if (d.kind != DATUM_list) {
      diag_report(DIAG_E0501, x->span, "an axis is a list or a range, not %s",
                  datum_describe(&e, d));
      return;
    }
    for (uint32_t i = 0; i < d.as.list.len; i++) {
      if (!add_value(l, literal_of(l->a->arena, d.as.list.at[i], x->span))) return;
    }
  }
  if (!l->axis.values.len) cannot_vary(l, "it has no values");
}

void sweep_make(Analysis *a) {
  for (uint32_t i = 0; a->sweep && i < a->sweep->settings.len; i++) {
    const Setting *line = &a->sweep->settings.at[i];
    Line l = {.a = a, .line = line, .axis.at = line->key_span};
    if (!line->key || !find_axis(&l)) continue;
    bool twice = false;
    for (uint32_t k = 0; k < a->job->sweep.len; k++) {
      if (strcmp(a->job->sweep.at[k].name, l.axis.name) != 0) continue;
      diag_report(DIAG_E0704, line->key_span, "`%s` is set twice", line->key);
      diag_note(a->job->sweep.at[k].at, "first set here");
      twice = true;
    }
    if (twice) continue;
    read_values(&l);
    vec_push(a->arena, &a->job->sweep, l.axis);
  }
}
