/* Tables in columns, and numbers as people read them. */
#include "table.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

/* ---------- tables ---------- */
enum { MAX_COLUMNS = 8 };
void table_row(Table *t, ...) {
  va_list args;
  va_start(args, t);
  for (int i = 0; i < t->columns; i++) vec_push(t->a, &t->cells, va_arg(args, const char *));
  va_end(args);
}

/* Width in characters: bytes that start one. */
static int width_of(const char *s) {
  int n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
  return n;
}

void table_print(Text *out, const Table *t) {
  int width[MAX_COLUMNS] = {0};
  for (uint32_t i = 0; i < t->cells.len; i++) {
    int w = width_of(t->cells.at[i]), c = (int)i % t->columns;
    if (w > width[c]) width[c] = w;
  }
  for (uint32_t i = 0; i < t->cells.len; i++) {
    int c = (int)i % t->columns, pad = width[c] - width_of(t->cells.at[i]);
    bool right = t->align[c] == 'r';
    text_addf(out, "  %*s", right ? pad : 0, "");
    text_add(out, t->cells.at[i]);
    if (c < t->columns - 1) {
      text_addf(out, "%*s", right ? 0 : pad, "");
      continue;
    }
    while (out->len && out->at[out->len - 1] == ' ') out->at[--out->len] = 0;
    text_add(out, "\n");
  }
}

/* ---------- numbers ---------- */
/* 1234567 -> "1,234,567" */
const char *number_grouped(Arena *a, int64_t n) {
  char digits[32], out[48];
  int len = snprintf(digits, sizeof digits, "%lld", (long long)n), to = 0;
  for (int i = 0; i < len; i++) {
    if (i && (len - i) % 3 == 0 && digits[i - 1] != '-') out[to++] = ',';
    out[to++] = digits[i];
  }
  out[to] = 0;
  return arena_strdup(a, out);
}

const char *number_bytes(Arena *a, int64_t bytes) {
  if (bytes < 1024) return arena_printf(a, "%lld B", (long long)bytes);
  if (bytes < 1024 * 1024) return arena_printf(a, "%.1f KiB", (double)bytes / 1024);
  if (bytes < (int64_t)10 << 30) return arena_printf(a, "%.1f MiB", (double)bytes / 1048576);
  return arena_printf(a, "%.2f GiB", (double)bytes / 1073741824);
}

const char *number_flops(Arena *a, double flops) {
  static const char *const unit[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  int u = 0;
  for (; flops >= 1000 && u < 5; u++) flops /= 1000;
  return arena_printf(a, u ? "%.2f %s" : "%.0f %s", flops, unit[u]);
}

/* ---------- names with numbers ---------- */
static size_t digits(const char *s) {
  size_t n = 0;
  while (isdigit((unsigned char)s[n])) n++;
  return n;
}

uint64_t numbered_hash(const char *s, uint64_t seed) {
  for (size_t n; *s; s += n) {
    n = digits(s);
    seed = n ? text_hash("0", 1, seed) : text_hash(s, 1, seed);
    if (!n) n = 1;
  }
  return seed;
}

const char *numbered_range(Arena *a, const char *first, const char *last) {
  Text t = {0};
  text_add(&t, "");
  while (*first && *last) {
    size_t n = digits(first), m = digits(last);
    if (n && m && (n != m || strncmp(first, last, n) != 0))
      text_addf(&t, "{%.*s..%.*s}", (int)n, first, (int)m, last);
    else
      text_add_n(&t, first, n ? n : 1);
    first += n ? n : 1;
    last += m ? m : 1;
  }
  const char *s = arena_strdup(a, t.at);
  text_free(&t);
  return s;
}
