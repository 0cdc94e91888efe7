/* `ddpc from-hf ARGS`: TrainingArguments -> a `train` block with what is no default. What cannot be taken
   over is said on the standard error, with the reason, and stands as a comment in the block. */
#include "command.h"
#include "keys.h"
#include "pasted.h"
#include <errno.h>
#include <stdlib.h>

typedef struct Writer {
  Arena *a;
  Text block;
  int notes;
} Writer;

static void note(Writer *w, const char *key, const char *text) {
  fprintf(stderr, "note: %s: %s\n", key, text);
  w->notes++;
}

/* ---------- values ---------- */

static void add_text(Text *out, const char *s) {
  text_add(out, "\"");
  for (; *s; s++) {
    const char *escaped = *s == '"'    ? "\\\""
                          : *s == '\\' ? "\\\\"
                          : *s == '\n' ? "\\n"
                          : *s == '\t' ? "\\t"
                                       : NULL;
    if (escaped)
      text_add(out, escaped);
    else
      text_add_n(out, s, 1);
  }
  text_add(out, "\"");
}

static bool is_word(const char *s) {
  return *s && !strchr("0123456789", *s) &&
         !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")];
}

static void add_value(Text *out, json_t *j, const KeyRow *row) {
  size_t i;
  const char *key;
  json_t *item;
  int n = 0;
  switch (json_typeof(j)) {
  case JSON_STRING:
    if (row && row->type == KEY_word && is_word(json_string_value(j)))
      text_add(out, json_string_value(j));
    else
      add_text(out, json_string_value(j));
    break;
  case JSON_INTEGER:
    text_addf(out, "%lld", (long long)json_integer_value(j));
    break;
  case JSON_REAL:
    text_add_double(out, json_real_value(j));
    break;
  case JSON_ARRAY:
    text_add(out, "[");
    json_array_foreach(j, i, item) {
      text_add(out, i ? ", " : "");
      add_value(out, item, NULL);
    }
    text_add(out, "]");
    break;
  case JSON_OBJECT:
    text_add(out, "{ ");
    json_object_foreach(j, key, item) {
      text_addf(out, "%s", n++ ? ", " : "");
      add_text(out, key);
      text_add(out, ": ");
      add_value(out, item, NULL);
    }
    text_add(out, n ? " }" : "}");
    break;
  default:
    text_add(out, json_is_true(j) ? "true" : json_is_false(j) ? "false" : "none");
  }
}

static const char *value_text(Arena *a, json_t *j, const KeyRow *row) {
  Text t = {0};
  add_value(&t, j, row);
  const char *kept = arena_strdup(a, t.at);
  text_free(&t);
  return kept;
}

/* ---------- what says nothing ---------- */

static bool is_empty(json_t *j) {
  bool empty_text = json_is_string(j) && !*json_string_value(j);
  bool token =
      json_is_string(j) && json_string_value(j)[0] == '<'; /* to_json_string hides tokens */
  return json_is_null(j) || empty_text || token || (json_is_array(j) && !json_array_size(j)) ||
         (json_is_object(j) && !json_object_size(j));
}

static bool is_default(json_t *j, const KeyRow *row) {
  const char *initial = row->initial;
  if (json_is_null(j)) return !strcmp(initial, "none") || !row->nullable;
  if (json_is_number(j)) {
    char *end;
    double v = strtod(initial, &end);
    return *initial && !*end && v == json_number_value(j);
  }
  if (json_is_boolean(j)) return !strcmp(initial, json_is_true(j) ? "true" : "false");
  if (json_is_string(j)) return !strcmp(initial, json_string_value(j));
  return is_empty(j) && (!*initial || !strcmp(initial, "none") || !strcmp(initial, "[]"));
}

/* A refused key with nothing in it: empty, off, or a dictionary of the Trainer's own defaults. */
static bool is_idle(json_t *j, const KeyRow *row) {
  static const char *const own[] = {"accelerator_config", "fsdp_config", "parallelism_config",
                                    "liger_kernel_config"};
  if (is_empty(j) || json_is_false(j) || is_default(j, row)) return true;
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (!strcmp(row->name, own[i]) && json_is_object(j)) return true;
  bool none_left = json_is_integer(j) && json_integer_value(j) <= 0;
  return none_left && !strcmp(row->name, "local_rank");
}

