/* From the bytes of a source to tokens that the parser can trust: UTF-8 checked, the edition in
   front, percentages told from remainders, separators dropped, brackets in pairs. */
#include "parser.h"
#include "ddp.tab.h"
#include "die.h"
#include <stdlib.h>

void tokens_push(TokenVec *list, Token t) {
  if (list->len == list->cap) {
    list->cap = list->cap ? list->cap * 2 : 256;
    list->at = realloc(list->at, sizeof(Token) * list->cap);
    check(list->at, "out of memory (%u tokens)", list->cap);
  }
  list->at[list->len++] = t;
}

void tokens_free(TokenVec *list) {
  free(list->at);
  *list = (TokenVec){0};
}

Span token_span(const Parse *p, uint32_t token) {
  const Token *t = &p->tokens.at[token];
  return parse_span(p, t->begin, t->end);
}

uint32_t token_before(const Parse *p, uint32_t token) {
  while (token > 0 && p->tokens.at[--token].skip) continue;
  return token;
}

uint32_t token_after(const Parse *p, uint32_t token) {
  while (token + 1 < p->tokens.len && p->tokens.at[++token].skip) continue;
  return token;
}

/* Length of the UTF-8 character at s, 0 when there is none (overlong forms and surrogates too). */
static uint32_t utf8_length(const unsigned char *s, uint32_t left) {
  if (s[0] < 0x80) return 1;
  uint32_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4 || n > left) return 0;
  for (uint32_t i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if (s[0] == 0xe0 && s[1] < 0xa0) return 0;
  if (s[0] == 0xed && s[1] > 0x9f) return 0;
  if (s[0] == 0xf0 && s[1] < 0x90) return 0;
  if (s[0] == 0xf4 && s[1] > 0x8f) return 0;
  return n;
}

/* One report for a run of bytes that are no characters. */
static void check_utf8(Parse *p) {
  const unsigned char *s = (const unsigned char *)p->text;
  for (uint32_t i = 0; i < p->length;) {
    uint32_t n = utf8_length(s + i, p->length - i);
    if (n) {
      i += n;
      continue;
    }
    uint32_t begin = i;
    while (i < p->length && !utf8_length(s + i, p->length - i)) i++;
    if (parse_report(p, DIAG_E0104, parse_span(p, begin, i), "byte 0x%02x is not UTF-8", s[begin]))
      diag_help("save the file as UTF-8");
  }
}

/* `80%` before `:` or `]` is a bound of a slice. Where no operand follows it is meant as one, too;
   the grammar then refuses it at this place. */
static void join_percentages(Parse *p) {
  for (uint32_t i = 0; i + 2 < p->tokens.len; i++) {
    Token *number = &p->tokens.at[i], *sign = number + 1;
    if (number->kind != T_INT && number->kind != T_FLOAT) continue;
    if (sign->kind != T_MOD || sign->begin != number->end) continue;
    const Token *after = sign + 1;
    int k = after->kind;
    bool closed = k == T_COLON || k == T_RBRACKET || k == T_RPAREN || k == T_RBRACE ||
                  k == T_COMMA || k == T_END || after->first;
    if (!closed) continue;
    number->kind = T_PERCENT;
    number->end = sign->end;
    sign->skip = true;
  }
}

/* A `;` between statements is reported and left out. */
static void drop_semicolons(Parse *p) {
  for (uint32_t i = 0; i < p->tokens.len; i++) {
    Token *t = &p->tokens.at[i];
    if (t->kind != T_SEMICOLON) continue;
    if (t->parent != NO_TOKEN && p->tokens.at[t->parent].kind != T_LBRACE) continue;
    t->skip = true;
    if (parse_report(p, DIAG_E0208, token_span(p, i), "`;` between statements"))
      diag_help("statements need no separator; delete the `;`");
  }
}

static bool continues_line(int kind) {
  switch (kind) {
  case T_PLUS:
  case T_MINUS:
  case T_TIMES:
  case T_DIVIDE:
  case T_FLOORDIV:
  case T_MOD:
  case T_POW:
  case T_MATMUL:
  case T_EQ:
  case T_NE:
  case T_LE:
  case T_GE:
  case T_LT:
  case T_GT:
  case T_RANGE:
  case T_DOT:
  case T_LPAREN:
  case T_LBRACKET:
    return true;
  default:
    return false;
  }
}

