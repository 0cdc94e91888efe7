/* One setting: expression -> checked value. In: the expression as written and the key's row of
   settings.def. Out: a value of the row's type, inside its range and among its words; every refusal is
   reported at the value. Also the text forms of values. */
#include "diag.h"
#include "die.h"
#include "settings.h"
#include "text.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

static const char *kind_name(const SettingValue *v) {
  static const char *const names[] = {"none",   "an int", "a float", "a bool",
                                      "a text", "a list", "a map"};
  return names[v->kind];
}

static const char *type_name(const SettingRow *row) {
  static const char *const names[] = {"an int", "a float", "true or false", "a text",
                                      "a word", "a list",  "a map"};
  return names[row->type];
}

bool setting_equal(const SettingValue *a, const SettingValue *b) {
  if (a->kind == VALUE_int && b->kind == VALUE_float) return (double)a->i == b->f;
  if (a->kind == VALUE_float && b->kind == VALUE_int) return a->f == (double)b->i;
  if (a->kind != b->kind) return false;
  switch (a->kind) {
  case VALUE_none:
    return true;
  case VALUE_int:
    return a->i == b->i;
  case VALUE_float:
    return a->f == b->f;
  case VALUE_bool:
    return a->b == b->b;
  case VALUE_text:
    return strcmp(a->text, b->text) == 0;
  case VALUE_list:
  case VALUE_map:
    break;
  }
  if (a->items.len != b->items.len) return false;
  for (uint32_t i = 0; i < a->items.len; i++) {
    const SettingItem *x = &a->items.at[i], *y = &b->items.at[i];
    if (x->key && (!y->key || strcmp(x->key, y->key) != 0)) return false;
    if (!setting_equal(x->value, y->value)) return false;
  }
  return true;
}

/* ---------- text forms ---------- */

static void show(Text *t, const SettingValue *v, bool quote) {
  switch (v->kind) {
  case VALUE_none:
    text_add(t, "none");
    return;
  case VALUE_int:
    text_addf(t, "%lld", (long long)v->i);
    return;
  case VALUE_float:
    text_add_double(t, v->f);
    return;
  case VALUE_bool:
    text_add(t, v->b ? "true" : "false");
    return;
  case VALUE_text:
    if (!quote)
      text_add(t, v->text);
    else
      text_addf(t, "\"%s\"", v->text);
    return;
  case VALUE_list:
  case VALUE_map:
    break;
  }
  if (quote) text_add(t, v->kind == VALUE_list ? "[" : "{ ");
  for (uint32_t i = 0; i < v->items.len; i++) {
    if (i) text_add(t, quote ? ", " : ",");
    if (v->items.at[i].key) text_addf(t, quote ? "%s = " : "%s=", v->items.at[i].key);
    show(t, v->items.at[i].value, quote);
  }
  if (quote) text_add(t, v->kind == VALUE_list ? "]" : " }");
}

static const char *shown(Arena *a, const SettingValue *v, bool quote) {
  Text t = {0};
  show(&t, v, quote);
  const char *copy = arena_strndup(a, t.at ? t.at : "", t.len);
  text_free(&t);
  return copy;
}

const char *setting_show(Arena *a, const SettingValue *v) {
  return shown(a, v, true);
}

const char *setting_text(Arena *a, const SettingRow *row, const SettingValue *v) {
  (void)row;
  return shown(a, v, false);
}

/* ---------- defaults and argument texts ---------- */

