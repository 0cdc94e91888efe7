/* Blocks of settings. A quoted word is written without quotes where tables/settings.def says that the key
   takes words, and nothing of the file has that name. */
#include "layout.h"

typedef struct Row {
  const char *block, *key, *type, *values;
} Row;

static const Row rows[] = {
#define SETTING(block, name, type, nullable, default_, values, ...) {#block, #name, #type, values},
#include "settings.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

static const Row *find_row(const char *table, const char *key) {
  for (int i = 0; table && i < ROWS; i++)
    if (!strcmp(rows[i].block, table) && !strcmp(rows[i].key, key)) return &rows[i];
  return NULL;
}

/* "a|~b" or a set of definitions, "*optimizer". */
static bool among(const char *values, const char *word) {
  if (*values == '*') return true;
  size_t length = strlen(word);
  for (const char *v = values, *next; *v; v = next) {
    size_t n = strcspn(v, "|");
    next = v + n + (v[n] == '|');
    if (*v == '~') {
      v++;
      n--;
    }
    if (n == length && !strncmp(v, word, n)) return true;
  }
  return false;
}

static bool names_constant(const Layout *l, const char *word) {
  for (uint32_t i = 0; i < l->file->decls.len; i++) {
    const Decl *d = l->file->decls.at[i];
    bool constant = d->kind == DECL_param || d->kind == DECL_const;
    if (constant && !strcmp(d->name.text, word)) return true;
  }
  return false;
}

static bool takes_word(const Layout *l, const char *table, const Setting *s) {
  const Row *row = find_row(table, s->key);
  if (!row || strcmp(row->type, "word") != 0 || s->value->kind != EXPR_text) return false;
  const char *word = s->value->as.text.text;
  return strlen(word) == s->value->as.text.length && is_name(word, false) &&
         among(row->values, word) && !names_constant(l, word);
}

static void put_setting(Layout *l, const SettingsBlock *b, const Setting *s) {
  if (s->is_final) put(l, "final ");
  put(l, s->key);
  put(l, b->axes ? " in " : " = ");
  if (takes_word(l, b->table, s))
    put(l, s->value->as.text.text);
  else
    put_value(l, s->value, false);
}

/* Two keys at most stay on one line if they were written so. */
static bool written_on_one_line(const Layout *l, const SettingsBlock *b) {
  const SettingList *list = b->settings;
  if (list->len > 2) return false;
  return on_one_line(l, code_before(l, list->at[0].span.begin), b->close);
}

void put_settings(Layout *l, SettingsBlock b) {
  const SettingList *list = b.settings;
  put_block_open(l);
  if (!list->len) {
    put_block_close(l, b.close, true);
    return;
  }
  if (!written_on_one_line(l, &b)) doc_break(&l->doc);
  for (uint32_t i = 0; i < list->len; i++) {
    const Setting *s = &list->at[i];
    if (i) doc_if_flat(&l->doc, ",");
    doc_line(&l->doc);
    put_item(l, (Item){.begin = s->span.begin, .until = s->value->span.begin, .first = i == 0});
    put_setting(l, &b, s);
  }
  put_rest(l, b.close, false);
  doc_dedent(&l->doc);
  doc_line(&l->doc);
  doc_close(&l->doc);
  put(l, "}");
}
