/* What the scanner does with a piece of text that needs more than a token kind: words, comments, and
   everything that is no token of the language. */
#include "parser.h"
#include "ddp.tab.h"

typedef struct Keyword {
  const char *text;
  uint8_t length;
  WordClass class;
  int kind;
} Keyword;

static const Keyword keywords[] = {
#define KEYWORD(text, token, class) {text, sizeof(text) - 1, WORD_##class, T_##token},
#include "keywords.def"
};
enum { KEYWORDS = sizeof keywords / sizeof *keywords };

WordClass token_word_class(int kind) {
  for (int i = 0; i < KEYWORDS; i++)
    if (keywords[i].kind == kind) return keywords[i].class;
  return WORD_none;
}

bool token_is_word(int kind) {
  return kind == T_IDENT || kind == T_INDEXED || token_word_class(kind) == WORD_opener;
}

bool token_ends_operand(int kind) {
  switch (kind) {
  case T_INT:
  case T_FLOAT:
  case T_PERCENT:
  case T_STRING:
  case T_TRUE:
  case T_FALSE:
  case T_NONE:
  case T_RPAREN:
  case T_RBRACKET:
  case T_RBRACE:
    return true;
  default:
    return token_is_word(kind);
  }
}

/* ---------- places ---------- */
Span parse_span(const Parse *p, uint32_t begin, uint32_t end) {
  return (Span){p->source, begin, end};
}

static Span scan_span(const Parse *p) {
  return parse_span(p, p->begin, p->end);
}

void scan_advance(Parse *p, uint32_t bytes) {
  p->begin = p->end;
  p->end += bytes;
}

void scan_retreat(Parse *p, uint32_t bytes) {
  p->end -= bytes;
}

void scan_line_end(Parse *p) {
  p->line_begin = p->end;
  p->line_has_token = false;
}

void scan_token(Parse *p, int kind) {
  if (!p->line_has_token) p->line_indent = p->begin - p->line_begin;
  Token t = {.kind = (uint16_t)kind,
             .first = !p->line_has_token,
             .begin = p->begin,
             .end = p->end,
             .indent = p->line_indent,
             .after_gap = p->dropped_character,
             .mate = NO_TOKEN,
             .parent = NO_TOKEN};
  p->line_has_token = true;
  p->dropped_character = false;
  tokens_push(&p->tokens, t);
}

void scan_comment(Parse *p) {
  uint32_t end = p->end;
  while (end > p->begin && (p->text[end - 1] == '\r' || p->text[end - 1] == ' ')) end--;
  Comment c = {parse_span(p, p->begin, end), p->line_has_token};
  vec_push(p->arena, &p->comments, c);
}

/* ---------- tokens ---------- */
int scan_word(Parse *p) {
  const char *s = p->text + p->begin;
  uint32_t n = p->end - p->begin;
  for (int i = 0; i < KEYWORDS; i++)
    if (keywords[i].length == n && memcmp(keywords[i].text, s, n) == 0) return keywords[i].kind;
  return T_IDENT;
}

/* "30min", "1__0", ".5", "1.", "0x", "1e+": given out as a float so that the parse goes on. */
int scan_bad_number(Parse *p) {
  const char *s = p->text + p->begin;
  int n = (int)(p->end - p->begin);
  int digits = 0;
  while (digits < n && ((s[digits] >= '0' && s[digits] <= '9') || s[digits] == '.')) digits++;
  bool unit = digits > 0 && digits < n;
  for (int i = digits; i < n && unit; i++) unit = s[i] >= 'A' && s[i] != '_';
  bool hex = n >= 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
  bool exponent = digits < n && (s[digits] == 'e' || s[digits] == 'E') && n == digits + 1;
  if (unit && !hex && !exponent) {
    if (parse_report(p, DIAG_E0516, scan_span(p), "`%.*s` is not a number", n, s))
      diag_help("numbers have no unit, and names do not begin with a digit");
  } else if (parse_report(p, DIAG_E0106, scan_span(p), "misshapen number `%.*s`", n, s)) {
    if (s[0] == '.') diag_help("write `0%.*s`", n, s);
    if (s[n - 1] == '.') diag_help("write `%.*s0`", n, s);
  }
  return T_FLOAT;
}

int scan_open_text(Parse *p) {
  if (parse_report(p, DIAG_E0102, scan_span(p), "text is not closed on its line"))
    diag_help("add the closing `\"`; a line end inside a text is written `\\n`");
  return T_STRING;
}

int scan_single_quotes(Parse *p) {
  int n = (int)(p->end - p->begin);
  if (parse_report(p, DIAG_E0101, parse_span(p, p->begin, p->begin + 1),
                   "unexpected character `'`"))
    diag_help("texts are written in double quotes: `\"%.*s\"`", n - 2, p->text + p->begin + 1);
  return T_STRING;
}

int scan_attribute(Parse *p) {
  const char *s = p->text + p->begin;
  int n = (int)(p->end - p->begin);
  const Token *last = p->tokens.len ? &p->tokens.at[p->tokens.len - 1] : NULL;
  if (p->line_has_token && last && token_ends_operand(last->kind)) {
    if (parse_report(p, DIAG_E0108, scan_span(p), "`@` needs a blank before a name"))
      diag_help("the matrix product is written `a @ %.*s`", n - 1, s + 1);
    return T_MATMUL;
  }
  if (n != 7 || memcmp(s, "@kernel", 7) != 0) {
    if (parse_report(p, DIAG_E0108, scan_span(p), "unknown attribute `%.*s`", n, s))
      diag_help("the only attribute is `@kernel(\"name\")`");
  }
  return T_AT_KERNEL;
}

/* `&&`, `||` and `!` of other languages are given out as the words that they mean. */
int scan_foreign_operator(Parse *p) {
  char c = p->text[p->begin];
  const char *word = c == '&' ? "and" : c == '|' ? "or" : "not";
  int n = (int)(p->end - p->begin);
  bool told =
      parse_report(p, DIAG_E0101, scan_span(p), "unknown operator `%.*s`", n, p->text + p->begin);
  if (told) diag_help("write `%s`", word);
  return c == '&' ? T_AND : c == '|' ? T_OR : T_NOT;
}

void scan_bad_character(Parse *p) {
  const unsigned char *s = (const unsigned char *)p->text + p->begin;
  uint32_t n = p->end - p->begin;
  p->dropped_character = true;
  if (n == 1 && s[0] >= 0x80) return; /* a byte that is not UTF-8: reported by tokens_read */
  bool told;
  if (n == 1 && (s[0] < 0x20 || s[0] == 0x7f))
    told = parse_report(p, DIAG_E0101, scan_span(p), "unexpected control character 0x%02x", s[0]);
  else
    told = parse_report(p, DIAG_E0101, scan_span(p), "unexpected character `%.*s`", (int)n, s);
  if (!told) return;
  bool quote = n == 3 && s[0] == 0xe2 && s[1] == 0x80 && s[2] >= 0x98 && s[2] <= 0x9f;
  if (quote) diag_help("texts are written in plain double quotes: `\"data.csv\"`");
  if (s[0] == '\'') diag_help("texts are written in double quotes");
  if (s[0] == '$') diag_help("values are expressions; there is no text substitution");
}
