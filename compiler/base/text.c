/* Interned names, edit distance, growable text, shortest doubles, hashing. */
#include "text.h"
#include "arena.h"
#include "die.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---------- interning: open addressing over a table of pointers ---------- */
static struct {
  Arena *arena;
  const char **at;
  size_t cap, len;
} names;

static size_t name_slot(const char *s, size_t n) {
  size_t i = (size_t)XXH64(s, n, 0) & (names.cap - 1);
  while (names.at[i] && (strncmp(names.at[i], s, n) != 0 || names.at[i][n])) {
    i = (i + 1) & (names.cap - 1);
  }
  return i;
}

static void names_grow(void) {
  const char **old = names.at;
  size_t old_cap = names.cap;
  if (!names.arena) names.arena = arena_new();
  names.cap = old_cap ? old_cap * 2 : 1024;
  names.at = calloc(names.cap, sizeof *names.at);
  check(names.at, "out of memory");
  for (size_t i = 0; i < old_cap; i++)
    if (old[i]) names.at[name_slot(old[i], strlen(old[i]))] = old[i];
  free(old);
}

const char *text_intern_n(const char *s, size_t n) {
  const char *nul = memchr(s, 0, n); /* a name ends at its first NUL */
  if (nul) n = (size_t)(nul - s);
  if (names.len * 2 >= names.cap) names_grow();
  size_t i = name_slot(s, n);
  if (!names.at[i]) {
    names.at[i] = arena_strndup(names.arena, s, n);
    names.len++;
  }
  return names.at[i];
}

const char *text_intern(const char *s) {
  return text_intern_n(s, strlen(s));
}

/* ---------- nearest names ---------- */
enum { LONGEST_NAME = 64 }; /* longer ones are compared by their first part */

/* Optimal string alignment: three rows of the usual table. */
unsigned text_distance(const char *a, const char *b) {
  size_t la = strnlen(a, LONGEST_NAME), lb = strnlen(b, LONGEST_NAME);
  unsigned rows[3][LONGEST_NAME + 1];
  unsigned *before = rows[0], *last = rows[1], *now = rows[2];
  for (size_t j = 0; j <= lb; j++) last[j] = (unsigned)j;
  for (size_t i = 1; i <= la; i++) {
    now[0] = (unsigned)i;
    for (size_t j = 1; j <= lb; j++) {
      unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);
      if (last[j] + 1 < best) best = last[j] + 1;
      if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
      now[j] = best;
    }
    unsigned *spare = before;
    before = last;
    last = now;
    now = spare;
  }
  return last[lb];
}

/* Near enough: about one slip in three letters, and never a wholly different word. */
void text_offer(TextNearest *n, const char *candidate) {
  size_t length = strlen(n->wanted);
  unsigned limit = length <= 2 ? 1 : (unsigned)(length + 2) / 3;
  unsigned d = text_distance(n->wanted, candidate);
  if (d > limit || d >= length || (n->best && d >= n->distance)) return;
  n->best = candidate;
  n->distance = d;
}

/* ---------- growable text ---------- */
static void text_reserve(Text *t, size_t more) {
  if (t->len + more + 1 <= t->cap) return;
  size_t cap = t->cap ? t->cap : 256;
  while (cap < t->len + more + 1) cap *= 2;
  char *at = realloc(t->at, cap);
  check(at, "out of memory (%zu bytes)", cap);
  t->at = at;
  t->cap = cap;
}

void text_add_n(Text *t, const char *s, size_t n) {
  text_reserve(t, n);
  if (n) memcpy(t->at + t->len, s, n);
  t->len += n;
  t->at[t->len] = 0;
}

void text_add(Text *t, const char *s) {
  text_add_n(t, s, strlen(s));
}

void text_addf(Text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  check(n >= 0, "format '%s'", format);
  text_reserve(t, (size_t)n);
  va_start(args, format);
  vsnprintf(t->at + t->len, (size_t)n + 1, format, args);
  va_end(args);
  t->len += (size_t)n;
}

void text_free(Text *t) {
  free(t->at);
  *t = (Text){0};
}

/* ---------- numbers and hashes ---------- */
void text_add_double(Text *t, double v) {
  if (isnan(v) || isinf(v)) {
    text_add(t, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
    return;
  }
  char buffer[40];
  int digits = 1;
  for (; digits <= 17; digits++) {
    snprintf(buffer, sizeof buffer, "%.*g", digits, v);
    if (strtod(buffer, NULL) == v) break;
  }
  const char *exponent = strstr(buffer, "e+"); /* 40.0 rather than 4e+01 */
  int whole = exponent ? atoi(exponent + 2) + 1 : 0;
  if (whole > digits && whole <= 15) snprintf(buffer, sizeof buffer, "%.*g", whole, v);
  text_add(t, buffer);
  if (!strpbrk(buffer, ".e")) text_add(t, ".0");
}

uint64_t text_hash(const void *data, size_t n, uint64_t seed) {
  return XXH64(data, n, seed);
}

bool text_parse_size(const char *text, int64_t *out) {
  static const struct {
    const char *unit;
    double factor;
  } units[] = {{"", 1},         {"B", 1},      {"K", 0x1p10},   {"KiB", 0x1p10}, {"M", 0x1p20},
               {"MiB", 0x1p20}, {"G", 0x1p30}, {"GiB", 0x1p30}, {"T", 0x1p40},   {"TiB", 0x1p40},
               {"KB", 1e3},     {"MB", 1e6},   {"GB", 1e9},     {"TB", 1e12}};
  char *end;
  double n = strtod(text, &end);
  if (end == text || !(n > 0) || !strchr("0123456789.", text[0])) return false;
  while (*end == ' ') end++;
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(end, units[i].unit) != 0) continue;
    double bytes = floor(n * units[i].factor);
    if (bytes >= 0x1p62) return false;
    *out = (int64_t)bytes;
    return true;
  }
  return false;
}
