/* Texts as rows of characters. In: files in UTF-8, plain or gzip. Out: their distinct characters, and for
   each character its place among them. What is no UTF-8, a NUL, and a character that the vocabulary
   does not have are errors with line and column. */
#include "stream.h"
#include "tokens.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODES = 0x110000 }; /* of Unicode */

/* ---------- UTF-8 ---------- */

uint32_t ddp_text_next(const char *text, size_t n, size_t *at) {
  const unsigned char *p = (const unsigned char *)text + *at;
  size_t left = n - *at;
  int more = p[0] < 0x80 ? 0 : p[0] < 0xc2 ? -1 : p[0] < 0xe0 ? 1 : p[0] < 0xf0 ? 2 : 3;
  if (more < 0 || p[0] > 0xf4 || (size_t)more >= left) return 0;
  uint32_t c = more == 0 ? p[0] : p[0] & (0x3fu >> more);
  for (int i = 1; i <= more; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    c = c << 6 | (p[i] & 0x3fu);
  }
  bool longer = (more == 2 && c < 0x800) || (more == 3 && c < 0x10000);
  if (longer || (c >= 0xd800 && c < 0xe000) || c >= CODES) return 0;
  *at += (size_t)more + 1;
  return c;
}

static DdpError *load_all(DdpStream *in, const char *path, char **text, size_t *n) {
  size_t room = 1 << 16;
  char *p = malloc(room);
  DdpError *error = p ? NULL : ddp_error(DDP_MEMORY, "out of memory");
  for (*n = 0; !error;) {
    int64_t got;
    error = ddp_stream_read(in, p + *n, (int64_t)(room - *n), &got);
    if (error || got == 0) break;
    *n += (size_t)got;
    if (*n < room) continue;
    char *larger = realloc(p, room * 2);
    if (!larger) {
      error = ddp_error(DDP_MEMORY, "out of memory: '%s' has more than %zu bytes", path, *n);
      break;
    }
    p = larger;
    room *= 2;
  }
  if (error) {
    free(p);
    return error;
  }
  *text = p;
  return NULL;
}

DdpError *ddp_text_load(const char *path, char **text, size_t *n) {
  DdpStream *in;
  DDP_TRY(ddp_stream_open(&in, path));
  DdpError *error = load_all(in, path, text, n);
  ddp_stream_close(in);
  if (error) return error;
  bool mark = *n >= 3 && !memcmp(*text, "\xef\xbb\xbf", 3);
  if (mark) memmove(*text, *text + 3, *n -= 3);
  bool utf16 = *n >= 2 && (!memcmp(*text, "\xff\xfe", 2) || !memcmp(*text, "\xfe\xff", 2));
  if (!utf16) return NULL;
  free(*text);
  return ddp_error(DDP_DATA, "%s: the text is UTF-16; save it as UTF-8", path);
}

/* An error at a byte of the text. */
static DdpError *wrong_at(const char *path, const char *text, size_t at, const char *what) {
  size_t line = 1, begin = 0, column = 1;
  for (size_t i = 0; i < at; i++) {
    if (text[i] == '\n') line++, begin = i + 1;
  }
  for (size_t i = begin; i < at; i++) column += ((unsigned char)text[i] & 0xc0) != 0x80;
  return ddp_error(DDP_DATA, "%s:%zu:%zu: %s", path, line, column, what);
}

static DdpError *no_character(const char *path, const char *text, size_t at) {
  char what[64];
  if (!text[at]) return wrong_at(path, text, at, "a NUL byte: this is no text");
  snprintf(what, sizeof what, "byte %02x is not UTF-8", (unsigned char)text[at]);
  return wrong_at(path, text, at, what);
}

/* ---------- the vocabulary ---------- */

