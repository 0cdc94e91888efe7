/* What `ddpc fmt` promises, on files, on the blocks of pages and on random texts.
     format_check --print FILE           the canonical text
     format_check --case FILE EXPECTED   compares it with a file
     format_check --files FILE...        the promises; files that do not parse are passed over. Of FILE.md
                                         the blocks marked ```ddp
     format_check --random FIRST COUNT   the same for random texts (tests/fuzz/generate.c)
     format_check --text SEED            a random text
   The promises: the canonical text parses, to the same tree, with the same comments; formatting it again
   changes nothing; no blanks at line ends, one line end at the end; the diff leads there. Files parse
   without warnings then. */
#include "diag.h"
#include "format.h"
#include "generate.h"
#include "parse.h"
#include "print.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a text is, apart from its layout. */
typedef struct Meaning {
  bool ok, silent; /* parses; without a warning */
  Text tree, comments, canonical;
} Meaning;

static void free_meaning(Meaning *m) {
  text_free(&m->tree);
  text_free(&m->comments);
  text_free(&m->canonical);
}

/* Quoted words of settings count as the words: that spelling is the formatter's. */
static void plain_settings(SettingList *list) {
  for (uint32_t i = 0; i < list->len; i++) {
    Expr *e = list->at[i].value;
    if (e->kind == EXPR_text) {
      const char *word = e->as.text.text;
      e->kind = EXPR_name;
      e->as.name = (Name){.text = word};
    }
  }
}

static void plain_models(ModelList *list) {
  for (uint32_t i = 0; i < list->len; i++) {
    plain_settings(&list->at[i]->settings);
    plain_models(&list->at[i]->body);
  }
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Comments without the blank behind `#` and blanks at the end, in the order of their texts: one above
   `edition` and one behind it change places. */
static void list_comments(Text *out, Arena *arena, const AstFile *file) {
  const char *text = source_get(file->source)->text;
  uint32_t n = file->comments.len;
  char **all = ARENA_ARRAY(arena, char *, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    Span s = file->comments.at[i].span;
    uint32_t begin = s.begin + 1, end = s.end;
    if (begin < end && (text[begin] == ' ' || text[begin] == '\t')) begin++;
    while (end > begin && strchr(" \t\r", text[end - 1])) end--;
    all[i] = arena_strndup(arena, text + begin, end - begin);
  }
  qsort(all, n, sizeof *all, by_text);
  for (uint32_t i = 0; i < n; i++) text_addf(out, "%s\n", all[i]);
}

static Meaning read_meaning(const char *path, const char *text, size_t length) {
  Meaning m = {0};
  Arena *arena = arena_new();
  AstFile *file = parse_source(arena, source_add(path, text, length));
  m.ok = file->ok;
  if (m.ok) {
    format_file(&m.canonical, arena, file);
    list_comments(&m.comments, arena, file);
    for (uint32_t i = 0; i < file->decls.len; i++) {
      plain_settings(&file->decls.at[i]->settings);
      plain_models(&file->decls.at[i]->model);
    }
    ast_print(&m.tree, file);
  }
  text_add(&m.comments, "");
  char *unseen = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&unseen, &size);
  diag_flush(out, false);
  fclose(out);
  if (m.ok != !strstr(unseen, ": error[")) fprintf(stderr, "%s: %s", path, unseen);
  m.silent = !*unseen;
  free(unseen);
  source_drop_last();
  arena_free(arena);
  return m;
}

static bool same(const Text *a, const Text *b) {
  return a->len == b->len && !memcmp(a->at, b->at, a->len);
}

static bool complain(const char *path, const char *what, const Text *a, const Text *b) {
  Text diff = {0};
  format_diff(&diff, "before", "after", a, b);
  fprintf(stderr, "%s: %s\n%.3000s\n", path, what, diff.at ? diff.at : "");
  text_free(&diff);
  return false;
}

static bool clean(const Text *t) {
  if (t->len < 2 || t->at[t->len - 1] != '\n' || t->at[t->len - 2] == '\n') return false;
  return !strstr(t->at, " \n") && !strstr(t->at, "\n\n\n") && !strstr(t->at, "\n\t") &&
         !strchr(t->at, '\r');
}

static const char *line_end(const char *s) {
  return s + strcspn(s, "\n") + (strchr(s, '\n') != NULL);
}

/* What the diff makes of the text that it was made for. */
static void patch(Text *out, const char *text, const char *diff) {
  const char *left = text;
  long line = 1;
  while (*diff) {
    const char *end = line_end(diff);
    long begin;
    if (sscanf(diff, "@@ -%ld", &begin) == 1) {
      bool none = strstr(diff, ",0 +") && strstr(diff, ",0 +") < end; /* behind that line */
      for (; line < begin + none; line++) {
        text_add_n(out, left, (size_t)(line_end(left) - left));
        left = line_end(left);
      }
    } else if (*diff == '\\') { /* the line before has no end */
      if (out->len && diff[-1] == '\n' && !*left && !*end) out->len--;
    } else if (strncmp(diff, "--- ", 4) != 0 && strncmp(diff, "+++ ", 4) != 0) {
      if (*diff != '-') text_add_n(out, diff + 1, (size_t)(end - diff) - 1);
      if (*diff != '+') {
        left = line_end(left);
        line++;
      }
    }
    diff = end;
  }
  text_add(out, left);
}

