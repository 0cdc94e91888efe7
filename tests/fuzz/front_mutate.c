/* See front_mutate.h. A text is cut into tokens (roughly those of the language; blanks and comments are
   tokens too, so that joining them gives the text again); changes work on tokens, lines, or a pair of
   brackets. */
#include "front_mutate.h"
#include "text.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum TokenKind { T_blank, T_name, T_number, T_text, T_mark } TokenKind;
typedef struct Token {
  TokenKind kind;
  size_t begin, end;
} Token;

enum { LONGEST = 1 << 16, TOKENS_MOST = 1 << 15 };

struct Mutator {
  uint64_t state;
  Text *files;
  int n_files;
  Text word_file;
  char **words;
  size_t n_words;
  Text now, next;
  Token tokens[TOKENS_MOST];
  size_t n_tokens;
};

static size_t draw(Mutator *m, size_t below) { /* xorshift64 */
  m->state ^= m->state << 13;
  m->state ^= m->state >> 7;
  m->state ^= m->state << 17;
  return below ? (size_t)(m->state % below) : 0;
}

static Text read_text(const char *path) {
  Text t = {0};
  char piece[4096];
  FILE *f = fopen(path, "rb");
  if (!f) {
    perror(path);
    exit(2);
  }
  for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;) text_add_n(&t, piece, n);
  fclose(f);
  text_add_n(&t, "", 0);
  return t;
}

Mutator *mutator_new(uint64_t seed, const char *words, char **files, int n_files) {
  Mutator *m = calloc(1, sizeof *m);
  if (!m) exit(2);
  m->state = 0x9E3779B97F4A7C15u ^ (seed * 0xD1342543DE82EF95u);
  for (int i = 0; i < 8; i++) draw(m, 0);
  m->files = calloc((size_t)n_files, sizeof *m->files);
  if (!m->files) exit(2);
  m->n_files = n_files;
  for (int i = 0; i < n_files; i++) m->files[i] = read_text(files[i]);
  m->word_file = read_text(words);
  m->words = calloc(m->word_file.len + 1, sizeof *m->words);
  if (!m->words) exit(2);
  for (char *w = strtok(m->word_file.at, "\n"); w; w = strtok(NULL, "\n"))
    m->words[m->n_words++] = w;
  return m;
}

void mutator_free(Mutator *m) {
  for (int i = 0; i < m->n_files; i++) text_free(&m->files[i]);
  free(m->files);
  free(m->words);
  text_free(&m->word_file);
  text_free(&m->now);
  text_free(&m->next);
  free(m);
}

const char *mutator_text(const Mutator *m, int i) {
  return m->files[i].at;
}

/* ---------- tokens ---------- */

static size_t token_end(const char *s, size_t at, size_t n, TokenKind *kind) {
  unsigned char c = (unsigned char)s[at];
  size_t end = at + 1;
  if (c == '#') {
    *kind = T_blank;
    while (end < n && s[end] != '\n') end++;
  } else if (isspace(c)) {
    *kind = T_blank;
    while (end < n && isspace((unsigned char)s[end])) end++;
  } else if (isalpha(c) || c == '_') {
    *kind = T_name;
    while (end < n && (isalnum((unsigned char)s[end]) || s[end] == '_')) end++;
  } else if (isdigit(c)) {
    *kind = T_number;
    while (end < n && (isalnum((unsigned char)s[end]) || s[end] == '_' ||
                       (s[end] == '.' && end + 1 < n && isdigit((unsigned char)s[end + 1]))))
      end++;
  } else if (c == '"') {
    *kind = T_text;
    while (end < n && s[end] != '"' && s[end] != '\n') end++;
    if (end < n) end++;
  } else {
    *kind = T_mark;
  }
  return end;
}

static void cut(Mutator *m) {
  m->n_tokens = 0;
  for (size_t at = 0; at < m->now.len && m->n_tokens < TOKENS_MOST;) {
    Token t = {.begin = at};
    t.end = token_end(m->now.at, at, m->now.len, &t.kind);
    m->tokens[m->n_tokens++] = t;
    at = t.end;
  }
}

/* Any token of a kind; SIZE_MAX where there is none. */
static size_t pick(Mutator *m, TokenKind kind) {
  size_t from = draw(m, m->n_tokens);
  for (size_t i = 0; i < m->n_tokens; i++) {
    size_t at = (from + i) % m->n_tokens;
    if (m->tokens[at].kind == kind) return at;
  }
  return SIZE_MAX;
}

