/* Shared by the files that write one kind of thing each: where a comment goes, how a list breaks.
   Private to this folder.

   A comment goes to the next item that begins behind it: a line of a block, an item of a list, an operand,
   a branch. There a line can end before it. It trails the line before if it trailed one in the source. */
#ifndef FORMAT_LAYOUT_H
#define FORMAT_LAYOUT_H
#include "ast.h"
#include "doc.h"

typedef struct Layout {
  Doc doc;
  const AstFile *file;
  const char *text; /* of the source */
  uint32_t length;
  uint32_t comment; /* the next one to be placed */
} Layout;

/* ---------- places in the source: place.c ---------- */
/* The first byte at or behind `at`, or the one behind the last byte before `at`, that is neither blank nor
   comment. */
uint32_t code_after(const Layout *l, uint32_t at);
uint32_t code_before(const Layout *l, uint32_t at);
/* Whether an empty line stands directly before `at`. */
bool blank_before(const Layout *l, uint32_t at);
bool on_one_line(const Layout *l, uint32_t begin, uint32_t end);
/* Where a block closes whose last item, or what stands before its `{`, ends at `last`. */
uint32_t block_end(const Layout *l, uint32_t last);
/* Whether a comment that has not been placed begins before `at`. */
bool comment_before(const Layout *l, uint32_t at);

/* ---------- items and comments: place.c ---------- */
typedef struct Item {
  uint32_t begin;
  uint32_t
      until;  /* comments up to here go before it; those behind `begin` get lines of their own */
  bool first; /* of its list or block: no empty line before it */
  bool blank; /* an empty line before it whatever the source has */
  bool close; /* none, unless a comment stands between */
} Item;
/* After a line end: comments and empty lines before an item. */
void put_item(Layout *l, Item item);
/* The same for a part of an expression, which no empty line parts from the rest. */
void put_part(Layout *l, uint32_t begin);
/* The same for comments that stand before the bracket at `close`; the line end is put as well. */
void put_rest(Layout *l, uint32_t close, bool first);

/* Comments above `edition N`, whose text ends at `end`, go below it; one behind it stays there. */
void put_head(Layout *l, uint32_t end);

/* A bracketed list: put_open, put_next before each item, put_end with the end of the last item. */
void put_open(Layout *l, const char *bracket, bool blanks);
void put_next(Layout *l, uint32_t index, uint32_t begin);
typedef struct ListEnd {
  uint32_t last; /* where the last item ends; 0: there is none */
  bool comma;    /* one may stand behind the last item */
  bool blanks;   /* inside the brackets of the list on one line */
} ListEnd;
void put_end(Layout *l, const char *bracket, ListEnd end);

/* ---------- expressions: expr.c ---------- */
void put(Layout *l, const char *text);
void put_name(Layout *l, const Name *name);
void put_quoted(Layout *l, const char *text, size_t length);
void put_expr(Layout *l, const Expr *e);
/* An expression at the start of a line. */
void put_line_expr(Layout *l, const Expr *e);
/* What stands right of `=` in a line, or on the next one: parentheses around all of it are dropped. */
void put_value(Layout *l, const Expr *e, bool starts_line);
void put_subscript(Layout *l, const Subscript *s);
void put_args(Layout *l, const ArgList *args);
void put_exprs(Layout *l, const ExprList *list); /* with commas, without brackets */
void put_loop(Layout *l, const Loop *loop);
bool expr_ends_in_bracket(const Expr *e);
/* Whether a text may stand without quotes where a name may, or also a verb on paths (`init`). */
bool is_name(const char *s, bool verbs_too);

/* ---------- types, formals, paths: signature.c ---------- */
void put_type(Layout *l, const TypeExpr *t);
void put_formals(Layout *l, const FormalList *list);
void put_result(Layout *l, const TypeExpr *t);
void put_path(Layout *l, const Path *p);
void put_where(Layout *l, const Where *w);
void put_kernel(Layout *l, const char *kernel); /* and a line end; NULL: nothing */

/* ---------- blocks ---------- */
typedef struct Body { /* of def, forward, update, for, if, objective, transform */
  const StmtList *stmts;
  const ExprList *ends; /* of `return` or `yield` */
  const char *word;
  uint32_t close; /* of the `}` */
} Body;
void put_body(Layout *l, Body body);                                     /* stmt.c */
void put_require(Layout *l, const Expr *condition, const char *message); /* stmt.c */
void put_members(Layout *l, const MemberList *list, uint32_t close);     /* member.c */
void put_data(Layout *l, const DataList *list, uint32_t close);          /* data.c */
void put_model_items(Layout *l, const ModelList *list, uint32_t close);  /* model.c */
void put_decls(Layout *l);                                               /* decl.c */
/* Opens and closes braces; a block without anything in it is `{}`. */
void put_block_open(Layout *l);
void put_block_close(Layout *l, uint32_t close, bool empty);

typedef struct SettingsBlock {
  const SettingList *settings;
  const char *table; /* block of settings.def whose keys these are, or NULL */
  bool axes;         /* of a sweep: KEY in LIST */
  uint32_t close;
} SettingsBlock;
void put_settings(Layout *l, SettingsBlock block); /* settings.c */
#endif
