/* One setting: text -> typed member, checked against its row of settings.def. */
#include "config.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CHAR_OF(letter) (#letter)[0]
#define STATE_yes       false
#define STATE_later     true

const DdpSettingRow ddp_setting_rows[DDP_KEY_COUNT] = {
#define SETTING(block, name, type, nullable, default_, values, class_, state, doc)                 \
  {#block, #name,           DDP_TYPE_##type, nullable, default_,                                   \
   values, CHAR_OF(class_), STATE_##state,   doc,      offsetof(DdpSettings, name)},
#include "settings.def"
};

static DdpError *bad(const DdpSettingRow *row, const char *text, const char *expected) {
  return ddp_error(DDP_USAGE, "%s = '%s': expected %s", row->name, text, expected);
}

/* "0..1", ">=1", ">0" */
static bool in_range(const char *range, double v) {
  const char *dots = strstr(range, "..");
  if (dots) return v >= strtod(range, NULL) && v <= strtod(dots + 2, NULL);
  if (strncmp(range, ">=", 2) == 0) return v >= strtod(range + 2, NULL);
  if (range[0] == '>') return v > strtod(range + 1, NULL);
  return true;
}

static DdpError *bad_range(const DdpSettingRow *row, const char *text, const char *kind) {
  const char *dots = strstr(row->values, "..");
  if (!row->values[0]) return bad(row, text, kind);
  if (dots) {
    return ddp_error(DDP_USAGE, "%s = '%s': expected %s from %.*s to %s", row->name, text, kind,
                     (int)(dots - row->values), row->values, dots + 2);
  }
  return ddp_error(DDP_USAGE, "%s = '%s': expected %s %s", row->name, text, kind, row->values);
}

/* Digits with single underscores between them; writes them without. */
static bool without_underscores(const char *text, char *out, size_t size) {
  size_t n = 0;
  for (const char *p = text; *p; p++) {
    if (*p == '_') {
      bool between = p > text && p[-1] >= '0' && p[-1] <= '9' && p[1] >= '0' && p[1] <= '9';
      if (!between) return false;
      continue;
    }
    if (n + 1 >= size) return false;
    out[n++] = *p;
  }
  out[n] = 0;
  return n > 0;
}

static DdpError *parse_int(int64_t *out, const DdpSettingRow *row, const char *text) {
  char digits[64], *end;
  static const char kind[] = "a whole number";
  if (!without_underscores(text, digits, sizeof digits)) return bad_range(row, text, kind);
  if (strspn(digits, "+-0123456789") != strlen(digits)) return bad_range(row, text, kind);
  errno = 0;
  long long v = strtoll(digits, &end, 10);
  if (end == digits || *end) return bad_range(row, text, kind);
  if (errno || v == DDP_NONE_INT) return bad(row, text, "a number that fits in 64 bits");
  if (!in_range(row->values, (double)v)) return bad_range(row, text, kind);
  *out = v;
  return NULL;
}

static DdpError *parse_float(double *out, const DdpSettingRow *row, const char *text) {
  char digits[128], *end;
  static const char kind[] = "a number";
  if (!without_underscores(text, digits, sizeof digits)) return bad_range(row, text, kind);
  if (strspn(digits, "+-.0123456789eE") != strlen(digits)) return bad_range(row, text, kind);
  double v = strtod(digits, &end);
  if (end == digits || *end) return bad_range(row, text, kind);
  if (!isfinite(v)) return bad(row, text, "a number that fits in a double");
  if (!in_range(row->values, v)) return bad_range(row, text, kind);
  *out = v;
  return NULL;
}

static DdpError *parse_bool(int8_t *out, const DdpSettingRow *row, const char *text) {
  if (strcmp(text, "true") == 0 || strcmp(text, "True") == 0)
    *out = 1;
  else if (strcmp(text, "false") == 0 || strcmp(text, "False") == 0)
    *out = 0;
  else
    return bad(row, text, row->nullable ? "true, false or none" : "true or false");
  return NULL;
}

/* n bytes of text, which may be one of several. */
static DdpError *check_word(const DdpSettingRow *row, const char *text, size_t n) {
  char expected[256] = "one of";
  for (const char *w = row->values; *w;) {
    bool later = *w == '~';
    w += later;
    size_t k = strcspn(w, "|");
    if (k == n && strncmp(w, text, n) == 0) {
      if (later && row - ddp_setting_rows != DDP_KEY_ddp_backend) { /* see ddp_backend_check() */
        return ddp_error(DDP_USAGE, "%s = %.*s is not supported yet", row->name, (int)n, text);
      }
      return NULL;
    }
    size_t used = strlen(expected);
    if (!later) snprintf(expected + used, sizeof expected - used, " %.*s", (int)k, w);
    w += k + (w[k] == '|');
  }
  return bad(row, text, expected);
}

static DdpError *parse_word(const char **out, const DdpSettingRow *row, const char *text) {
  if (strcmp(row->name, "include_num_input_tokens_seen") == 0) { /* a bool there too */
    if (!strcmp(text, "true") || !strcmp(text, "True")) text = "all";
    if (!strcmp(text, "false") || !strcmp(text, "False")) text = "no";
  }
  *out = text;
  if (row->values[0] == '*' || !row->values[0]) return NULL; /* the compiler has looked it up */
  return check_word(row, text, strlen(text));
}

/* Words with commas between them; none for an empty list. */
static DdpError *parse_list(const char **out, const DdpSettingRow *row, const char *text) {
  bool empty = !strcmp(text, "none") || !strcmp(text, "None") || !strcmp(text, "[]");
  *out = text = empty ? "" : text;
  for (const char *at = text; row->values[0] && *at;) {
    size_t n = strcspn(at, ",");
    DDP_TRY(check_word(row, at, n));
    at += n + (at[n] == ',');
  }
  return NULL;
}

static void set_none(DdpSettings *into, const DdpSettingRow *row) {
  char *at = (char *)into + row->offset;
  switch (row->type) {
  case DDP_TYPE_int:
    *(int64_t *)(void *)at = DDP_NONE_INT;
    break;
  case DDP_TYPE_float:
    *(double *)(void *)at = NAN;
    break;
  case DDP_TYPE_bool:
    *(int8_t *)at = -1;
    break;
  case DDP_TYPE_text:
  case DDP_TYPE_word:
  case DDP_TYPE_list:
  case DDP_TYPE_map:
    *(const char **)(void *)at = NULL;
    break;
  }
}

DdpError *ddp_config_parse(DdpSettings *into, const DdpSettingRow *row, const char *text) {
  char *at = (char *)into + row->offset;
  if (row->nullable && (strcmp(text, "none") == 0 || strcmp(text, "None") == 0)) {
    set_none(into, row);
    return NULL;
  }
  switch (row->type) {
  case DDP_TYPE_int:
    return parse_int((int64_t *)(void *)at, row, text);
  case DDP_TYPE_float:
    return parse_float((double *)(void *)at, row, text);
  case DDP_TYPE_bool:
    return parse_bool((int8_t *)at, row, text);
  case DDP_TYPE_word:
    return parse_word((const char **)(void *)at, row, text);
  case DDP_TYPE_list:
    return parse_list((const char **)(void *)at, row, text);
  case DDP_TYPE_text:
  case DDP_TYPE_map:
    break;
  }
  *(const char **)(void *)at = text;
  return NULL;
}