/* now[begin, end) becomes `with`. */
static void replace(Mutator *m, size_t begin, size_t end, const char *with, size_t n) {
  if (m->now.len - (end - begin) + n > LONGEST) return;
  m->next.len = 0;
  text_add_n(&m->next, m->now.at, begin);
  text_add_n(&m->next, with, n);
  text_add_n(&m->next, m->now.at + end, m->now.len - end);
  Text other = m->now;
  m->now = m->next;
  m->next = other;
}

/* A copy, since replace() writes into the texts. */
static char *copy_of(const char *s, size_t n) {
  char *c = malloc(n + 1);
  if (!c) exit(2);
  memcpy(c, s, n);
  c[n] = 0;
  return c;
}

static void replace_by_part(Mutator *m, size_t begin, size_t end, size_t from, size_t to) {
  char *part = copy_of(m->now.at + from, to - from);
  replace(m, begin, end, part, to - from);
  free(part);
}

/* ---------- changes ---------- */

/* A token becomes another one of its kind, from this text or from another. */
static void other_token(Mutator *m, TokenKind kind) {
  size_t a = pick(m, kind), b = pick(m, kind);
  if (a == SIZE_MAX) return;
  Token to = m->tokens[a], from = m->tokens[b];
  if (kind == T_name && !draw(m, 3)) {
    const char *w = m->words[draw(m, m->n_words)];
    replace(m, to.begin, to.end, w, strlen(w));
  } else {
    replace_by_part(m, to.begin, to.end, from.begin, from.end);
  }
}

static void other_number(Mutator *m) {
  static const char *const numbers[] = {"0",
                                        "1",
                                        "2",
                                        "3",
                                        "7",
                                        "8",
                                        "64",
                                        "100",
                                        "1024",
                                        "1000000",
                                        "2147483647",
                                        "4294967296",
                                        "0.0",
                                        "0.5",
                                        "1.0",
                                        "1e-30",
                                        "1e30",
                                        "1e308",
                                        "inf",
                                        "nan",
                                        "none",
                                        "true",
                                        "\"a\"",
                                        "9223372036854775807",
                                        "-1",
                                        "-2.5",
                                        "(-9223372036854775807 - 1)",
                                        "[1, 2]",
                                        "[]",
                                        "80%",
                                        "0..3",
                                        "{ a = 1 }",
                                        "(1, 2)",
                                        "relu",
                                        "4611686018427387904",
                                        "1000000007"};
  size_t a = pick(m, T_number);
  if (a == SIZE_MAX) return;
  const char *with = numbers[draw(m, sizeof numbers / sizeof *numbers)];
  replace(m, m->tokens[a].begin, m->tokens[a].end, with, strlen(with));
}

typedef struct Stretch {
  size_t begin, end;
} Stretch;

static Stretch any_line(Mutator *m) {
  size_t at = draw(m, m->now.len);
  Stretch s = {at, at};
  while (s.begin && m->now.at[s.begin - 1] != '\n') s.begin--;
  while (s.end < m->now.len && m->now.at[s.end] != '\n') s.end++;
  if (s.end < m->now.len) s.end++;
  return s;
}

/* A pair of brackets with what is between them; begin == end where there is none. */
static Stretch any_brackets(Mutator *m) {
  size_t from = draw(m, m->now.len);
  const char *s = m->now.at;
  for (size_t i = 0; i < m->now.len; i++) {
    size_t at = (from + i) % m->now.len;
    if (s[at] != '(' && s[at] != '[' && s[at] != '{') continue;
    size_t depth = 0;
    for (size_t k = at; k < m->now.len; k++) {
      if (strchr("([{", s[k])) depth++;
      if (strchr(")]}", s[k]) && --depth == 0) return (Stretch){at, k + 1};
    }
    break;
  }
  return (Stretch){0, 0};
}

static void change_line(Mutator *m) {
  Stretch a = any_line(m), b = any_line(m);
  switch (draw(m, 4)) {
  case 0: /* drop */
    replace(m, a.begin, a.end, "", 0);
    break;
  case 1: /* twice */
    replace_by_part(m, a.end, a.end, a.begin, a.end);
    break;
  case 2: /* somewhere else, once more */
    replace_by_part(m, b.begin, b.begin, a.begin, a.end);
    break;
  default: /* for another one */
    replace_by_part(m, b.begin, b.end, a.begin, a.end);
  }
}