static DdpError *mark_characters(const char *path, unsigned char *seen, int32_t *count) {
  char *text;
  size_t n;
  DDP_TRY(ddp_text_load(path, &text, &n));
  DdpError *error = NULL;
  for (size_t at = 0; at < n && !error;) {
    size_t before = at;
    uint32_t c = ddp_text_next(text, n, &at);
    if (!c) {
      error = no_character(path, text, before);
    } else if (!(seen[c / 8] >> (c % 8) & 1)) {
      seen[c / 8] |= (unsigned char)(1u << (c % 8));
      (*count)++;
    }
  }
  free(text);
  return error;
}

DdpError *ddp_text_vocabulary(const char *const *paths, int32_t n, uint32_t **characters,
                              int32_t *count) {
  unsigned char *seen = calloc(CODES / 8, 1);
  if (!seen) return ddp_error(DDP_MEMORY, "out of memory");
  *count = 0;
  DdpError *error = NULL;
  for (int32_t i = 0; i < n && !error; i++) error = mark_characters(paths[i], seen, count);
  if (!error && *count > DDP_MOST_CHARACTERS)
    error = ddp_error(DDP_DATA, "%s: %d different characters; a text has at most %d", paths[0],
                      *count, DDP_MOST_CHARACTERS);
  if (!error && !*count) error = ddp_error(DDP_DATA, "%s: the text is empty", paths[0]);
  uint32_t *out = error ? NULL : malloc((size_t)*count * sizeof *out);
  if (!error && !out) error = ddp_error(DDP_MEMORY, "out of memory");
  for (uint32_t c = 0, k = 0; !error && c < CODES; c += 8) {
    for (uint32_t bit = 0; seen[c / 8] && bit < 8; bit++) {
      if (seen[c / 8] >> bit & 1) out[k++] = c + bit;
    }
  }
  free(seen);
  *characters = out;
  return error;
}

/* ---------- a text as tokens ---------- */

/* Characters -> places among the categories, from 1; 0: not among them. */
static DdpError *places_of(const DdpField *f, uint32_t **out) {
  uint32_t *place = calloc(CODES, sizeof *place);
  if (!place) return ddp_error(DDP_MEMORY, "out of memory");
  for (uint32_t k = 0; f->categories && f->categories[k]; k++) {
    size_t at = 0;
    const char *text = f->categories[k];
    uint32_t c = ddp_text_next(text, strlen(text), &at);
    if (c) place[c] = k + 1;
  }
  *out = place;
  return NULL;
}

static DdpError *unknown(const char *path, const char *text, size_t at, size_t end) {
  char what[160];
  snprintf(what, sizeof what,
           "the character '%.*s' is not one of those that the file had when the program was "
           "compiled; compile it again",
           (int)(end - at), text + at);
  return wrong_at(path, text, at, what);
}

static DdpError *number_characters(DdpTokenFile *out, const char *text, size_t n,
                                   const uint32_t *place) {
  for (size_t at = 0; at < n;) {
    size_t before = at;
    uint32_t c = ddp_text_next(text, n, &at);
    if (!c) return no_character(out->path, text, before);
    if (!place[c]) return unknown(out->path, text, before, at);
    uint32_t id = place[c] - 1;
    out->ids[out->n * out->width] = (unsigned char)id;
    if (out->width == 2) out->ids[out->n * 2 + 1] = (unsigned char)(id >> 8);
    out->n++;
  }
  return NULL;
}

DdpError *ddp_text_open(DdpTokenFile *out, const char *path, const DdpField *f) {
  int32_t count = 0;
  while (f->categories && f->categories[count]) count++;
  *out = (DdpTokenFile){.path = strdup(path), .fd = -1, .width = count <= 256 ? 1 : 2};
  if (!out->path) return ddp_error(DDP_MEMORY, "out of memory");
  char *text = NULL;
  uint32_t *place = NULL;
  size_t n = 0;
  DdpError *error = ddp_text_load(path, &text, &n);
  if (error) return error;
  out->ids = malloc(n * (size_t)out->width + 1);
  error = out->ids ? places_of(f, &place) : ddp_error(DDP_MEMORY, "out of memory");
  if (!error) error = number_characters(out, text, n, place);
  free(place);
  free(text);
  return error;
}
