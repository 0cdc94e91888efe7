/* Says what is wrong at a token that the grammar does not accept: first the mistakes that people make
   out of habit from other languages, then what could have stood there. */
#include "parser.h"
#include "text.h"
#include "ddp.tab.h"

/* The place of an error as the messages see it. */
typedef struct Mistake {
  Parse *p;
  const char *const *expected;
  int n;
  uint32_t at, before, after; /* tokens: the unexpected one and its neighbours */
  const Token *token, *prev;
} Mistake;

static bool expects(const Mistake *m, const char *name) {
  for (int i = 0; i < m->n; i++)
    if (strcmp(m->expected[i], name) == 0) return true;
  return false;
}

static bool value_expected(const Mistake *m) {
  return expects(m, "an integer") && expects(m, "a text");
}
static bool operand_complete(const Mistake *m) {
  return expects(m, "+");
}

static bool is_comparison(int kind) {
  return kind == T_LT || kind == T_GT || kind == T_LE || kind == T_GE || kind == T_EQ ||
         kind == T_NE;
}

/* The token as messages show it, in scratch memory. */
static const char *shown(const Mistake *m, uint32_t token) {
  enum { LONGEST = 32 };
  const Token *t = &m->p->tokens.at[token];
  if (t->kind == T_END) return "end of the text";
  uint32_t n = t->end - t->begin;
  const char *s = m->p->text + t->begin;
  if (n <= LONGEST) return arena_printf(m->p->scratch, "`%.*s`", (int)n, s);
  n = LONGEST;
  while (n && ((unsigned char)s[n] & 0xc0) == 0x80) n--;
  return arena_printf(m->p->scratch, "`%.*s...`", (int)n, s);
}

static bool spelled(const Mistake *m, uint32_t token, const char *word) {
  const Token *t = &m->p->tokens.at[token];
  size_t n = strlen(word);
  return t->end - t->begin == n && memcmp(m->p->text + t->begin, word, n) == 0;
}

/* ---------- habits from elsewhere: each true when it reported ---------- */
static bool says_edition(const Mistake *m) {
  if (m->token->kind != T_EDITION) return false;
  Span at = token_span(m->p, m->at);
  if (parse_report(m->p, DIAG_E0202, at, "`edition` must stand before everything else"))
    diag_help("move it to the first line, once");
  return true;
}

static bool says_percent(const Mistake *m) {
  bool here = m->token->kind == T_PERCENT;
  if (!here && m->prev->kind != T_PERCENT) return false;
  uint32_t at = here ? m->at : m->before;
  const Token *t = &m->p->tokens.at[at];
  int digits = (int)(t->end - t->begin) - 1;
  bool told = parse_report(m->p, DIAG_E0107, token_span(m->p, at), "percentage outside a slice");
  if (told)
    diag_help("as a number: %.*s / 100; the remainder of two numbers: `a %% b`", digits,
              m->p->text + t->begin);
  return true;
}

static bool says_colon(const Mistake *m) {
  if (m->token->kind != T_COLON || !expects(m, "=")) return false;
  bool told = parse_report(m->p, DIAG_E0212, token_span(m->p, m->at), "`:` where `=` belongs");
  if (told)
    diag_help("write %s",
              arena_printf(m->p->scratch, "`%.*s = ...`", (int)(m->prev->end - m->prev->begin),
                           m->p->text + m->prev->begin));
  return true;
}

/* Whether an `else` follows in the same brackets, or on the same line outside of them. */
static bool else_follows(const Parse *p, uint32_t token) {
  const Token *open = &p->tokens.at[token];
  for (uint32_t i = token + 1; p->tokens.at[i].kind != T_END; i++) {
    const Token *t = &p->tokens.at[i];
    if (t->first && open->parent == NO_TOKEN) return false;
    if (t->mate != NO_TOKEN && t->mate == open->parent) return false;
    if (t->kind == T_ELSE && t->parent == open->parent) return true;
    if (t->mate != NO_TOKEN && t->mate > i) i = t->mate;
  }
  return false;
}

