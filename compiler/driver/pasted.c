/* In: the text of a file. Out: key -> value. Of Python only literals are read: texts, numbers, True, False,
   None, lists, tuples, dictionaries, and names with dots (IntervalStrategy.STEPS is "steps"). Anything
   else is an error with its line. */
#include "pasted.h"
#include <ctype.h>
#include <stdlib.h>

typedef struct Reader {
  Arena *a;
  const char *path, *text, *at;
  bool failed;
} Reader;

static json_t *fail(Reader *r, const char *what) {
  int line = 1;
  for (const char *c = r->text; c < r->at; c++) line += *c == '\n';
  if (!r->failed)
    fprintf(stderr,
            "ddpc: %s:%d: %s\nhelp: only literal values can be read; put the value of the "
            "expression there\n",
            r->path, line, what);
  r->failed = true;
  return NULL;
}

static void blanks(Reader *r) {
  for (;; r->at++) {
    if (*r->at == '#') r->at += strcspn(r->at, "\n");
    if (*r->at != '\\' && !isspace((unsigned char)*r->at)) return;
    if (!*r->at) return;
  }
}

static bool take(Reader *r, char c) {
  blanks(r);
  if (*r->at != c) return false;
  r->at++;
  return true;
}

static const char *name(Reader *r) {
  blanks(r);
  const char *from = r->at;
  while (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '.') r->at++;
  return arena_strndup(r->a, from, (size_t)(r->at - from));
}

static json_t *text_value(Reader *r) {
  char quote = *r->at++;
  Text t = {0};
  for (; *r->at && *r->at != quote && *r->at != '\n'; r->at++) {
    if (*r->at == '\\' && r->at[1]) {
      r->at++;
      text_add_n(&t, *r->at == 'n' ? "\n" : *r->at == 't' ? "\t" : r->at, 1);
    } else {
      text_add_n(&t, r->at, 1);
    }
  }
  json_t *j = *r->at == quote ? run_json_text(t.at ? t.at : "")
                              : fail(r, "a text is not closed on its line");
  if (*r->at == quote) r->at++;
  text_free(&t);
  return j;
}

static json_t *number_value(Reader *r) {
  char digits[64];
  size_t n = 0;
  bool real = false;
  for (; n + 1 < sizeof digits; r->at++) {
    char c = *r->at;
    bool sign = (c == '-' || c == '+') && (n == 0 || digits[n - 1] == 'e');
    if (c == '_') continue;
    if (!isdigit((unsigned char)c) && c != '.' && c != 'e' && c != 'E' && !sign) break;
    if (c == '.' || c == 'e' || c == 'E') real = true;
    digits[n++] = (char)tolower((unsigned char)c);
  }
  digits[n] = 0;
  char *end;
  double f = strtod(digits, &end);
  if (!n || *end) return fail(r, "a number that cannot be read");
  return real ? json_real(f) : json_integer(strtoll(digits, NULL, 10));
}

static json_t *value(Reader *r, int depth);

static json_t *list_value(Reader *r, char close, int depth) {
  json_t *list = json_array();
  r->at++;
  while (!r->failed && !take(r, close)) {
    json_array_append_new(list, value(r, depth + 1));
    if (!take(r, ',') && *r->at != close) fail(r, "`,` or the end of a list is missing");
  }
  return list;
}

static json_t *map_value(Reader *r, int depth) {
  json_t *map = json_object();
  r->at++;
  while (!r->failed && !take(r, '}')) {
    json_t *key = value(r, depth + 1);
    if (!json_is_string(key) || !take(r, ':'))
      fail(r, "a dictionary needs texts as keys");
    else
      json_object_set_new(map, json_string_value(key), value(r, depth + 1));
    json_decref(key);
    if (!take(r, ',') && *r->at != '}') fail(r, "`,` or the end of a dictionary is missing");
  }
  return map;
}

static json_t *word_value(Reader *r) {
  char *word = arena_strdup(r->a, name(r)), *dot = strrchr(word, '.');
  if (!*word) return fail(r, "a value that cannot be read");
  if (!strcmp(word, "True") || !strcmp(word, "true")) return json_true();
  if (!strcmp(word, "False") || !strcmp(word, "false")) return json_false();
  if (!strcmp(word, "None") || !strcmp(word, "null")) return json_null();
  blanks(r);
  if (!dot || *r->at == '(' || *r->at == '[') return fail(r, "a value that is no literal");
  for (char *c = dot + 1; *c; c++) *c = (char)tolower((unsigned char)*c);
  return json_string(dot + 1);
}

static json_t *value(Reader *r, int depth) {
  blanks(r);
  if (depth > 100) return fail(r, "lists too deep");
  switch (*r->at) {
  case '"':
  case '\'':
    return text_value(r);
  case '[':
    return list_value(r, ']', depth);
  case '(':
    return list_value(r, ')', depth);
  case '{':
    return map_value(r, depth);
  default:
    return isdigit((unsigned char)*r->at) || strchr("+-.", *r->at) ? number_value(r)
                                                                   : word_value(r);
  }
}

/* NAME = TrainingArguments( KEY = VALUE, ... ), or only what stands in the brackets. */
static json_t *call(Reader *r) {
  json_t *all = json_object();
  const char *open = strchr(r->text, '(');
  const char *equals = strchr(r->text, '=');
  bool wrapped =
      open &&
      (!equals || open < equals ||
       strspn(equals + 1, " \tabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") >=
           (size_t)(open - equals - 1));
  if (wrapped) r->at = open + 1;
  for (;;) {
    blanks(r);
    if (!*r->at || *r->at == ')') break;
    const char *key = name(r);
    if (!*key || !take(r, '=')) {
      fail(r, "arguments need names: NAME = VALUE");
      break;
    }
    json_t *v = value(r, 0);
    if (!v) break;
    json_object_set_new(all, key, v);
    if (!take(r, ',') && *r->at && *r->at != ')') {
      fail(r, isspace((unsigned char)r->at[-1]) ? "`,` is missing" : "a value that is no literal");
      break;
    }
  }
  if (r->failed) {
    json_decref(all);
    return NULL;
  }
  return all;
}

json_t *pasted_read(Arena *a, const char *path, const char *text) {
  Reader r = {.a = a, .path = path, .text = text, .at = text};
  blanks(&r);
  if (*r.at != '{') {
    r.at = text;
    return call(&r);
  }
  json_error_t where;
  json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, &where);
  if (!j) fprintf(stderr, "ddpc: %s:%d:%d: %s\n", path, where.line, where.column, where.text);
  return j;
}
