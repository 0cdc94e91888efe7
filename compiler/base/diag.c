/* Collects diagnostics, and prints them in order of file and place. */
#include "diag.h"
#include "arena.h"
#include "die.h"
#include "vec.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct Note {
  Span at;           /* file 0: no place */
  const char *label; /* "note", "help" */
  const char *text;
} Note;

typedef struct Diag {
  DiagCode code;
  Span at;
  uint32_t order; /* of reporting, for equal places */
  const char *text;
  VEC(Note) notes;
} Diag;

static const struct {
  const char *name, *title, *explanation;
} codes[DIAG_COUNT] = {
#define DIAG(code, title, explanation) {#code, title, explanation},
#include "diag.def"
};

static struct {
  Arena *arena;
  VEC(Diag) list;
  unsigned errors;
  bool dropped; /* the last report was a repetition; its notes are dropped too */
} all;

static bool is_warning(DiagCode code) {
  return codes[code].name[0] == 'W';
}

void diag_report(DiagCode code, Span at, const char *format, ...) {
  if (!all.arena) all.arena = arena_new();
  all.dropped = false;
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(all.arena, format, args);
  va_end(args);
  for (uint32_t i = 0; i < all.list.len && !all.dropped; i++) {
    const Diag *d = &all.list.at[i];
    bool same_place = d->at.file == at.file && d->at.begin == at.begin;
    all.dropped = d->code == code && same_place && (at.file || !strcmp(d->text, text));
  }
  if (all.dropped) return;
  Diag d = {.code = code, .at = at, .order = all.list.len, .text = text};
  vec_push(all.arena, &all.list, d);
  if (!is_warning(code)) all.errors++;
}

static void add_note(Span at, const char *label, const char *format, va_list args) {
  if (all.dropped) return;
  check(all.list.len, "note without a diagnostic");
  Note n = {at, label, arena_vprintf(all.arena, format, args)};
  vec_push(all.arena, &all.list.at[all.list.len - 1].notes, n);
}

void diag_note(Span at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_note(at, "note", format, args);
  va_end(args);
}

void diag_help(const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_note((Span){0}, "help", format, args);
  va_end(args);
}

unsigned diag_errors(void) {
  return all.errors;
}

/* ---------- printing ---------- */
#define RED    "\033[1;31m"
#define YELLOW "\033[1;33m"
#define BLUE   "\033[1;34m"
#define BOLD   "\033[1m"
#define PLAIN  "\033[0m"

static void print_source_line(FILE *out, Span at, const char *colour, bool color) {
  Place p = source_place(at.file, at.begin);
  fprintf(out, "%6u | %.*s\n       | ", p.line, (int)p.line_length, p.line_text);
  size_t from = (size_t)(source_get(at.file)->text + at.begin - p.line_text);
  size_t to = at.end > at.begin ? from + (at.end - at.begin) : from + 1;
  if (to > p.line_length) to = p.line_length;
  if (to <= from) to = from + 1;                           /* at the end of the line */
  for (size_t i = 0; i < from && i < p.line_length; i++) { /* tabs stay, so that columns agree */
    unsigned char c = (unsigned char)p.line_text[i];
    if ((c & 0xC0) != 0x80) fputc(c == '\t' ? '\t' : ' ', out);
  }
  if (color) fputs(colour, out);
  for (size_t i = from; i < to; i++) {
    bool inside = i < p.line_length;
    if (!inside || ((unsigned char)p.line_text[i] & 0xC0) != 0x80) fputc('^', out);
  }
  fprintf(out, "%s\n", color ? PLAIN : "");
}

static void print_head(FILE *out, Span at, const char *label, const char *colour, bool color) {
  if (color) fputs(BOLD, out);
  if (at.file) {
    Place p = source_place(at.file, at.begin);
    fprintf(out, "%s:%u:%u: ", p.path, p.line, p.column);
  }
  fprintf(out, "%s%s%s: ", color ? colour : "", label, color ? PLAIN : "");
}

static void print_diag(FILE *out, const Diag *d, bool color) {
  char label[32];
  const char *colour = is_warning(d->code) ? YELLOW : RED;
  snprintf(label, sizeof label, "%s[%s]", is_warning(d->code) ? "warning" : "error",
           codes[d->code].name);
  print_head(out, d->at, label, colour, color);
  fprintf(out, "%s\n", d->text);
  if (d->at.file) print_source_line(out, d->at, colour, color);
  for (uint32_t i = 0; i < d->notes.len; i++) {
    const Note *n = &d->notes.at[i];
    print_head(out, n->at, n->label, BLUE, color);
    fprintf(out, "%s\n", n->text);
    if (n->at.file) print_source_line(out, n->at, BLUE, color);
  }
}

static int by_place(const void *a, const void *b) {
  const Diag *x = a, *y = b;
  if (x->at.file != y->at.file) return x->at.file < y->at.file ? -1 : 1;
  if (x->at.begin != y->at.begin) return x->at.begin < y->at.begin ? -1 : 1;
  return x->order < y->order ? -1 : 1;
}

void diag_flush(FILE *out, bool color) {
  if (all.list.len) qsort(all.list.at, all.list.len, sizeof *all.list.at, by_place);
  for (uint32_t i = 0; i < all.list.len; i++) print_diag(out, &all.list.at[i], color);
  arena_free(all.arena);
  all.arena = NULL;
  memset(&all.list, 0, sizeof all.list);
  all.dropped = false;
}

/* ---------- codes ---------- */
const char *diag_name(DiagCode code) {
  return codes[code].name;
}
const char *diag_title(DiagCode code) {
  return codes[code].title;
}
const char *diag_explanation(DiagCode code) {
  return codes[code].explanation;
}

bool diag_find(const char *name, DiagCode *out) {
  for (int i = 0; i < DIAG_COUNT; i++) {
    if (strcmp(codes[i].name, name) != 0) continue;
    *out = (DiagCode)i;
    return true;
  }
  return false;
}