/* W0214: a line that starts with an operator and is not indented more than the line that it
   continues. Inside `(` and `[` nobody takes a line for a statement. */
static void warn_continued_lines(Parse *p) {
  uint32_t anchor = 0; /* indentation of the line that began the statement */
  for (uint32_t i = 1; i < p->tokens.len; i++) {
    const Token *t = &p->tokens.at[i], *before = t - 1;
    bool inside = t->parent != NO_TOKEN && p->tokens.at[t->parent].kind != T_LBRACE;
    if (!t->first || inside) continue;
    bool operand = token_ends_operand(before->kind) && before->kind != T_RBRACE;
    if (!continues_line(t->kind) || !operand) {
      anchor = t->indent;
      continue;
    }
    if (t->indent > anchor) continue;
    bool told = parse_report(p, DIAG_W0214, token_span(p, i),
                             "this line continues the expression of the line above");
    if (told) diag_help("move the operator to the end of that line, or indent this one");
  }
}

/* Whether the text begins with an edition that this compiler does not know: then nothing else of it
   can be judged, not even its tokens. */
static bool other_edition(Parse *p) {
  const char *s = p->text;
  for (;;) { /* blanks and comments */
    s += strspn(s, " \t\r\n");
    if (*s != '#') break;
    s += strcspn(s, "\n");
  }
  size_t blank = strncmp(s, "edition", 7) == 0 ? strspn(s + 7, " \t\r\n") : 0;
  if (!blank) return false;
  s += 7 + blank;
  size_t digits = strspn(s, "0123456789");
  if (!digits || s[digits] == '.' || (digits == 1 && *s == '1')) return false;
  uint32_t begin = (uint32_t)(s - p->text);
  bool told = parse_report(p, DIAG_E0203, parse_span(p, begin, begin + (uint32_t)digits),
                           "unknown edition %.*s", (int)digits, s);
  if (told) diag_help("this compiler knows edition 1");
  return true;
}

/* Makes `edition N` the first tokens after T_START_FILE, whatever the text begins with. */
static void settle_edition(Parse *p) {
  const Token *t = p->tokens.at + 1;
  bool word = t[0].kind == T_EDITION;
  if (word && t[1].kind == T_INT) return;
  bool told = word ? parse_report(p, DIAG_E0201, token_span(p, 1), "`edition` without its number")
                   : parse_report(p, DIAG_E0202, token_span(p, 1), "`edition` is missing");
  if (told) diag_help("the first line of a file is `edition 1`");
  TokenVec all = {0};
  tokens_push(&all, p->tokens.at[0]);
  Token made = {.first = true, .inserted = true, .mate = NO_TOKEN, .parent = NO_TOKEN};
  made.begin = made.end = t[0].begin;
  made.kind = T_EDITION;
  tokens_push(&all, made);
  made.kind = T_INT;
  made.first = false;
  tokens_push(&all, made);
  for (uint32_t i = word ? 2 : 1; i < p->tokens.len; i++) {
    tokens_push(&all, p->tokens.at[i]);
  }
  tokens_free(&p->tokens);
  p->tokens = all;
}

bool tokens_read(Parse *p, int first) {
  if (p->length > SOURCE_MAX) {
    if (parse_report(p, DIAG_E0110, parse_span(p, 0, 0), "the file has %u bytes", p->length))
      diag_help("data belongs in a data file that a `dataset` reads");
    return false;
  }
  if (first == T_START_FILE && other_edition(p)) return false;
  check_utf8(p);
  scan_token(p, first);
  p->line_has_token = false;
  scan_tokens(p, p->text, p->length);
  p->begin = p->end = p->length;
  scan_token(p, T_END);
  if (first == T_START_FILE) settle_edition(p);
  join_percentages(p);
  if (!brackets_pair(p)) return false;
  drop_semicolons(p);
  warn_continued_lines(p);
  return true;
}
