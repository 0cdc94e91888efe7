/* In: a checked job. Out: its text in one form. Comments, blanks, the order of declarations, imports and
   settings, the spelling of numbers, booleans and words, and whether a value stands in the file, comes
   from -D or is the default, do not change it. Order that means something stays: members of modules
   (draws, names), statements, fields, lines of a model block. `target` and `sweep` say where and how
   often the job is run, not what it is. */
#include "identity.h"
#include "print.h"
#include <stdlib.h>

typedef VEC(const char *) Texts;

static int by_text(const void *x, const void *y) {
  return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static void add_sorted(Text *out, Texts *texts) {
  if (texts->len) qsort(texts->at, texts->len, sizeof *texts->at, by_text);
  for (uint32_t i = 0; i < texts->len; i++) text_addf(out, "%s\n", texts->at[i]);
}

/* ---------- settings inside a model block ---------- */

static int by_key(const void *x, const void *y) {
  const char *a = ((const Setting *)x)->key, *b = ((const Setting *)y)->key;
  return strcmp(a ? a : "", b ? b : "");
}

static bool is_word(const char *s) {
  if (!*s || strchr("0123456789", *s)) return false;
  return s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")] == 0;
}

static SettingList canonical_settings(Arena *a, const SettingList *list) {
  SettingList out = {ARENA_ARRAY(a, Setting, list->len + 1), list->len};
  for (uint32_t i = 0; i < list->len; i++) {
    Setting s = list->at[i];
    if (s.value && s.value->kind == EXPR_text && is_word(s.value->as.text.text)) {
      Expr *word = ARENA_NEW(a, Expr);
      *word = (Expr){.kind = EXPR_name, .span = s.value->span};
      word->as.name.text = s.value->as.text.text;
      s.value = word;
    }
    out.at[i] = s;
  }
  if (out.len) qsort(out.at, out.len, sizeof *out.at, by_key);
  return out;
}

static ModelList canonical_items(Arena *a, const ModelList *list) {
  ModelList out = {ARENA_ARRAY(a, ModelItem *, list->len + 1), list->len};
  for (uint32_t i = 0; i < list->len; i++) {
    out.at[i] = arena_copy(a, list->at[i], sizeof(ModelItem));
    out.at[i]->settings = canonical_settings(a, &list->at[i]->settings);
    out.at[i]->body = canonical_items(a, &list->at[i]->body);
  }
  return out;
}

/* ---------- declarations ---------- */

static const char *decl_text(Arena *a, const AstFile *file, const Decl *d) {
  Decl copy = *d;
  Decl *one = &copy;
  copy.model = canonical_items(a, &d->model);
  AstFile alone = {.source = file->source, .path = file->path, .edition = file->edition};
  alone.decls.at = &one;
  alone.decls.len = 1;
  Text t = {0};
  ast_print(&t, &alone);
  const char *kept = arena_strndup(a, t.at, t.len);
  text_free(&t);
  return kept;
}

/* A param of the job counts with its value, wherever it comes from; one of an import when -D sets it. */
static const char *param_text(Analysis *a, const AstFile *ast, const Decl *d) {
  File *file = a->program->files;
  while (file && file->ast != ast) file = file->next;
  const FileName *n = file ? file_find(file, d->name.text) : NULL;
  if (!n || (ast != a->root->ast && !import_define(a, d)) || n->decl != d || n->state != NAME_done)
    return NULL;
  Text t = {0};
  text_addf(&t, "param %s = ", n->name);
  datum_print(&t, n->value);
  const char *kept = arena_strndup(a->arena, t.at, t.len);
  text_free(&t);
  return kept;
}

static const char *file_text(Analysis *a, const AstFile *file) {
  Texts decls = {0};
  for (uint32_t i = 0; i < file->decls.len; i++) {
    const Decl *d = file->decls.at[i];
    bool elsewhere = d->kind == DECL_train || d->kind == DECL_runtime; /* as resolved settings */
    if (elsewhere || d->kind == DECL_target || d->kind == DECL_sweep) continue;
    const char *text = d->kind == DECL_param ? param_text(a, file, d) : NULL;
    vec_push(a->arena, &decls, text ? text : decl_text(a->arena, file, d));
  }
  Text t = {0};
  add_sorted(&t, &decls);
  const char *kept = arena_strndup(a->arena, t.at ? t.at : "", t.len);
  text_free(&t);
  return kept;
}

/* What has its default value says nothing, so that a new key changes no hash; nor does what is accepted and
   changes nothing. */
static void add_settings(Analysis *a, Text *out) {
  for (int i = 0; i < setting_rows(); i++) {
    const SettingRow *row = setting_row(i);
    if (row->class == 'X' || row->class == 'A') continue;
    SettingValue initial;
    setting_default(a->settings, row, &initial);
    bool is_final = a->settings->slots[i].is_final;
    const char *value = setting_text(a->arena, row, settings_get(a->settings, i));
    if (!is_final && !strcmp(value, setting_text(a->arena, row, &initial))) continue;
    text_addf(out, "%s%s.%s = %s\n", is_final ? "final " : "", row->block, row->key, value);
  }
}

void identity_print(Analysis *a, Text *out) {
  Texts files = {0};
  text_addf(out, "job\n%s", file_text(a, a->root->ast));
  for (uint32_t i = 0; i < a->job->files.len; i++) {
    const AstFile *file = a->job->files.at[i];
    if (file != a->root->ast) vec_push(a->arena, &files, file_text(a, file));
  }
  add_sorted(out, &files);
  add_settings(a, out);
}