static void from_word(Arena *a, const char *word, size_t n, SettingValue *out) {
  char *text = arena_strndup(a, word, n), *end = NULL;
  errno = 0;
  long long i = strtoll(text, &end, 10);
  if (end != text && !*end && !errno) {
    *out = (SettingValue){.kind = VALUE_int, .i = i};
    return;
  }
  double f = strtod(text, &end);
  if (end != text && !*end) {
    *out = (SettingValue){.kind = VALUE_float, .f = f};
    return;
  }
  if (!strcmp(text, "true") || !strcmp(text, "True")) {
    *out = (SettingValue){.kind = VALUE_bool, .b = true};
  } else if (!strcmp(text, "false") || !strcmp(text, "False")) {
    *out = (SettingValue){.kind = VALUE_bool};
  } else if (!strcmp(text, "none") || !strcmp(text, "None")) {
    *out = (SettingValue){.kind = VALUE_none};
  } else {
    *out = (SettingValue){.kind = VALUE_text, .text = text_intern(text)};
  }
}

bool setting_parse_args(Arena *a, const char *text, Span at, SettingValue *out) {
  *out = (SettingValue){.kind = VALUE_map};
  while (*text) {
    text += strspn(text, " ,");
    if (!*text) break;
    size_t n = strcspn(text, ",");
    const char *eq = memchr(text, '=', n);
    if (!eq || eq == text) return false;
    size_t key = (size_t)(eq - text), value = n - key - 1;
    while (key && text[key - 1] == ' ') key--;
    const char *v = eq + 1;
    while (value && *v == ' ') v++, value--;
    while (value && v[value - 1] == ' ') value--;
    if (!key || !value) return false;
    SettingValue *item = ARENA_NEW(a, SettingValue);
    from_word(a, v, value, item);
    vec_push(a, &out->items,
             (SettingItem){.key = text_intern_n(text, key), .value = item, .at = at});
    text += n;
  }
  return true;
}

bool setting_default(Settings *s, const SettingRow *row, SettingValue *out) {
  const char *text = row->initial;
  if (row->nullable && !strcmp(text, "none")) {
    *out = (SettingValue){.kind = VALUE_none};
  } else if (row->type == SETTING_list || row->type == SETTING_map) {
    *out = (SettingValue){.kind = row->type == SETTING_list ? VALUE_list : VALUE_map};
  } else if (row->type == SETTING_text || row->type == SETTING_word) {
    *out = (SettingValue){.kind = VALUE_text, .text = text_intern(text)};
  } else {
    from_word(s->arena, text, strlen(text), out);
    if (row->type == SETTING_float && out->kind == VALUE_int) {
      *out = (SettingValue){.kind = VALUE_float, .f = (double)out->i};
    }
  }
  return true;
}

/* ---------- evaluation ---------- */

/* Does this bare name stand for a param or const of the file? Else it is a word. */
static bool is_constant(const SettingSlot *slot, const Expr *e) {
  FileName *n = slot->file ? file_find(slot->file, e->as.name.text) : NULL;
  return n && (n->decl->kind == DECL_param || n->decl->kind == DECL_const);
}

bool setting_from_datum(Arena *a, Datum d, SettingValue *out) {
  switch (d.kind) {
  case DATUM_none:
    *out = (SettingValue){.kind = VALUE_none};
    return true;
  case DATUM_bool:
    *out = (SettingValue){.kind = VALUE_bool, .b = d.as.b};
    return true;
  case DATUM_int:
    *out = (SettingValue){.kind = VALUE_int, .i = d.as.i};
    return true;
  case DATUM_float:
    *out = (SettingValue){.kind = VALUE_float, .f = d.as.f};
    return true;
  case DATUM_text:
  case DATUM_word:
    *out =
        (SettingValue){.kind = VALUE_text, .text = text_intern_n(d.as.text.at, d.as.text.length)};
    return true;
  case DATUM_host:
    if (!d.as.host.value->known) return false;
    *out = d.as.host.value->is_bool
               ? (SettingValue){.kind = VALUE_bool, .b = d.as.host.value->value != 0}
           : d.as.host.value->is_int
               ? (SettingValue){.kind = VALUE_int, .i = (int64_t)d.as.host.value->value}
               : (SettingValue){.kind = VALUE_float, .f = d.as.host.value->value};
    return true;
  case DATUM_list:
  case DATUM_tuple:
  case DATUM_map:
    break;
  default:
    return false;
  }
  bool map = d.kind == DATUM_map;
  *out = (SettingValue){.kind = map ? VALUE_map : VALUE_list};
  uint32_t n = map ? d.as.map.len : d.as.list.len;
  for (uint32_t i = 0; i < n; i++) {
    SettingValue *item = ARENA_NEW(a, SettingValue);
    if (!setting_from_datum(a, map ? d.as.map.at[i].value : d.as.list.at[i], item)) return false;
    vec_push(a, &out->items, (SettingItem){.key = map ? d.as.map.at[i].key : NULL, .value = item});
  }
  return true;
}