/* `a if c else b`: found at the `if` where no statement can begin, else at the `else`. */
static bool says_choice(const Mistake *m) {
  uint32_t at = m->at;
  if (m->token->kind == T_ELSE) {
    while (at > 1 && m->p->tokens.at[at].kind != T_IF && !m->p->tokens.at[at].first) at--;
  } else if (m->token->kind == T_THEN) {
    return false;
  }
  const Token *t = &m->p->tokens.at[at];
  if (t->kind != T_IF || t->first || !else_follows(m->p, at)) return false;
  if (!token_ends_operand(m->p->tokens.at[token_before(m->p, at)].kind)) return false;
  bool told = parse_report(m->p, DIAG_E0206, token_span(m->p, at), "`if` after the value");
  if (told) diag_help("write `if c then a else b` for `a if c else b`");
  return true;
}

static bool says_chain(const Mistake *m) {
  int k = m->token->kind;
  if (!is_comparison(k) && k != T_RANGE) return false;
  if (!expects(m, "and") || expects(m, shown(m, m->at))) return false;
  const char *what = k == T_RANGE ? "ranges do not chain" : "comparisons do not chain";
  if (parse_report(m->p, DIAG_E0210, token_span(m->p, m->at), "%s", what))
    diag_help(k == T_RANGE ? "a range has two ends: `0..n`" : "write `a < b and b < c`");
  return true;
}

static bool says_separator(const Mistake *m) {
  const Token *t = m->token;
  if (t->kind != T_COMMA || !token_ends_operand(m->prev->kind)) return false;
  bool in_block = t->parent == NO_TOKEN || m->p->tokens.at[t->parent].kind == T_LBRACE;
  if (!in_block || expects(m, "=")) return false;
  bool told = parse_report(m->p, DIAG_E0208, token_span(m->p, m->at), "`,` between statements");
  if (told) diag_help("statements need no separator; delete the `,`");
  return true;
}

static bool says_reserved(const Mistake *m) {
  WordClass class = token_word_class(m->token->kind);
  WordClass class_before = token_word_class(m->prev->kind);
  int k = m->token->kind, next = m->p->tokens.at[m->after].kind;
  bool names = next == T_ASSIGN || next == T_COLON || next == T_LPAREN;
  uint32_t at = m->at;
  if ((k == T_ASSIGN || k == T_COLON) && m->prev->first &&
      (class_before == WORD_reserved || class_before == WORD_verb) && m->prev->kind != T_RETURN) {
    at = m->before; /* `init = 3` as a line of its own */
  } else if (class == WORD_verb || class == WORD_reserved) {
    bool wanted = expects(m, "a name") && (names || !m->token->first);
    if (!wanted) return false;
  } else {
    return false;
  }
  const char *word = shown(m, at);
  if (parse_report(m->p, DIAG_E0205, token_span(m->p, at), "%s is a reserved word", word)) {
    if (token_word_class(m->p->tokens.at[at].kind) == WORD_verb)
      diag_help("it is a name only after a dot and as a key; choose another name");
    else
      diag_help("choose another name");
  }
  return true;
}

/* ---------- what could have stood here ---------- */
typedef struct Phrases {
  Text text;
  const char *items[8];
  int n;
} Phrases;

static void phrase(Phrases *f, const char *item) {
  if (f->n < 8) f->items[f->n++] = item;
}

static void phrases_of_tokens(const Mistake *m, Phrases *f) {
  static const char *const marks[] = {")",  "]",   "}",      ",",       ":",     "=",    "->",
                                      "(",  "[",   "{",      ".",       "then",  "else", "in",
                                      "as", "for", "except", "extends", "kernel"};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    bool name_too = expects(m, "a name") && strcmp(marks[i], "extends") == 0;
    if (!expects(m, marks[i]) || name_too) continue;
    if (operand_complete(m) && strchr("([.", marks[i][0])) continue; /* as good as operators */
    phrase(f, arena_printf(m->p->scratch, "`%s`", marks[i]));
  }
}

/* What a list of lines holds at this place; NULL when the place is none between two lines. */
static const char *expected_line(const Mistake *m) {
  bool name = expects(m, "a name");
  if (expects(m, "import")) return "a declaration";
  if (expects(m, "return") && name) return "a statement";
  if (expects(m, "@kernel") && name) return "a member";
  if (expects(m, "load") && expects(m, "for") && !name) return "a statement of the model block";
  if (expects(m, "let") && !name) return "`let`, `field`, `split`, `transform`";
  if (expects(m, "metric") && expects(m, "}") && name) return "a line";
  return NULL;
}

