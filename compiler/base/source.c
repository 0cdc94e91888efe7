/* The registered source texts, and lines and columns of offsets in them. */
#include "source.h"
#include "arena.h"
#include "die.h"
#include "text.h"
#include "vec.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  Arena *arena;
  VEC(Source) list; /* file i stands at i - 1 */
} sources;

enum { READ_MOST = 32 << 20 };

uint32_t source_add(const char *path, const char *text, size_t length) {
  if (!sources.arena) sources.arena = arena_new();
  /* Editors on Windows put a byte order mark in front; it is no part of the text. */
  if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
    text += 3;
    length -= 3;
  }
  char *copy = malloc(length + 1);
  check(copy, "out of memory (%zu bytes)", length);
  if (length) memcpy(copy, text, length);
  copy[length] = 0;
  Source s = {.path = text_intern(path), .text = copy, .length = length};
  vec_push(sources.arena, &sources.list, s);
  return sources.list.len;
}

uint32_t source_add_view(uint32_t file, const char *view) {
  const Source *of = source_get(file);
  uint32_t added = source_add(of->path, of->text, of->length);
  check(strlen(view) == source_get(added)->length, "a view that is not as long as its text");
  sources.list.at[added - 1].view = arena_strdup(sources.arena, view);
  return added;
}

void source_drop_last(void) {
  check(sources.list.len, "no source to drop");
  free((char *)sources.list.at[--sources.list.len].text); /* ours since source_add */
}

uint32_t source_read(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return 0;
  Text text = {0};
  char chunk[1 << 16];
  size_t n;
  /* Enough to be too long is enough: the path may lead to a device without an end. */
  while (text.len <= READ_MOST && (n = fread(chunk, 1, sizeof chunk, f)) > 0)
    text_add_n(&text, chunk, n);
  int failed = ferror(f) ? errno : 0;
  fclose(f);
  uint32_t file = failed ? 0 : source_add(path, text.at ? text.at : "", text.len);
  text_free(&text);
  if (failed) errno = failed;
  return file;
}

const Source *source_get(uint32_t file) {
  check(file >= 1 && file <= sources.list.len, "no source %u", file);
  return &sources.list.at[file - 1];
}

Place source_place(uint32_t file, uint32_t offset) {
  const Source *s = source_get(file);
  if (offset > s->length) offset = (uint32_t)s->length;
  Place p = {.path = s->path, .line = 1, .column = 1, .line_text = s->text};
  const char *at = s->text + offset;
  for (const char *c; (c = memchr(p.line_text, '\n', (size_t)(at - p.line_text)));) {
    p.line_text = c + 1;
    p.line++;
  }
  for (const char *c = p.line_text; c < at; c++)
    if (((unsigned char)*c & 0xC0) != 0x80) p.column++;
  const char *rest = s->text + s->length;
  const char *end = memchr(p.line_text, '\n', (size_t)(rest - p.line_text));
  p.line_length = (size_t)((end ? end : rest) - p.line_text);
  if (p.line_length && p.line_text[p.line_length - 1] == '\r') p.line_length--;
  return p;
}