static bool evaluated(Settings *s, const SettingSlot *slot, const Expr *e, SettingValue *out) {
  if (!s->program) {
    diag_report(DIAG_E0508, e->span, "value must be known at compile time");
    return false;
  }
  Eval ev = eval_new(s->program, NULL, NULL, false);
  ev.need = arena_printf(s->arena, "%s = ", slot->row->key);
  Datum d = eval_expr(&ev, e, env_new(s->arena, NULL, slot->file));
  if (d.kind == DATUM_error) return false;
  if (setting_from_datum(s->arena, d, out)) {
    for (uint32_t i = 0; i < out->items.len; i++) out->items.at[i].at = e->span;
    return true;
  }
  diag_report(DIAG_E0501, e->span, "`%s` takes %s, not %s", slot->row->key, type_name(slot->row),
              datum_describe(&ev, d));
  return false;
}

static bool literal(Settings *s, const SettingSlot *slot, const Expr *e, bool bare_words,
                    SettingValue *out);

static bool literal_items(Settings *s, const SettingSlot *slot, const Expr *e, SettingValue *out) {
  *out = (SettingValue){.kind = VALUE_list};
  for (uint32_t i = 0; i < e->as.items.len; i++) {
    SettingValue *item = ARENA_NEW(s->arena, SettingValue);
    if (!literal(s, slot, e->as.items.at[i], true, item)) return false;
    vec_push(s->arena, &out->items, (SettingItem){.value = item, .at = e->as.items.at[i]->span});
  }
  return true;
}

static bool literal_map(Settings *s, const SettingSlot *slot, const Expr *e, SettingValue *out) {
  *out = (SettingValue){.kind = VALUE_map};
  for (uint32_t i = 0; i < e->as.map.len; i++) {
    const MapItem *m = &e->as.map.at[i];
    for (uint32_t k = 0; k < out->items.len; k++) {
      if (strcmp(out->items.at[k].key, m->key) != 0) continue;
      diag_report(DIAG_E0504, m->span, "`%s` is given twice", m->key);
      diag_note(out->items.at[k].at, "first given here");
      return false;
    }
    SettingValue *item = ARENA_NEW(s->arena, SettingValue);
    if (!literal(s, slot, m->value, true, item)) return false;
    vec_push(s->arena, &out->items, (SettingItem){.key = m->key, .value = item, .at = m->span});
  }
  return true;
}

static bool literal(Settings *s, const SettingSlot *slot, const Expr *e, bool bare_words,
                    SettingValue *out) {
  switch (e->kind) {
  case EXPR_error:
    return false;
  case EXPR_int:
    *out = (SettingValue){.kind = VALUE_int, .i = e->as.i};
    return true;
  case EXPR_float:
    *out = (SettingValue){.kind = VALUE_float, .f = e->as.f};
    return true;
  case EXPR_bool:
    *out = (SettingValue){.kind = VALUE_bool, .b = e->as.b};
    return true;
  case EXPR_none:
    *out = (SettingValue){.kind = VALUE_none};
    return true;
  case EXPR_text:
    *out = (SettingValue){.kind = VALUE_text, .text = e->as.text.text};
    return true;
  case EXPR_list:
  case EXPR_tuple:
    return literal_items(s, slot, e, out);
  case EXPR_map:
    return literal_map(s, slot, e, out);
  case EXPR_unary:
    if (e->as.unary.op == UN_neg && e->as.unary.operand->kind == EXPR_int) {
      *out = (SettingValue){.kind = VALUE_int, .i = -e->as.unary.operand->as.i};
      return true;
    }
    if (e->as.unary.op == UN_neg && e->as.unary.operand->kind == EXPR_float) {
      *out = (SettingValue){.kind = VALUE_float, .f = -e->as.unary.operand->as.f};
      return true;
    }
    break;
  case EXPR_name:
    if (bare_words && !is_constant(slot, e)) {
      *out = (SettingValue){.kind = VALUE_text, .text = e->as.name.text};
      return true;
    }
    break;
  default:
    break;
  }
  return evaluated(s, slot, e, out);
}