/* ---------- keys ---------- */

static void take_row(Writer *w, const KeyRow *row, json_t *j) {
  if (row->class == 'X') {
    if (!is_idle(j, row)) note(w, row->name, arena_printf(w->a, "refused: %s", row->doc));
    return;
  }
  if (is_default(j, row)) return;
  if (json_is_array(j) && is_empty(j)) return;
  const char *value = value_text(w->a, j, row);
  if (row->class == 'A') {
    note(w, row->name, arena_printf(w->a, "left out, it has one meaning here: %s", row->doc));
    return;
  }
  bool elsewhere = strcmp(row->block, "train") != 0;
  if (row->later || elsewhere) {
    text_addf(&w->block, "  # %s = %s\n", row->name, value);
    note(w, row->name,
         elsewhere ? "stands in `runtime`" : "not supported yet; it stands as a comment");
    return;
  }
  text_addf(&w->block, "  %s = %s\n", row->name, value);
}

static void take_old(Writer *w, const OldKey *old, json_t *j, json_t *all) {
  if (is_empty(j) || json_is_false(j) || (json_is_number(j) && json_number_value(j) == 0)) return;
  if (old->how == OLD_drop) {
    note(w, old->name, arena_printf(w->a, "no key of 5.24 any more; %s", old->text));
    return;
  }
  const KeyRow *row = key_find(old->now);
  json_t *now = json_object_get(all, old->now);
  if (!row || (now && !is_default(now, row))) {
    note(w, old->name,
         arena_printf(w->a, "called %s now, which is given as well; left out", old->now));
    return;
  }
  json_t *value = old->how == OLD_word ? json_string(old->text) : json_incref(j);
  note(w, old->name, arena_printf(w->a, "called %s now", old->now));
  take_row(w, row, value);
  json_decref(value);
}

static void take(Writer *w, const char *key, json_t *j, json_t *all) {
  const KeyRow *row = key_find(key);
  const OldKey *old = row ? NULL : key_find_old(key);
  if (row) {
    take_row(w, row, j);
  } else if (old) {
    take_old(w, old, j, all);
  } else if (key[0] != '_' && !is_empty(j)) {
    const char *near = key_nearest(key);
    note(w, key,
         near
             ? arena_printf(w->a, "no key of TrainingArguments; left out. Did you mean `%s`?", near)
             : "no key of TrainingArguments; left out");
  }
}

static const char *read_all(Arena *a, const char *path) {
  FILE *f = strcmp(path, "-") ? fopen(path, "r") : stdin;
  Text t = {0};
  char part[4096];
  size_t n;
  while (f && t.len < (16u << 20) && (n = fread(part, 1, sizeof part, f)) > 0)
    text_add_n(&t, part, n);
  bool good = f && !ferror(f);
  if (!good) fprintf(stderr, "ddpc: cannot read %s: %s\n", path, strerror(errno));
  if (f && f != stdin) fclose(f);
  const char *kept = good ? arena_strndup(a, t.at ? t.at : "", t.len) : NULL;
  text_free(&t);
  return kept;
}

int cmd_from_hf(Run *r) {
  const char *path = run_file(r);
  const char *text = path ? read_all(r->arena, path) : NULL;
  if (!text) return WRONG_USE;
  json_t *all = pasted_read(r->arena, path, text);
  if (!json_is_object(all)) {
    if (all) fprintf(stderr, "ddpc: %s holds no object\n", path);
    json_decref(all);
    return WRONG_JOB;
  }
  Writer w = {.a = r->arena};
  const char *key;
  json_t *j;
  text_add(&w.block, "train {\n");
  json_object_foreach(all, key, j) take(&w, key, j, all);
  text_add(&w.block, "}\n");
  int code = run_write(r->options.value[OPT_output], &w.block);
  text_free(&w.block);
  json_decref(all);
  return code;
}
