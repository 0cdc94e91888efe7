/* Constructors of types, statements, paths, members and steps. */
#include "build_util.h"
#include "text.h"

/* ---------- types ---------- */
static TypeExpr *type_new(Parse *p, TypeKind kind, Span at) {
  TypeExpr *t = ARENA_NEW(p->arena, TypeExpr);
  t->kind = kind;
  t->span = at;
  return t;
}

TypeExpr *ast_tensor(Parse *p, Span at, const Span *dtype, DimVec *dims) {
  TypeExpr *t = type_new(p, TYPE_tensor, at);
  if (dtype) t->name = ast_name(p, *dtype).text;
  LIST_SET(t->dims, dims);
  return t;
}

TypeExpr *ast_type_name(Parse *p, Span at) {
  TypeExpr *t = type_new(p, TYPE_name, at);
  t->name = ast_name(p, at).text;
  return t;
}

TypeExpr *ast_type_apply(Parse *p, Span at, Span name, ArgVec *args) {
  TypeExpr *t = type_new(p, TYPE_apply, at);
  t->name = ast_name(p, name).text;
  LIST_SET(t->args, args);
  return t;
}

TypeExpr *ast_type_word(Parse *p, Span at, TypeKind kind) {
  TypeExpr *t = type_new(p, kind, at);
  t->name = ast_name(p, at).text;
  return t;
}

TypeExpr *ast_type_tuple(Parse *p, Span at, TypeVec *items) {
  TypeExpr *t = type_new(p, TYPE_tuple, at);
  LIST_SET(t->items, items);
  return t;
}

Formal ast_formal(Parse *p, Span at, Name name, TypeExpr *type, Expr *value) {
  return (Formal){.name = ast_plain(p, name), .type = type, .value = value, .span = at};
}

/* ---------- bodies ---------- */
static Block *block_of(Parse *p, Block *b) {
  return b ? b : ARENA_NEW(p->arena, Block);
}

/* A body ends at its `return` or `yield`. */
static void refuse_after_end(Parse *p, const Block *b, Span at) {
  bool returned = b->return_span.file;
  if (!returned && !b->yield_span.file) return;
  const char *word = returned ? "return" : "yield";
  if (parse_report(p, DIAG_E0207, at, "nothing can follow `%s` in its block", word))
    diag_note(returned ? b->return_span : b->yield_span, "the block ends here");
}

Block *ast_block_add(Parse *p, Block *b, Stmt *s) {
  b = block_of(p, b);
  if (s->kind != STMT_error) refuse_after_end(p, b, s->span);
  vec_push(p->arena, &b->stmts, s);
  return b;
}

Block *ast_block_return(Parse *p, Block *b, Span word, ExprVec *values) {
  b = block_of(p, b);
  refuse_after_end(p, b, word);
  b->return_span = word;
  b->returns = values;
  return b;
}

Block *ast_block_yield(Parse *p, Block *b, Span word, ExprVec *values) {
  b = block_of(p, b);
  refuse_after_end(p, b, word);
  b->yield_span = word;
  b->yields = values;
  return b;
}

static bool block_lost_text(const Block *b) {
  for (uint32_t i = 0; i < b->stmts.len; i++)
    if (b->stmts.at[i]->kind == STMT_error) return true;
  return false;
}

bool block_not_empty(Parse *p, Span at, const Block *b, const char *owner) {
  if (b) return true;
  Span close = {at.file, at.end ? at.end - 1 : 0, at.end};
  parse_report(p, DIAG_E0213, close, "%s is empty", owner);
  return false;
}

