/* Definitions that settings name: optimizers and schedules. In: the value of the key. Out: the
   definition in the job's file, behind an alias, or in the library file of that key; and the arguments
   that a map gives it. */
#include "analysis.h"
#include "diag.h"

static const struct {
  const char *key, *name, *why;
} refused_names[] = {
#define REFUSED(key, name, why) {#key, #name, why},
#include "refused.def"
#undef REFUSED
};

/* Why nobody carries out this word of Hugging Face; NULL: it is none of those. */
static const char *refused(const char *key, const char *name) {
  for (size_t i = 0; i < sizeof(refused_names) / sizeof(*refused_names); i++) {
    if (!strcmp(refused_names[i].key, key) && !strcmp(refused_names[i].name, name))
      return refused_names[i].why;
  }
  return NULL;
}

static void offer_names(TextNearest *near, File *file, bool optimizers) {
  for (uint32_t i = 0; file && i < file->names.len; i++) {
    const Decl *d = file->names.at[i].decl;
    bool fits = optimizers ? d->kind == DECL_optimizer || (file->library && d->kind == DECL_const)
                           : d->kind == DECL_def;
    if (fits) text_offer(near, file->names.at[i].name);
  }
}

static Datum find_in(Eval *e, File *file, const char *name, Span at) {
  FileName *n = file ? file_find(file, text_intern(name)) : NULL;
  return n ? file_value(e, file, n, at) : datum_none();
}

Datum definition_find(Analysis *a, Eval *e, const char *key, const char *library, const Expr *expr,
                      const char *name, File *file, Span at) {
  bool optimizers = !strcmp(key, "optim");
  DatumKind want = optimizers ? DATUM_optimizer : DATUM_function;
  Datum d = datum_none();
  if (expr && expr->kind == EXPR_member) {
    d = eval_expr(e, expr, env_new(a->arena, NULL, file));
  } else if (file) {
    d = find_in(e, file, name, at); /* name: what a param that holds a text stands for */
    if (d.kind != DATUM_none) file_mark_used(file, text_intern(name));
  }
  File *lib = program_library(a->program, library);
  if (d.kind == DATUM_none) d = find_in(e, lib, name, at);
  if (d.kind == want || d.kind == DATUM_error) return d;
  if (d.kind != DATUM_none) {
    diag_report(DIAG_E0501, at, "`%s` takes %s, not %s", key,
                optimizers ? "an optimizer" : "a schedule", datum_describe(e, d));
    return datum_error();
  }
  const char *why = refused(key, name);
  if (why) {
    diag_report(DIAG_E0705, at, "`%s = %s` is refused: %s", key, name, why);
    return datum_error();
  }
  TextNearest near = {.wanted = name};
  offer_names(&near, file, optimizers);
  offer_names(&near, lib, optimizers);
  diag_report(DIAG_E0703, at, "there is no %s `%s`", optimizers ? "optimizer" : "schedule", name);
  if (near.best) diag_help("did you mean `%s`?", near.best);
  return datum_error();
}

bool setting_scalar(const SettingValue *v, Datum *out) {
  switch (v->kind) {
  case VALUE_none:
    return *out = datum_none(), true;
  case VALUE_int:
    return *out = datum_int(v->i), true;
  case VALUE_float:
    return *out = datum_float(v->f), true;
  case VALUE_bool:
    return *out = datum_bool(v->b), true;
  case VALUE_text:
    return *out = datum_text(v->text), true;
  case VALUE_list:
  case VALUE_map:
    break;
  }
  return false;
}

static Datum datum_of(Analysis *a, const SettingValue *v) {
  Datum scalar;
  if (setting_scalar(v, &scalar)) return scalar;
  Datum *items = ARENA_ARRAY(a->arena, Datum, v->items.len + 1);
  for (uint32_t i = 0; i < v->items.len; i++) items[i] = datum_of(a, v->items.at[i].value);
  return datum_list(a->arena, items, v->items.len);
}

bool definition_args(Analysis *a, Datum definition, const SettingValue *map, Span at,
                     DefinitionArgs *out) {
  const Closure *c = definition.as.closure;
  bool ok = true;
  for (uint32_t i = 0; map && map->kind == VALUE_map && i < map->items.len; i++) {
    const SettingItem *item = &map->items.at[i];
    Span place = item->at.file ? item->at : at;
    if (!closure_accepts(definition, item->key)) {
      diag_report(DIAG_E0715, place, "`%s` has no argument `%s`", c->decl->name.text, item->key);
      TextNearest near = {.wanted = item->key};
      for (uint32_t k = 0; k < c->decl->formals.len; k++) {
        text_offer(&near, c->decl->formals.at[k].name);
      }
      if (near.best) diag_help("did you mean `%s`?", near.best);
      ok = false;
      continue;
    }
    vec_push(
        a->arena, &out->args,
        (CallArg){.name = text_intern(item->key), .value = datum_of(a, item->value), .at = place});
  }
  return ok;
}

bool definition_complete(Datum definition, const DefinitionArgs *args, const char *key, Span at) {
  const Decl *decl = definition.as.closure->decl;
  bool ok = true;
  for (uint32_t i = 0; i < decl->formals.len; i++) {
    const Formal *f = &decl->formals.at[i];
    bool given = f->value != NULL;
    for (uint32_t k = 0; k < args->args.len; k++) given |= args->args.at[k].name == f->name;
    if (given) continue;
    diag_report(DIAG_E0715, at, "`%s` needs the argument `%s`", decl->name.text, f->name);
    diag_help("give it in `%s = { %s = ... }`", key, f->name);
    ok = false;
  }
  return ok;
}