static void phrases_of_place(const Mistake *m, Phrases *f) {
  bool name = expects(m, "a name");
  const char *line = expected_line(m);
  if (operand_complete(m)) {
    bool in_block =
        m->token->parent == NO_TOKEN || m->p->tokens.at[m->token->parent].kind == T_LBRACE;
    if (line && in_block && m->token->first) {
      phrase(f, line);
      if (expects(m, "}")) phrase(f, "`}`");
    } else if (line && in_block) {
      phrase(f, "an operator");
      phrase(f, "a new line");
    } else {
      phrases_of_tokens(m, f);
    }
  } else if (value_expected(m)) {
    phrase(f, "a value");
    if (expects(m, ")")) phrase(f, "`)`");
    if (expects(m, "]")) phrase(f, "`]`");
  } else if (line) {
    phrase(f, line);
    if (expects(m, "}")) phrase(f, "`}`");
  } else {
    if (expects(m, "forward") && !name)
      phrase(f, "`forward`, `update`");
    else if (expects(m, "def") && !name)
      phrase(f, "`def`, `optimizer`");
    else if (expects(m, "module") && name)
      phrase(f, "a type");
    else if (name)
      phrase(f, "a name");
    if (expects(m, "a text")) phrase(f, "a text");
    if (expects(m, "an integer")) phrase(f, "an integer");
    phrases_of_tokens(m, f);
  }
}

static const char *expected_phrases(const Mistake *m) {
  Phrases f = {0};
  phrases_of_place(m, &f);
  for (int i = 0; i < f.n; i++) {
    if (i) text_add(&f.text, i == f.n - 1 ? " or " : ", ");
    text_add(&f.text, f.items[i]);
  }
  const char *all = arena_strdup(m->p->scratch, f.n ? f.text.at : "something else");
  text_free(&f.text);
  return all;
}

/* Words of other languages, where they stand at or before the mistake. */
static void help_with_word(const Mistake *m) {
  static const struct {
    const char *word, *help;
  } words[] = {
      {"elif", "`elif` is written `else { if ... { ... } }`"},
      {"while", "loops run over ranges, lists and tensors: `for i in 0..n { ... }`"},
      {"class", "a layer is a `module`: `module NAME(formals) { ... }`"},
      {"function", "a function is `def f(x: [...]) -> [...] { return ... }`"},
      {"fn", "a function is `def f(x: [...]) -> [...] { return ... }`"},
      {"func", "a function is `def f(x: [...]) -> [...] { return ... }`"},
      {"lambda", "functions have names: `def f(x: [...]) = ...`"},
      {"from", "imports name a file: `import \"file.ddp\" as name`"},
      {"let", "a local is made by assignment, a constant by `const`"},
      {"var", "a local is made by assignment, a constant by `const`"},
  };
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (!spelled(m, m->before, words[i].word) && !spelled(m, m->at, words[i].word)) continue;
    diag_help("%s", words[i].help);
    return;
  }
}

/* `num-train-epochs = 3`: the name with underscores, NULL where no such key stands. */
static const char *hyphened_key(const Mistake *m) {
  const Token *t = m->token, *last = m->prev;
  Text name = {0};
  if (t->kind != T_MINUS || !m->prev->first || !expects(m, "=")) return NULL;
  text_add_n(&name, m->p->text + last->begin, last->end - last->begin);
  while (t->kind == T_MINUS && t->begin == last->end && token_is_word(t[1].kind) &&
         t[1].begin == t->end) {
    last = t + 1;
    text_addf(&name, "_%.*s", (int)(last->end - last->begin), m->p->text + last->begin);
    t = last + 1;
  }
  const char *key = t->kind == T_ASSIGN ? arena_strdup(m->p->scratch, name.at) : NULL;
  text_free(&name);
  return key;
}