StmtList block_close(Parse *p, Span at, const Block *b, BodyEnd end, const char *owner) {
  StmtList list = {0};
  if (!b) return list;
  Span close = {at.file, at.end ? at.end - 1 : 0, at.end};
  if (b->return_span.file && end != ENDS_with_return)
    parse_report(p, DIAG_E0201, b->return_span, "unexpected `return`: %s does not return", owner);
  if (b->yield_span.file && end != ENDS_with_yield) {
    bool told = parse_report(p, DIAG_E0201, b->yield_span,
                             "unexpected `yield`: %s does not collect values", owner);
    if (told) diag_help("a collecting loop is written `ys = for x in xs { ... yield y }`");
  }
  bool done = end == ENDS_plain ||
              (end == ENDS_with_return ? b->return_span.file : b->yield_span.file) ||
              block_lost_text(b);
  if (!done) {
    const char *word = end == ENDS_with_return ? "return" : "yield";
    parse_report(p, DIAG_E0201, close, "%s ends without `%s`", owner, word);
  }
  list.at = b->stmts.at;
  list.len = b->stmts.len;
  return list;
}

/* ---------- statements ---------- */
static Stmt *stmt_new(Parse *p, StmtKind kind, Span at) {
  Stmt *s = ARENA_NEW(p->arena, Stmt);
  s->kind = kind;
  s->span = at;
  return s;
}

Stmt *ast_stmt_error(Parse *p, Span at) {
  return stmt_new(p, STMT_error, at);
}

Stmt *ast_assign(Parse *p, Span at, NameVec *targets, Expr *value) {
  Stmt *s = stmt_new(p, STMT_assign, at);
  LIST_SET(s->targets, targets);
  s->value = value;
  return s;
}

Stmt *ast_collect(Parse *p, Span at, NameVec *targets, Loop loop, Block *body) {
  Stmt *s = stmt_new(p, STMT_collect, at);
  LIST_SET(s->targets, targets);
  s->loop = loop;
  if (!block_not_empty(p, at, body, "this collecting loop")) return s;
  s->body = block_close(p, at, body, ENDS_with_yield, "this collecting loop");
  LIST_SET(s->yields, body->yields);
  return s;
}

Stmt *ast_for(Parse *p, Span at, Loop loop, Block *body) {
  Stmt *s = stmt_new(p, STMT_for, at);
  s->loop = loop;
  s->body = block_close(p, at, body, ENDS_plain, "this loop");
  return s;
}

Stmt *ast_if(Parse *p, Span at, Expr *condition, Block *yes, bool has_else, Block *no) {
  Stmt *s = stmt_new(p, STMT_if, at);
  s->value = condition;
  s->body = block_close(p, at, yes, ENDS_plain, "an `if` block");
  s->has_else = has_else;
  s->orelse = block_close(p, at, no, ENDS_plain, "an `else` block");
  return s;
}

Stmt *ast_require(Parse *p, Span at, Expr *condition, const Span *message) {
  Stmt *s = stmt_new(p, STMT_require, at);
  s->value = condition;
  s->message = text_at(p, message);
  return s;
}

static Stmt *result(Parse *p, StmtKind kind, Span at, Name name, Expr *value) {
  Stmt *s = stmt_new(p, kind, at);
  ast_plain(p, name);
  NameVec *targets = ast_names(p, NULL, name);
  LIST_SET(s->targets, targets);
  s->value = value;
  return s;
}

Stmt *ast_metric(Parse *p, Span at, Name name, Expr *value) {
  return result(p, STMT_metric, at, name, value);
}

Stmt *ast_output(Parse *p, Span at, Name name, Expr *value) {
  return result(p, STMT_output, at, name, value);
}

/* ---------- paths ---------- */
/* The steps double their room whenever their number is a power of two. */
static void path_push(Parse *p, Path *path, PathStep step) {
  uint32_t n = path->steps.len;
  if ((n & (n - 1)) == 0) {
    PathStep *grown = ARENA_ARRAY(p->arena, PathStep, n ? n * 2 : 1);
    if (n) memcpy(grown, path->steps.at, sizeof *grown * n);
    path->steps.at = grown;
  }
  path->steps.at[path->steps.len++] = step;
}

static PathStep named_step(Name n) {
  return (PathStep){.name = n.text, .index = n.index, .suffix = n.suffix, .span = n.span};
}

