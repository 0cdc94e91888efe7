/* Collects diagnostics, and prints them in order of file and place. */
#include "diag.h"
#include "arena.h"
#include "die.h"
#include "vec.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef DiagNote Note;

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
  unsigned errors, later;
  bool lenient;
  bool dropped; /* the last report was a repetition; its notes are dropped too */
} all;

static bool is_warning(DiagCode code) {
  return codes[code].name[0] == 'W';
}

void diag_report(DiagCode code, Span at, const char *format, ...) {
  if (!all.arena) all.arena = arena_new();
  all.dropped = false;
  if (code == DIAG_E0716) {
    all.later++;
    if (all.lenient) code = DIAG_W0718;
  }
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

bool diag_reported_at(Span at) {
  for (uint32_t i = 0; i < all.list.len; i++) {
    const Diag *d = &all.list.at[i];
    if (d->at.file == at.file && d->at.begin == at.begin && !is_warning(d->code)) return true;
  }
  return false;
}

unsigned diag_errors(void) {
  return all.errors;
}

void diag_lenient(bool lenient) {
  all.lenient = lenient;
}

unsigned diag_later(void) {
  return all.later;
}

/* ---------- printing ---------- */
#define RED    "\033[1;31m"
#define YELLOW "\033[1;33m"
#define BLUE   "\033[1;34m"
#define BOLD   "\033[1m"
#define PLAIN  "\033[0m"

/* The part of a line that is shown: all of a usual one, else what stands around the place. */
typedef struct Window {
  const char *text;
  size_t length, from, to; /* of the marked part, in bytes of the window */
  bool cut_left, cut_right;
} Window;

static bool inside_character(char c) {
  return ((unsigned char)c & 0xC0) == 0x80;
}

static Window window_at(Span at) {
  enum { LONGEST = 200, BEFORE = 60 };
  Place p = source_place(at.file, at.begin);
  Window w = {.text = p.line_text, .length = p.line_length};
  w.from = (size_t)(source_get(at.file)->text + at.begin - p.line_text);
  w.to = at.end > at.begin ? w.from + (at.end - at.begin) : w.from + 1;
  if (w.length > LONGEST) {
    size_t skip = w.from > BEFORE ? w.from - BEFORE : 0;
    while (skip && inside_character(w.text[skip])) skip--;
    w.cut_left = skip > 0;
    w.text += skip;
    w.length -= skip;
    w.from -= skip;
    w.to -= skip;
  }
  if (w.length > LONGEST) {
    w.cut_right = true;
    w.length = LONGEST;
    while (w.length && inside_character(w.text[w.length])) w.length--;
  }
  if (w.to > w.length) w.to = w.length;
  if (w.to <= w.from) w.to = w.from + 1; /* at the end of the line */
  return w;
}

static void print_source_line(FILE *out, Span at, const char *colour, bool color) {
  Window w = window_at(at);
  uint32_t number = source_place(at.file, at.begin).line;
  fprintf(out, "%6u | %s%.*s%s\n       | ", number, w.cut_left ? "..." : "", (int)w.length, w.text,
          w.cut_right ? "..." : "");
  if (w.cut_left) fputs("   ", out);
  for (size_t i = 0; i < w.from && i < w.length; i++) { /* tabs stay, so that columns agree */
    if (!inside_character(w.text[i])) fputc(w.text[i] == '\t' ? '\t' : ' ', out);
  }
  if (color) fputs(colour, out);
  for (size_t i = w.from; i < w.to; i++)
    if (i >= w.length || !inside_character(w.text[i])) fputc('^', out);
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

static void sort(void) {
  if (all.list.len) qsort(all.list.at, all.list.len, sizeof *all.list.at, by_place);
}

void diag_visit(void (*each)(void *self, const DiagView *d), void *self) {
  sort();
  for (uint32_t i = 0; i < all.list.len; i++) {
    const Diag *d = &all.list.at[i];
    DiagView view = {d->code, d->at, d->text, d->notes.at, d->notes.len};
    each(self, &view);
  }
}

static void forget(void) {
  if (all.arena) arena_free(all.arena);
  all.arena = NULL;
  memset(&all.list, 0, sizeof all.list);
  all.dropped = false;
}

void diag_flush(FILE *out, bool color) {
  sort();
  for (uint32_t i = 0; i < all.list.len; i++) print_diag(out, &all.list.at[i], color);
  forget();
}

void diag_reset(void) {
  forget();
  all.errors = all.later = 0;
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