static bool diff_holds(const Text *a, const Text *b) {
  Text diff = {0}, patched = {0};
  format_diff(&diff, "a", "b", a, b);
  patch(&patched, a->at, diff.at ? diff.at : "");
  bool good = same(&patched, b);
  text_free(&diff);
  text_free(&patched);
  return good;
}

/* 1: holds, 0: does not, -1: the text does not parse. W0214 mistakes an operator behind the `}` of a map for
   a new line, so random texts are not silent. */
static int promises(const char *path, const char *text, size_t length, bool silent) {
  Meaning a = read_meaning(path, text, length);
  if (!a.ok) {
    free_meaning(&a);
    return -1;
  }
  Meaning b = read_meaning(path, a.canonical.at, a.canonical.len);
  Text source = {0};
  text_add_n(&source, text, length);
  text_add(&source, "");
  bool good = true;
  if (!b.ok)
    good = complain(path, "the canonical text does not parse", &source, &a.canonical);
  else if (!same(&a.tree, &b.tree))
    good = complain(path, "the tree changes", &a.tree, &b.tree);
  else if (!same(&a.comments, &b.comments))
    good = complain(path, "comments change", &a.comments, &b.comments);
  else if (!same(&a.canonical, &b.canonical))
    good = complain(path, "formatting twice gives another text", &a.canonical, &b.canonical);
  else if (!diff_holds(&source, &a.canonical))
    good = complain(path, "the diff does not lead there", &source, &a.canonical);
  else if (silent && !b.silent)
    good = complain(path, "the canonical text has warnings", &source, &a.canonical);
  else if (!clean(&a.canonical))
    good = complain(path, "blanks, tabs or empty lines", &source, &a.canonical);
  text_free(&source);
  free_meaning(&a);
  free_meaning(&b);
  return good;
}

/* ---------- files ---------- */
static bool read_file(const char *path, Text *out) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return false;
  }
  char chunk[4096];
  size_t n;
  while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) text_add_n(out, chunk, n);
  fclose(f);
  text_add(out, "");
  return true;
}

/* Blocks without an edition get one. */
static bool page(const char *path, const char *at, int *count) {
  bool good = true;
  while ((at = strstr(at, "\n```ddp"))) {
    at = strchr(at + 1, '\n');
    const char *end = at ? strstr(at, "\n```") : NULL;
    if (!end) break;
    Text block = {0};
    if (strncmp(at + 1, "edition", 7) != 0) text_add(&block, "edition 1\n");
    text_add_n(&block, at + 1, (size_t)(end - at));
    int held = promises(path, block.at, block.len, true);
    *count += held == 1;
    good = good && held != 0;
    text_free(&block);
    at = end + 1;
  }
  return good;
}

static bool files(int n, char **paths) {
  bool good = true;
  int count = 0;
  for (int i = 0; i < n; i++) {
    Text t = {0};
    bool read = read_file(paths[i], &t);
    const char *dot = strrchr(paths[i], '.');
    if (!read) {
      good = false;
    } else if (dot && !strcmp(dot, ".md")) {
      good &= page(paths[i], t.at, &count);
    } else {
      int held = promises(paths[i], t.at, t.len, true);
      count += held == 1;
      good &= held != 0;
    }
    text_free(&t);
  }
  printf("%d of %d\n", count, n);
  return good && count > 0;
}

static bool random_texts(uint64_t first, uint64_t count) {
  bool good = true;
  for (uint64_t seed = first; seed < first + count && good; seed++) {
    Text t = {0};
    char name[32];
    snprintf(name, sizeof name, "seed %llu", (unsigned long long)seed);
    generate_text(&t, seed);
    good = promises(name, t.at, t.len, false) == 1;
    if (!good) fprintf(stderr, "%s: ddpc_format_check --text %s prints it\n", name, name + 5);
    text_free(&t);
  }
  return good;
}

static bool golden(const char *path, const char *expected) {
  Text t = {0}, want = {0};
  bool good = read_file(path, &t) && read_file(expected, &want);
  if (good) {
    Meaning m = read_meaning(path, t.at, t.len);
    good = m.ok && same(&want, &m.canonical);
    if (!m.ok)
      fprintf(stderr, "%s: does not parse\n", path);
    else if (!good)
      complain(path, "is formatted otherwise", &want, &m.canonical);
    free_meaning(&m);
  }
  if (good) good = promises(path, t.at, t.len, true) == 1;
  text_free(&t);
  text_free(&want);
  return good;
}

static bool print(const char *path) {
  Text t = {0};
  if (!read_file(path, &t)) return false;
  Meaning m = read_meaning(path, t.at, t.len);
  if (m.ok) fwrite(m.canonical.at, 1, m.canonical.len, stdout);
  bool good = m.ok;
  free_meaning(&m);
  text_free(&t);
  return good;
}

int main(int argc, char **argv) {
  const char *mode = argc > 2 ? argv[1] : "";
  bool good = false;
  if (!strcmp(mode, "--print"))
    good = print(argv[2]);
  else if (!strcmp(mode, "--case") && argc == 4)
    good = golden(argv[2], argv[3]);
  else if (!strcmp(mode, "--files"))
    good = files(argc - 2, argv + 2);
  else if (!strcmp(mode, "--random") && argc == 4)
    good = random_texts(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
  else if (!strcmp(mode, "--text")) {
    Text t = {0};
    generate_text(&t, strtoull(argv[2], NULL, 10));
    good = fwrite(t.at, 1, t.len, stdout) == t.len;
    text_free(&t);
  } else
    fprintf(stderr, "usage: format_check --print|--case|--files|--random|--text ...\n");
  return good ? 0 : 1;
}
