/* Source texts and places in them. A Span is three numbers; line and column are found on demand. */
#ifndef BASE_SOURCE_H
#define BASE_SOURCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Span {
  uint32_t file;       /* source_get index; 0 = no place */
  uint32_t begin, end; /* byte offsets, end exclusive */
} Span;

typedef struct Source {
  const char *path; /* as shown to the user; "std/nn.ddp" for embedded library files */
  const char *text; /* NUL-terminated */
  size_t length;
  const char
      *view; /* what a parser reads in place of the text, with all places the same; or NULL */
} Source;

/* Registers a text; returns its index (>= 1). The texts live as long as the process. */
uint32_t source_add(const char *path, const char *text, size_t length);
/* The same text again, of which a parser reads `view`: as long, places and lines shown are the text's. */
uint32_t source_add_view(uint32_t file, const char *view);
/* Reads a file and registers it; 0 when it cannot be read (errno says why). */
uint32_t source_read(const char *path);
/* Forgets the source registered last; for tests that read many texts. */
void source_drop_last(void);
const Source *source_get(uint32_t file);

typedef struct Place {
  const char *path;
  uint32_t line, column; /* from 1; column in characters (UTF-8 aware) */
  const char *line_text; /* start of that line */
  size_t line_length;    /* without the line end */
} Place;
Place source_place(uint32_t file, uint32_t offset);
static inline Span span_join(Span a, Span b) {
  if (!a.file) return b;
  if (!b.file) return a;
  return (Span){a.file, a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
}
#endif
