/* Test program around the parser.
     ddpc_parse FILE...            parses; diagnostics to stderr; fails when a file has errors
     ddpc_parse --print FILE...    and prints the trees
     ddpc_parse --twice FILE...    and compares the trees of two parses
     ddpc_parse --expect FILE...   compares the diagnostics with those that the files name:
         `# error E0203: part of the message` or `# warning W0214: ...` on the line of each
     ddpc_parse --lines FILE...    every line of the files but comments must be refused, with a code
   of its own wherever the line is followed by one: `text # error E0201` */
#include "diag.h"
#include "parse.h"
#include "print.h"
#include "text.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One diagnostic, expected or reported. */
typedef struct Item {
  char code[8];
  unsigned line;
  char message[400];
  bool met;
} Item;

typedef struct Items {
  Item *at;
  size_t len;
} Items;

static Item *items_add(Items *list) {
  list->at = realloc(list->at, (list->len + 1) * sizeof *list->at);
  if (!list->at) abort();
  Item *item = &list->at[list->len++];
  memset(item, 0, sizeof *item);
  return item;
}

static uint32_t read_or_complain(const char *path) {
  uint32_t source = source_read(path);
  if (!source) fprintf(stderr, "%s: %s\n", path, strerror(errno));
  return source;
}

/* Parses and gives the tree as text; diagnostics stay collected. */
static bool parse_text(uint32_t source, Text *tree) {
  Arena *arena = arena_new();
  AstFile *file = parse_source(arena, source);
  bool ok = file->ok;
  ast_print(tree, file);
  arena_free(arena);
  return ok;
}

static bool plain(const char *path, bool print, bool twice) {
  uint32_t source = read_or_complain(path);
  if (!source) return false;
  Text tree = {0}, again = {0};
  bool ok = parse_text(source, &tree);
  if (print) fputs(tree.at, stdout);
  if (twice) {
    parse_text(source, &again);
    if (strcmp(tree.at, again.at) != 0) {
      fprintf(stderr, "%s: two parses differ\n", path);
      ok = false;
    }
  }
  diag_flush(stderr, false);
  text_free(&tree);
  text_free(&again);
  return ok;
}

/* The diagnostics collected so far, read back from their printed form. */
static Items reported(void) {
  Items list = {0};
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) abort();
  diag_flush(out, false);
  fclose(out);
  for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
    char *mark = strstr(line, ": error[");
    if (!mark) mark = strstr(line, ": warning[");
    if (!mark) continue;
    char *path_end = mark; /* file:line:col before the mark */
    for (int colons = 0; path_end > line && colons < 2; path_end--)
      if (path_end[-1] == ':') colons++;
    Item *item = items_add(&list);
    item->line = (unsigned)strtoul(path_end + 1, NULL, 10);
    char *code = strchr(mark, '[') + 1;
    snprintf(item->code, sizeof item->code, "%.5s", code);
    snprintf(item->message, sizeof item->message, "%s", strstr(code, "]: ") + 3);
  }
  free(text);
  return list;
}

static Items expected(const Source *s) {
  Items list = {0};
  unsigned line = 1;
  for (const char *at = s->text; at && *at; line++) {
    const char *end = strchr(at, '\n');
    size_t n = end ? (size_t)(end - at) : strlen(at);
    for (const char *c = at; (c = memchr(c, '#', n - (size_t)(c - at))); c++) {
      bool error = strncmp(c, "# error ", 8) == 0, warning = strncmp(c, "# warning ", 10) == 0;
      if (!error && !warning) continue;
      const char *code = c + (error ? 8 : 10);
      Item *item = items_add(&list);
      item->line = line;
      snprintf(item->code, sizeof item->code, "%.5s", code);
      size_t left = n - (size_t)(code - at);
      const char *next = memchr(code, '#', left); /* several on one line */
      size_t length = next ? (size_t)(next - code) : left;
      while (length && isspace((unsigned char)code[length - 1])) length--;
      if (length > 7)
        snprintf(item->message, sizeof item->message, "%.*s", (int)length - 7, code + 7);
    }
    at = end ? end + 1 : NULL;
  }
  return list;
}

static bool expect(const char *path) {
  uint32_t source = read_or_complain(path);
  if (!source) return false;
  Text tree = {0};
  parse_text(source, &tree);
  text_free(&tree);
  Items want = expected(source_get(source)), have = reported();
  bool ok = want.len > 0;
  if (!ok) fprintf(stderr, "%s: names no diagnostic\n", path);
  for (size_t i = 0; i < have.len; i++) {
    Item *h = &have.at[i];
    for (size_t k = 0; k < want.len && !h->met; k++) {
      Item *w = &want.at[k];
      if (w->met || w->line != h->line || strcmp(w->code, h->code) != 0) continue;
      if (!strstr(h->message, w->message)) continue;
      w->met = h->met = true;
    }
    if (h->met) continue;
    fprintf(stderr, "%s:%u: not expected: %s: %s\n", path, h->line, h->code, h->message);
    ok = false;
  }
  for (size_t k = 0; k < want.len; k++) {
    if (want.at[k].met) continue;
    fprintf(stderr, "%s:%u: missing: %s: %s\n", path, want.at[k].line, want.at[k].code,
            want.at[k].message);
    ok = false;
  }
  free(want.at);
  free(have.at);
  return ok;
}

/* One line as a file of its own, behind `edition 1`. */
static bool refuse_line(const char *path, unsigned number, const char *line) {
  char *text = NULL;
  if (asprintf(&text, "edition 1\n%s\n", line) < 0) abort();
  char *comment = strstr(text, " # error ");
  char code[8] = "";
  if (comment) {
    snprintf(code, sizeof code, "%.5s", comment + 9);
    *comment = 0;
  }
  Text tree = {0};
  bool ok = parse_text(source_add(path, text, strlen(text)), &tree);
  Items have = reported();
  bool refused = !ok && have.len > 0 && (!code[0] || strcmp(have.at[0].code, code) == 0);
  if (!refused || have.len != 1)
    fprintf(stderr, "%s:%u: expected one error %s, have %zu (%s): %s\n", path, number, code,
            have.len, have.len ? have.at[0].code : "", text);
  refused = refused && have.len == 1;
  free(have.at);
  text_free(&tree);
  free(text);
  return refused;
}

static bool lines(const char *path) {
  FILE *in = fopen(path, "r");
  if (!in) return fprintf(stderr, "%s: %s\n", path, strerror(errno)), false;
  char *line = NULL;
  size_t size = 0;
  bool ok = true;
  for (unsigned number = 1; getline(&line, &size, in) >= 0; number++) {
    line[strcspn(line, "\n")] = 0;
    if (line[0] && line[0] != '#') ok &= refuse_line(path, number, line);
  }
  free(line);
  fclose(in);
  return ok;
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 && strncmp(argv[1], "--", 2) == 0 ? argv[1] : "";
  bool ok = true;
  int files = 0;
  for (int i = *mode ? 2 : 1; i < argc; i++, files++) {
    bool one = !strcmp(mode, "--expect") ? expect(argv[i])
               : !strcmp(mode, "--lines")
                   ? lines(argv[i])
                   : plain(argv[i], !strcmp(mode, "--print"), !strcmp(mode, "--twice"));
    ok = ok && one;
  }
  if (!files) fprintf(stderr, "usage: ddpc_parse [--print|--twice|--expect|--lines] FILE...\n");
  return ok && files ? 0 : 1;
}
