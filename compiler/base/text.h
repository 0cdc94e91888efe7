/* Names and texts. Interned names compare by pointer. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one copy of this text; lives as long as the process. */
const char *text_intern(const char *s);
const char *text_intern_n(const char *s, size_t n);

/* Edit distance (insert, delete, replace, swap of neighbours), for "did you mean". */
unsigned text_distance(const char *a, const char *b);
/* Keeps the nearest of the offered candidates; `best` is NULL unless one is near enough to propose. */
typedef struct TextNearest {
  const char *wanted, *best;
  unsigned distance;
} TextNearest;
void text_offer(TextNearest *n, const char *candidate);

/* Growable output text (malloc'ed; text_free). */
typedef struct Text {
  char *at;
  size_t len, cap;
} Text;
void text_add(Text *t, const char *s);
void text_add_n(Text *t, const char *s, size_t n);
void text_addf(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3), nonnull(2)));
void text_free(Text *t);

/* Shortest decimal that reads back as the same double: "0.1", "1e-05", "inf", "nan"; always a float
   literal of the language (has a '.', an 'e', or is inf/nan). */
void text_add_double(Text *t, double v);

/* 64-bit hash of bytes (XXH64), same on every machine. */
uint64_t text_hash(const void *data, size_t n, uint64_t seed);
/* "80GiB", "512 MB", "4096": bytes. False: no size. */
bool text_parse_size(const char *text, int64_t *out);
#endif