/* ---------- checks ---------- */

static void wrong_type(const SettingSlot *slot, const Expr *e, const SettingValue *v) {
  const SettingRow *row = slot->row;
  bool number = row->type == SETTING_int || row->type == SETTING_float;
  if (v->kind == VALUE_text && number) {
    diag_report(DIAG_E0516, e->span, "`%s` takes %s, not the text \"%s\"", row->key, type_name(row),
                v->text);
    return;
  }
  diag_report(DIAG_E0501, e->span, "`%s` takes %s, not %s", row->key, type_name(row), kind_name(v));
  if (v->kind == VALUE_float && row->type == SETTING_int && floor(v->f) == v->f &&
      fabs(v->f) < 9e15) {
    diag_help("write `%s = %lld`", row->key, (long long)v->f);
  }
  if (v->kind == VALUE_int && row->type == SETTING_bool && (v->i == 0 || v->i == 1)) {
    diag_help("write `%s = %s`", row->key, v->i ? "true" : "false");
  }
}

static bool in_range(Arena *arena, const SettingRow *row, double v, const char **must) {
  const char *r = row->values;
  if (!isfinite(v)) {
    *must = "it must be a finite number";
    return false;
  }
  if (!*r) return true;
  if (!strncmp(r, ">=", 2)) {
    *must = !strcmp(r, ">=1") ? "it must be at least 1" : "it must be at least 0";
    return v >= strtod(r + 2, NULL);
  }
  if (*r == '>') {
    *must = "it must be greater than 0";
    return v > strtod(r + 1, NULL);
  }
  const char *dots = strstr(r, "..");
  check(dots, "setting %s has no range", row->key);
  *must = arena_printf(arena, "it must lie between %.*s and %s", (int)(dots - r), r, dots + 2);
  return v >= strtod(r, NULL) && v <= strtod(dots + 2, NULL);
}

static bool check_number(Settings *s, const SettingSlot *slot, const Expr *e, SettingValue *v) {
  const SettingRow *row = slot->row;
  if (row->type == SETTING_float && v->kind == VALUE_int) {
    *v = (SettingValue){.kind = VALUE_float, .f = (double)v->i};
  }
  if (v->kind != (row->type == SETTING_int ? VALUE_int : VALUE_float)) {
    wrong_type(slot, e, v);
    return false;
  }
  const char *must = "";
  if (in_range(s->arena, row, v->kind == VALUE_int ? (double)v->i : v->f, &must)) return true;
  diag_report(DIAG_E0702, e->span, "`%s` is %s; %s", row->key, setting_show(s->arena, v), must);
  return false;
}

/* Is `word` among "a|b|~c"? later: it has the ~. Offers each to `near`. */
static bool word_among(const char *words, const char *word, bool *later, TextNearest *near) {
  bool found = false;
  while (*words) {
    size_t n = strcspn(words, "|");
    bool tilde = *words == '~';
    const char *one = text_intern_n(words + tilde, n - tilde);
    if (!strcmp(one, word)) {
      found = true;
      *later = tilde;
    }
    if (near) text_offer(near, one);
    words += n + (words[n] == '|');
  }
  return found;
}