static void help(const Mistake *m) {
  const char *key = hyphened_key(m);
  int k = m->token->kind, before = m->prev->kind;
  bool touches = m->prev->end == m->token->begin;
  if (key) {
    diag_help("names have underscores: write `%s = ...`", key);
  } else if (before == T_ELSE && k == T_IF) {
    diag_help("`else if` is written `else { if ... { ... } }`");
  } else if (k == T_IF && expects(m, "]")) {
    diag_help("a list takes every item; choose with `where`, or with a slice");
  } else if (k == T_ASSIGN && touches && before >= T_PLUS && before <= T_MATMUL) {
    diag_help("there are no assignments of this kind: write `x = x + ...`");
  } else if (m->token->first && (k == T_FLOORDIV || k == T_DIVIDE)) {
    diag_help("comments begin with `#`");
  } else if (k == T_ASSIGN && (before == T_PARAM || before == T_BUFFER)) {
    diag_help("a leaf declares its type: `weight: param [OUT, IN] = zeros()`");
  } else if (m->n == 1 && expects(m, ":") && token_is_word(before)) {
    diag_help("declare its type: `%.*s: [B, N]`, `%.*s: int`", (int)(m->prev->end - m->prev->begin),
              m->p->text + m->prev->begin, (int)(m->prev->end - m->prev->begin),
              m->p->text + m->prev->begin);
  } else if (expects(m, "import") && token_is_word(k) &&
             m->p->tokens.at[m->after].kind == T_ASSIGN) {
    diag_help("a value of the file is `const NAME = ...`, or `param NAME: int = ...`");
  } else if (value_expected(m) && k == T_STRING) {
    diag_help("texts do not join by standing beside each other");
  } else {
    help_with_word(m);
  }
}

/* The bracket that has to be closed, where the line before it does not show it. */
static void note_opening(const Mistake *m) {
  if (m->token->parent == NO_TOKEN || !m->token->first) return;
  const Token *open = &m->p->tokens.at[m->token->parent];
  bool closes = open->kind == T_LPAREN ? expects(m, ")") : expects(m, "]");
  if (open->kind != T_LBRACE && closes)
    diag_note(token_span(m->p, m->token->parent), "opened here");
}

static bool waits_for_value(int kind) {
  switch (kind) {
  case T_ASSIGN:
  case T_COMMA:
  case T_RANGE:
  case T_AND:
  case T_OR:
  case T_NOT:
  case T_THEN:
  case T_ELSE:
  case T_IN:
    return true;
  default:
    return is_comparison(kind) || (kind >= T_PLUS && kind <= T_MATMUL);
  }
}

static void says_plainly(const Mistake *m) {
  Parse *p = m->p;
  uint32_t two_before = token_before(p, m->before);
  bool cut_short = m->token->kind == T_ASSIGN && m->prev->first && token_is_word(m->prev->kind) &&
                   waits_for_value(p->tokens.at[two_before].kind);
  const char *wanted = cut_short ? "a value" : expected_phrases(m);
  bool told;
  if (cut_short) { /* `x = a +` and on the next line `y = ...` */
    told = parse_report(p, DIAG_E0201, token_span(p, two_before), "expected a value after %s",
                        shown(m, two_before));
  } else if ((m->token->first || m->token->kind == T_END) && m->before > 0 && !expected_line(m)) {
    told = parse_report(p, DIAG_E0201, token_span(p, m->before), "expected %s after %s, not %s",
                        wanted, shown(m, m->before), shown(m, m->at));
  } else {
    told = parse_report(p, DIAG_E0201, token_span(p, m->at), "unexpected %s: expected %s here",
                        shown(m, m->at), wanted);
  }
  if (!told || cut_short) return;
  note_opening(m);
  help(m);
}

void parse_unexpected(Parse *p, const char *const *expected, int n) {
  p->failed = true;
  Mistake m = {.p = p,
               .expected = expected,
               .n = n,
               .at = p->last,
               .before = token_before(p, p->last),
               .after = token_after(p, p->last)};
  m.token = &p->tokens.at[m.at];
  m.prev = &p->tokens.at[m.before];
  /* a missing bracket or a faulty character is reported already */
  if (m.token->inserted || m.prev->inserted || m.token->after_gap) return;
  bool done = says_edition(&m) || says_percent(&m) || says_colon(&m) || says_choice(&m) ||
              says_chain(&m) || says_separator(&m) || says_reserved(&m);
  if (!done) says_plainly(&m);
}

void parse_too_deep(Parse *p, Span at) {
  bool before = p->too_deep;
  p->too_deep = p->failed = true;
  if (before) return; /* once: the levels above would all say it again */
  if (parse_report(p, DIAG_E0201, at, "nested too deeply"))
    diag_help("give the inner parts names of their own");
}
