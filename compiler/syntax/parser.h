/* State of one parse, shared by the scanner (grammar/ddp.l), the tokens, the parser (grammar/ddp.y),
   its error messages and the constructors of the tree. Private to this folder. */
#ifndef SYNTAX_PARSER_H
#define SYNTAX_PARSER_H
#include "ast.h"
#include "diag.h"
#include "vec.h"

enum {
  SOURCE_MAX = 16 << 20, /* bytes of a file */
  NESTING_MAX = 256,     /* brackets in brackets */
  REPORTS_MAX = 100,     /* diagnostics of one file; what follows is mostly noise */
};
#define NO_TOKEN UINT32_MAX /* no enumerator: those are int */

typedef struct Token {
  uint16_t kind;       /* T_... of the grammar */
  bool first;          /* first on its line */
  bool skip;           /* reported and left out of the parse */
  bool inserted;       /* a closing bracket that the text lacks */
  bool after_gap;      /* a faulty character before it was dropped */
  uint32_t begin, end; /* byte offsets */
  uint32_t indent;     /* bytes before the first token of its line */
  uint32_t mate;       /* bracket: its partner; else NO_TOKEN */
  uint32_t parent;     /* innermost bracket that is open before it, or NO_TOKEN */
} Token;
typedef struct TokenVec { /* malloc'ed: it is the largest list of a parse, and goes first */
  Token *at;
  uint32_t len, cap;
} TokenVec;
void tokens_push(TokenVec *list, Token t);
void tokens_free(TokenVec *list);

typedef struct Parse {
  Arena *arena;   /* of the tree */
  Arena *scratch; /* of what lives no longer than the parse */
  uint32_t source;
  const char *text;
  uint32_t length;
  AstFile *file;
  Expr *expression;
  bool failed;      /* an error was found */
  bool too_deep;    /* and among them that one */
  unsigned reports; /* diagnostics issued */

  /* scanner: the token just read, and its line */
  uint32_t begin, end, line_begin, line_indent;
  bool line_has_token, dropped_character;
  VEC(Comment) comments;

  /* parser */
  TokenVec tokens;  /* [0] is T_START_..., the last T_END */
  uint32_t next;    /* index of the token to be read next */
  uint32_t last;    /* index of the token read last */
  uint32_t resumed; /* token at which recovery went on last */
} Parse;

/* Reports once it is sure that the file is not drowned in messages; true when reported, so that
   notes and help may follow. Any error makes the parse fail, reported or not. */
bool parse_report(Parse *p, DiagCode code, Span at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
Span parse_span(const Parse *p, uint32_t begin, uint32_t end);
Span token_span(const Parse *p, uint32_t token);

/* ---------- scanner to tokens: token.c, called by ddp.l ---------- */
void scan_tokens(Parse *p, const char *text, size_t length);
void scan_advance(Parse *p, uint32_t bytes);
void scan_retreat(Parse *p, uint32_t bytes);
void scan_line_end(Parse *p);
void scan_comment(Parse *p);
void scan_token(Parse *p, int kind);
int scan_word(Parse *p);
int scan_bad_number(Parse *p);
int scan_open_text(Parse *p);
int scan_single_quotes(Parse *p);
int scan_attribute(Parse *p);
int scan_foreign_operator(Parse *p);
void scan_bad_character(Parse *p);

typedef enum WordClass { WORD_none, WORD_reserved, WORD_verb, WORD_opener } WordClass;
/* How the grammar treats a token of this kind; WORD_none: no keyword. */
WordClass token_word_class(int kind);
bool token_is_word(int kind); /* a name wherever a name is expected */
bool token_ends_operand(int kind);
bool token_opens_declaration(const Parse *p, uint32_t token);
/* The tokens beside this one that take part in the parse; the first and last token end the search. */
uint32_t token_before(const Parse *p, uint32_t token);
uint32_t token_after(const Parse *p, uint32_t token);

/* Reads the text into p->tokens: first token, tokens, T_END, with brackets in pairs. False when
   nothing can be parsed. */
bool tokens_read(Parse *p, int first);

/* ---------- bracket.c ---------- */
/* Sets `mate` and `parent` of all tokens; first inserts and drops brackets when they do not come in pairs. */
bool brackets_pair(Parse *p);

/* ---------- the parser's side: resume.c, unexpected.c ---------- */
/* Kind and place of the next token. */
int parse_next(Parse *p, Span *place);
/* Reports the token read last, where only the named ones can stand. */
void parse_unexpected(Parse *p, const char *const *expected, int n);
void parse_too_deep(Parse *p, Span at);
/* Skips to where the innermost block can go on after the error at the token read last. False when
   the end of the text was reached before. */
bool parse_resume(Parse *p);

/* ---------- literal.c: values of spellings ---------- */
int64_t literal_int(Parse *p, Span at);
double literal_float(Parse *p, Span at);
/* Unescaped, in p->arena. */
char *literal_text(Parse *p, Span at, uint32_t *length);
#endif