static void list_words(Text *t, const char *words) {
  bool first = true;
  while (*words) {
    size_t n = strcspn(words, "|");
    if (*words != '~') {
      text_addf(t, "%s`%.*s`", first ? "" : ", ", (int)n, words);
      first = false;
    }
    words += n + (words[n] == '|');
  }
}

/* A word of the row, also as an item of a list. */
static bool check_one_word(const SettingRow *row, Span at, const char *word) {
  bool later = false;
  TextNearest near = {.wanted = word};
  if (!word_among(row->values, word, &later, &near)) {
    diag_report(DIAG_E0703, at, "`%s` cannot be `%s`", row->key, word);
    if (near.best) {
      diag_help("did you mean `%s`?", near.best);
    } else {
      Text t = {0};
      list_words(&t, row->values);
      diag_help("it is one of %s", t.at);
      text_free(&t);
    }
    return false;
  }
  if (!later || !strcmp(row->key, "ddp_backend")) return true; /* the target decides (target.c) */
  diag_report(DIAG_E0716, at, "`%s = %s` is not supported yet", row->key, word);
  return false;
}

static bool check_word(const SettingSlot *slot, const Expr *e, const SettingValue *v) {
  if (v->kind != VALUE_text) {
    wrong_type(slot, e, v);
    return false;
  }
  /* optimizer.c and schedule.c look for the definition */
  return slot->row->values[0] == '*' || check_one_word(slot->row, e->span, v->text);
}

static bool check_text(const SettingSlot *slot, const Expr *e, const SettingValue *v) {
  if (v->kind != VALUE_text) {
    wrong_type(slot, e, v);
    return false;
  }
  if (!strstr(v->text, "${")) return true;
  diag_report(DIAG_E0501, e->span, "texts hold no interpolation, and `${` is one");
  diag_help("give it when the program starts: `./train --%s ...`", slot->row->key);
  return false;
}

/* optim_args: HF's text form or a map; both become a map. */
static bool check_args(Settings *s, const SettingSlot *slot, const Expr *e, SettingValue *v) {
  if (v->kind == VALUE_map) return true;
  if (v->kind != VALUE_text) {
    wrong_type(slot, e, v);
    return false;
  }
  SettingValue map;
  if (!setting_parse_args(s->arena, v->text, e->span, &map)) {
    diag_report(DIAG_E0501, e->span, "`%s` is not of the form \"name=value,name=value\"",
                slot->row->key);
    diag_help("for example `%s = \"momentum=0.9,nesterov=true\"`", slot->row->key);
    return false;
  }
  *v = map;
  return true;
}

static bool check_list(Settings *s, const SettingSlot *slot, const Expr *e, SettingValue *v) {
  if (v->kind == VALUE_text) { /* one for a list of one; "none" for no list */
    if (!strcmp(v->text, "none") && slot->row->nullable) {
      *v = (SettingValue){.kind = VALUE_none};
      return true;
    }
    SettingValue *item = ARENA_NEW(s->arena, SettingValue);
    *item = *v;
    *v = (SettingValue){.kind = VALUE_list};
    if (!item->text[0]) return true; /* `debug = ""` */
    vec_push(s->arena, &v->items, (SettingItem){.value = item, .at = e->span});
  }
  if (v->kind != VALUE_list) {
    wrong_type(slot, e, v);
    return false;
  }
  for (uint32_t i = 0; i < v->items.len; i++) {
    const SettingValue *item = v->items.at[i].value;
    if (item->kind == VALUE_text && slot->row->values[0] &&
        !check_one_word(slot->row, v->items.at[i].at, item->text))
      return false;
    if (item->kind == VALUE_text) continue;
    diag_report(DIAG_E0501, v->items.at[i].at, "`%s` takes a list of texts, not %s", slot->row->key,
                kind_name(v->items.at[i].value));
    return false;
  }
  return true;
}