static void change_brackets(Mutator *m) {
  Stretch a = any_brackets(m), b = any_brackets(m);
  if (a.end == a.begin || b.end == b.begin) return;
  switch (draw(m, 4)) {
  case 0: /* empty */
    replace(m, a.begin + 1, a.end - 1, "", 0);
    break;
  case 1: /* what others hold */
    replace_by_part(m, a.begin + 1, a.end - 1, b.begin + 1, b.end - 1);
    break;
  case 2: /* twice in a row */
    replace_by_part(m, a.end, a.end, a.begin, a.end);
    break;
  default:
    replace_by_part(m, a.begin, a.end, b.begin, b.end);
  }
}

/* A name or number deep inside others. */
static void nest(Mutator *m) {
  static const char *const pairs[][2] = {{"(", ")"},
                                         {"[", "]"},
                                         {"relu(", ")"},
                                         {"-", ""},
                                         {"not ", ""},
                                         {"[", " for i in 0..3]"},
                                         {"Sequential(", ")"},
                                         {"1 + ", ""},
                                         {"", "[0]"},
                                         {"", " ** 2"},
                                         {"if true then ", " else 1"},
                                         {"", ".a"},
                                         {"f(", ", 1)"},
                                         {"exp(", ")"},
                                         {"stack([", "])"},
                                         {"", " * 1000000"},
                                         {"2 ** ", ""},
                                         {"", " + 9223372036854775807"}};
  static const size_t depths[] = {1, 1, 2, 3, 5, 17, 100, 1000};
  size_t a = pick(m, draw(m, 2) ? T_name : T_number);
  if (a == SIZE_MAX) return;
  size_t kind = draw(m, sizeof pairs / sizeof *pairs);
  Text t = {0};
  size_t depth = depths[draw(m, sizeof depths / sizeof *depths)];
  for (size_t i = 0; i < depth; i++) text_add(&t, pairs[kind][0]);
  text_add_n(&t, m->now.at + m->tokens[a].begin, m->tokens[a].end - m->tokens[a].begin);
  for (size_t i = 0; i < depth; i++) text_add(&t, pairs[kind][1]);
  replace(m, m->tokens[a].begin, m->tokens[a].end, t.at, t.len);
  text_free(&t);
}

static void drop_or_repeat_token(Mutator *m) {
  size_t at = draw(m, m->n_tokens), run = 1 + draw(m, 4);
  if (at + run > m->n_tokens) run = m->n_tokens - at;
  size_t begin = m->tokens[at].begin, end = m->tokens[at + run - 1].end;
  if (draw(m, 2))
    replace(m, begin, end, "", 0);
  else
    replace_by_part(m, end, end, begin, end);
}

/* Lines of another job. */
static void borrow(Mutator *m) {
  const Text *o = &m->files[draw(m, (size_t)m->n_files)];
  if (!o->len) return;
  size_t begin = draw(m, o->len), end;
  while (begin && o->at[begin - 1] != '\n') begin--;
  end = begin;
  for (size_t lines = 1 + draw(m, 6); lines && end < o->len; lines -= o->at[end - 1] == '\n') end++;
  Stretch at = any_line(m);
  replace(m, at.begin, at.begin, o->at + begin, end - begin);
}

static void change_byte(Mutator *m) {
  char byte = (char)draw(m, 256);
  size_t at = draw(m, m->now.len);
  replace(m, at, at + 1, &byte, 1);
}

const char *mutator_next(Mutator *m, size_t *length) {
  const Text *from = &m->files[draw(m, (size_t)m->n_files)];
  m->now.len = 0;
  text_add_n(&m->now, from->at, from->len < LONGEST ? from->len : LONGEST);
  for (size_t n = 1 + draw(m, 3); n && m->now.len; n--) {
    cut(m);
    switch (draw(m, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
      other_token(m, T_name);
      break;
    case 4:
    case 5:
    case 6:
      other_number(m);
      break;
    case 7:
    case 8:
      change_line(m);
      break;
    case 9:
    case 10:
      change_brackets(m);
      break;
    case 11:
      drop_or_repeat_token(m);
      break;
    case 12:
      nest(m);
      break;
    case 13:
      other_token(m, draw(m, 2) ? T_mark : T_text);
      break;
    case 14:
      borrow(m);
      break;
    default:
      change_byte(m);
    }
  }
  *length = m->now.len;
  return m->now.at;
}