Path ast_path(Parse *p, Span at, Name name) {
  Path path = {.span = at};
  path_push(p, &path, named_step(name));
  return path;
}

Path ast_path_name(Parse *p, Span at, Path path, Name name) {
  path.span = at;
  path_push(p, &path, named_step(name));
  return path;
}

Path ast_path_slice(Parse *p, Span at, Path path, Subscript sub) {
  path.span = at;
  path_push(p, &path, (PathStep){.sub = sub, .span = sub.span});
  return path;
}

Where ast_where(PathVec *paths, PathVec *except) {
  Where w = {0};
  LIST_SET(w.paths, paths);
  LIST_SET(w.except, except);
  return w;
}

/* ---------- members ---------- */
static Member *member_new(Parse *p, MemberKind kind, Span at) {
  Member *m = ARENA_NEW(p->arena, Member);
  m->kind = kind;
  m->span = at;
  return m;
}

Member *ast_member_error(Parse *p, Span at) {
  return member_new(p, MEMBER_error, at);
}

Member *ast_member_assign(Parse *p, Span at, Name name, Expr *value) {
  Member *m = member_new(p, MEMBER_assign, at);
  m->name = name;
  m->value = value;
  return m;
}

Member *ast_leaf(Parse *p, Span at, MemberKind kind, Name name, TypeExpr *type, Expr *value) {
  Member *m = member_new(p, kind, at);
  m->name = name;
  m->type = type;
  m->value = value;
  return m;
}

Member *ast_member_tie(Parse *p, Span at, Path left, Path right) {
  Member *m = member_new(p, MEMBER_tie, at);
  m->left = left;
  m->right = right;
  return m;
}

Member *ast_member_init(Parse *p, Span at, Path left, Expr *value) {
  Member *m = member_new(p, MEMBER_init, at);
  m->left = left;
  m->value = value;
  return m;
}

Member *ast_member_require(Parse *p, const Stmt *require) {
  Member *m = member_new(p, MEMBER_require, require->span);
  m->value = require->value;
  m->message = require->message;
  return m;
}

Member *ast_member_for(Parse *p, Span at, Loop loop, MemberVec *body) {
  Member *m = member_new(p, MEMBER_for, at);
  m->loop = loop;
  LIST_SET(m->body, body);
  return m;
}

Member *ast_member_if(Parse *p, Span at, Expr *condition, MemberVec *yes, bool has_else,
                      MemberVec *no) {
  Member *m = member_new(p, MEMBER_if, at);
  m->value = condition;
  LIST_SET(m->body, yes);
  m->has_else = has_else;
  LIST_SET(m->orelse, no);
  return m;
}

Member *ast_member_step(Parse *p, Step *step) {
  Member *m = member_new(p, MEMBER_step, step->span);
  m->step = step;
  return m;
}

static Step *step_new(Parse *p, Span at, FormalVec *formals) {
  Step *s = ARENA_NEW(p->arena, Step);
  s->span = at;
  LIST_SET(s->formals, formals);
  return s;
}

Step *ast_forward(Parse *p, Span at, FormalVec *formals, TypeExpr *result, Block *body) {
  Step *s = step_new(p, at, formals);
  s->result = result;
  if (!block_not_empty(p, at, body, "the body of `forward`")) return s;
  s->body = block_close(p, at, body, ENDS_with_return, "the body of `forward`");
  LIST_SET(s->returns, body->returns);
  return s;
}

Step *ast_update(Parse *p, Span at, FormalVec *formals, Block *body) {
  Step *s = step_new(p, at, formals);
  s->is_update = true;
  block_not_empty(p, at, body, "the body of `update`");
  s->body = block_close(p, at, body, ENDS_plain, "`update`");
  return s;
}

Step *ast_step_kernel(Parse *p, Span at, Span kernel, Step *step) {
  step->span = at;
  step->kernel = text_at(p, &kernel);
  step->kernel_span = kernel;
  return step;
}
