/* Literals, sizes, places, identifiers. */
#include "write.h"
#include "c_words.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void write_char(Text *t, unsigned char c) {
  switch (c) {
  case '\n':
    text_add(t, "\\n");
    break;
  case '\t':
    text_add(t, "\\t");
    break;
  case '"':
    text_add(t, "\\\"");
    break;
  case '\\':
    text_add(t, "\\\\");
    break;
  case '?':
    text_add(t, "\\?");
    break; /* no trigraphs */
  default:
    if (c < 32 || c >= 127)
      text_addf(t, "\\%03o", c);
    else
      text_add_n(t, (const char *)&c, 1);
  }
}

void write_string(Text *t, const char *s, const char *indent) {
  text_add(t, "\"");
  for (; *s; s++) {
    write_char(t, (unsigned char)*s);
    if (*s == '\n' && s[1]) text_addf(t, "\"\n%s\"", indent);
  }
  text_add(t, "\"");
}

void write_string_or_null(Text *t, const char *s) {
  if (s)
    write_string(t, s, "");
  else
    text_add(t, "NULL");
}

void write_int(Text *t, int64_t v) {
  if (v == INT64_MIN)
    text_add(t, "INT64_MIN");
  else if (v > INT32_MAX || v < -(int64_t)INT32_MAX)
    text_addf(t, "INT64_C(%lld)", (long long)v);
  else
    text_addf(t, "%lld", (long long)v);
}

void write_double(Text *t, double v) {
  if (isnan(v))
    text_add(t, "NAN");
  else if (isinf(v))
    text_add(t, v > 0 ? "INFINITY" : "-INFINITY");
  else
    text_add_double(t, v);
}

static void write_float(Text *t, float v) {
  char digits[40];
  for (int n = 1; n <= 9; n++) {
    snprintf(digits, sizeof digits, "%.*g", n, (double)v);
    if (strtof(digits, NULL) == v) break;
  }
  text_add(t, digits);
  text_add(t, strpbrk(digits, ".e") ? "f" : ".0f");
}

void write_number(Text *t, double v, DType dtype) {
  if (dtype_category(dtype) == 'b')
    text_add(t, v != 0 ? "true" : "false");
  else if (dtype_category(dtype) == 'i')
    write_int(t, (int64_t)v);
  else if (dtype == DT_f64 || !isfinite(v))
    write_double(t, v);
  else if (!isfinite((float)v))
    write_double(t, v > 0 ? INFINITY : -INFINITY);
  else
    write_float(t, (float)v);
}

void write_dim(Text *t, Dim d) {
  if (d.per_batch == 0) {
    write_int(t, d.fixed);
    return;
  }
  if (d.per_batch == -1)
    text_add(t, "-B");
  else if (d.per_batch != 1)
    text_addf(t, "%lld * B", (long long)d.per_batch);
  else
    text_add(t, "B");
  if (d.fixed > 0) text_addf(t, " + %lld", (long long)d.fixed);
  if (d.fixed < 0) text_addf(t, " - %lld", -(long long)d.fixed);
}

void write_shape(Text *t, Type type) {
  text_add(t, "[");
  for (int i = 0; i < type.rank; i++) {
    if (i) text_add(t, ", ");
    write_dim(t, type.dim[i]);
  }
  text_add(t, "]");
}

void write_place(Text *t, Span at) {
  if (!at.file) return;
  Place p = source_place(at.file, at.begin);
  const char *name = strrchr(p.path, '/');
  bool library = !strncmp(p.path, "std/", 4);
  text_addf(t, "%s:%u", name && !library ? name + 1 : p.path, p.line);
}

/* ---------- identifiers ---------- */

void names_init(Names *n, Arena *a, const Names *outer) {
  *n = (Names){.arena = a, .outer = outer, .taken = {.arena = a}};
}

bool names_has(const Names *n, const char *name) {
  for (; n; n = n->outer)
    if (map_get(&n->taken, map_key(name))) return true;
  return is_c_word(name);
}

const char *names_add(Names *n, const char *wanted) {
  char *base = arena_printf(n->arena, "%s%s", isdigit((unsigned char)*wanted) ? "_" : "", wanted);
  for (char *c = base; *c; c++)
    if (!isalnum((unsigned char)*c)) *c = '_';
  if (!*base) base = arena_strdup(n->arena, "x");
  const char *name = text_intern(base);
  const char *plain = name;
  uint32_t tried = map_get(&n->taken, map_key(plain));
  for (uint32_t i = tried < 2 ? 2 : tried + 1; names_has(n, name); i++) {
    name = text_intern(arena_printf(n->arena, "%s_%u", base, i));
    tried = i;
  }
  if (name != plain && map_get(&n->taken, map_key(plain)))
    *map_at(&n->taken, map_key(plain)) = tried;
  *map_at(&n->taken, map_key(name)) = 1;
  return name;
}