static bool check_value(Settings *s, const SettingSlot *slot, const Expr *e, SettingValue *v) {
  const SettingRow *row = slot->row;
  if (v->kind == VALUE_none) {
    if (row->nullable) return true;
    diag_report(DIAG_E0501, e->span, "`%s` cannot be none", row->key);
    diag_help("remove the line: the default is `%s`", row->initial);
    return false;
  }
  switch (row->type) {
  case SETTING_int:
  case SETTING_float:
    return check_number(s, slot, e, v);
  case SETTING_bool:
    if (v->kind == VALUE_bool) return true;
    wrong_type(slot, e, v);
    return false;
  case SETTING_word:
    /* TrainingArguments takes a bool here too. */
    if (!strcmp(row->key, "include_num_input_tokens_seen") && v->kind == VALUE_bool)
      *v = (SettingValue){.kind = VALUE_text, .text = text_intern(v->b ? "all" : "no")};
    return check_word(slot, e, v);
  case SETTING_text:
    return !strcmp(row->key, "optim_args") ? check_args(s, slot, e, v) : check_text(slot, e, v);
  case SETTING_list:
    return check_list(s, slot, e, v);
  case SETTING_map:
    if (v->kind == VALUE_text) return check_args(s, slot, e, v);
    if (v->kind == VALUE_map) return true;
    wrong_type(slot, e, v);
    return false;
  }
  return false;
}

/* `*optimizer` and `*schedule` name definitions, perhaps of another file: `ops.muon`. */
static const char *definition_name(Arena *a, const Expr *e) {
  if (e->kind == EXPR_name) return e->as.name.text;
  if (e->kind == EXPR_member && e->as.member.object->kind == EXPR_name) {
    return text_intern(
        arena_printf(a, "%s.%s", e->as.member.object->as.name.text, e->as.member.name));
  }
  return NULL;
}

/* A param or const that holds a text stands for that name. */
static const char *constant_text(Settings *s, const SettingSlot *slot, const Expr *e,
                                 const char *name) {
  if (!s->program || !is_constant(slot, e)) return name;
  Eval ev = eval_new(s->program, NULL, NULL, false);
  Datum d = file_value(&ev, slot->file, file_find(slot->file, name), e->span);
  file_mark_used(slot->file, name);
  return d.kind == DATUM_text ? text_intern_n(d.as.text.at, d.as.text.length) : name;
}

bool setting_evaluate(Settings *s, SettingSlot *slot, const Expr *e, SettingValue *out) {
  const SettingRow *row = slot->row;
  const char *name = row->values[0] == '*' ? definition_name(s->arena, e) : NULL;
  if (name && e->kind == EXPR_name) name = constant_text(s, slot, e, name);
  if (name) {
    *out = (SettingValue){.kind = VALUE_text, .text = name};
    return true;
  }
  bool words = row->type == SETTING_word || row->type == SETTING_list ||
               !strcmp(row->key, "metric_for_best_model");
  if (!literal(s, slot, e, words, out) || !check_value(s, slot, e, out)) return false;
  SettingValue initial;
  setting_default(s, row, &initial);
  /* Where nothing is the default, `false` asks for nothing. */
  bool off = initial.kind == VALUE_none && out->kind == VALUE_bool && !out->b;
  if (row->later && !off && !setting_equal(out, &initial)) {
    diag_report(DIAG_E0716, e->span, "`%s = %s` is not supported yet", row->key,
                row->type == SETTING_word ? setting_text(s->arena, row, out)
                                          : setting_show(s->arena, out));
    diag_help("remove the line: the default is `%s`", row->initial[0] ? row->initial : "[]");
    return false;
  }
  if (row->class == 'A' && !setting_equal(out, &initial)) {
    diag_report(DIAG_W0717, slot->key_at, "`%s` is accepted and changes nothing", row->key);
  }
  return true;
}
