/* Constructors of names, expressions and loops. */
#include "build_util.h"
#include "text.h"

/* ---------- names ---------- */
Name ast_name(Parse *p, Span at) {
  return (Name){.text = text_intern_n(p->text + at.begin, at.end - at.begin), .span = at};
}

Name ast_indexed_name(Parse *p, Span at) {
  const char *s = p->text + at.begin, *end = p->text + at.end;
  const char *open = memchr(s, '{', (size_t)(end - s));
  const char *close = memchr(open, '}', (size_t)(end - open));
  return (Name){
      .text = text_intern_n(s, (size_t)(open - s)),
      .index = text_intern_n(open + 1, (size_t)(close - open - 1)),
      .suffix = text_intern_n(close + 1, (size_t)(end - close - 1)),
      .span = at,
  };
}

const char *ast_plain(Parse *p, Name name) {
  if (name.index) {
    bool told =
        parse_report(p, DIAG_E0312, name.span, "a name with `{%s}` cannot stand here", name.index);
    if (told)
      diag_help("such names are for members of a module inside `for %s in ...`", name.index);
  }
  return name.text;
}

/* ---------- expressions ---------- */
/* A node above the given ones; an error node where the tree would get too deep to walk. */
static Expr *expr_new(Parse *p, ExprKind kind, Span at, uint32_t below) {
  Expr *e = ARENA_NEW(p->arena, Expr);
  e->kind = kind;
  e->span = at;
  e->depth = (uint16_t)(below + 1);
  if (below + 1 > AST_DEPTH_MAX) {
    parse_too_deep(p, at);
    e->kind = EXPR_error;
    e->depth = 1;
  }
  return e;
}

static uint32_t max2(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}
static uint32_t depth_of(const Expr *e) {
  return e ? e->depth : 0;
}

static uint32_t depth_of_all(const ExprVec *v) {
  uint32_t d = 0;
  for (uint32_t i = 0; v && i < v->len; i++) d = max2(d, depth_of(v->at[i]));
  return d;
}

static const char *spelling(Parse *p, Span at, uint32_t without) {
  return arena_strndup(p->arena, p->text + at.begin, at.end - at.begin - without);
}

Expr *ast_int(Parse *p, Span at) {
  Expr *e = expr_new(p, EXPR_int, at, 0);
  e->as.i = literal_int(p, at);
  e->literal = spelling(p, at, 0);
  return e;
}

Expr *ast_float(Parse *p, Span at) {
  Expr *e = expr_new(p, EXPR_float, at, 0);
  e->as.f = literal_float(p, at);
  e->literal = spelling(p, at, 0);
  return e;
}

Expr *ast_percent(Parse *p, Span at) {
  Expr *e = expr_new(p, EXPR_percent, at, 0);
  Span digits = {at.file, at.begin, at.end - 1};
  e->as.f = literal_float(p, digits);
  e->literal = spelling(p, at, 1);
  return e;
}

Expr *ast_text(Parse *p, Span at) {
  Expr *e = expr_new(p, EXPR_text, at, 0);
  e->as.text.text = literal_text(p, at, &e->as.text.length);
  return e;
}

Expr *ast_bool(Parse *p, Span at, bool value) {
  Expr *e = expr_new(p, EXPR_bool, at, 0);
  e->as.b = value;
  return e;
}

Expr *ast_none(Parse *p, Span at) {
  return expr_new(p, EXPR_none, at, 0);
}

Expr *ast_name_expr(Parse *p, Name name) {
  Expr *e = expr_new(p, EXPR_name, name.span, 0);
  e->as.name = name;
  return e;
}

Expr *ast_unary(Parse *p, Span at, UnaryOp op, Expr *operand) {
  Expr *e = expr_new(p, EXPR_unary, at, depth_of(operand));
  if (e->kind == EXPR_error) return e;
  e->as.unary.op = op;
  e->as.unary.operand = operand;
  return e;
}

Expr *ast_binary(Parse *p, Span at, BinaryOp op, Span op_span, Expr *left, Expr *right) {
  Expr *e = expr_new(p, EXPR_binary, at, max2(depth_of(left), depth_of(right)));
  if (e->kind == EXPR_error) return e;
  e->as.binary.op = op;
  e->as.binary.op_span = op_span;
  e->as.binary.left = left;
  e->as.binary.right = right;
  return e;
}

Expr *ast_choice(Parse *p, Span at, Expr *condition, Expr *yes, Expr *no) {
  uint32_t below = max2(depth_of(condition), max2(depth_of(yes), depth_of(no)));
  Expr *e = expr_new(p, EXPR_if, at, below);
  if (e->kind == EXPR_error) return e;
  e->as.cond.condition = condition;
  e->as.cond.yes = yes;
  e->as.cond.no = no;
  return e;
}

Expr *ast_member(Parse *p, Span at, Expr *object, Name name) {
  Expr *e = expr_new(p, EXPR_member, at, depth_of(object));
  if (e->kind == EXPR_error) return e;
  e->as.member.object = object;
  e->as.member.name = ast_plain(p, name);
  e->as.member.name_span = name.span;
  return e;
}

static void check_order(Parse *p, const ArgVec *args) {
  const Arg *named = NULL;
  for (uint32_t i = 0; args && i < args->len; i++) {
    const Arg *a = &args->at[i];
    if (a->name) {
      if (!named) named = a;
    } else if (named) {
      bool told = parse_report(p, DIAG_E0209, a->span,
                               "argument by position after the argument `%s`", named->name);
      if (told) diag_help("move it to the front of the list, or write its name: `NAME = value`");
      return;
    }
  }
}

Expr *ast_call(Parse *p, Span at, Expr *callee, ArgVec *args) {
  check_order(p, args);
  uint32_t below = depth_of(callee);
  for (uint32_t i = 0; args && i < args->len; i++) below = max2(below, depth_of(args->at[i].value));
  Expr *e = expr_new(p, EXPR_call, at, below);
  if (e->kind == EXPR_error) return e;
  e->as.call.callee = callee;
  LIST_SET(e->as.call.args, args);
  return e;
}

Expr *ast_index(Parse *p, Span at, Expr *object, SubVec *subs) {
  uint32_t below = depth_of(object);
  for (uint32_t i = 0; subs && i < subs->len; i++) {
    const Subscript *s = &subs->at[i];
    below = max2(below, max2(depth_of(s->start), max2(depth_of(s->stop), depth_of(s->step))));
  }
  Expr *e = expr_new(p, EXPR_index, at, below);
  if (e->kind == EXPR_error) return e;
  e->as.index.object = object;
  LIST_SET(e->as.index.subs, subs);
  return e;
}

Expr *ast_parens(Parse *p, Span at, Expr *inner) {
  (void)p;
  inner->span = at; /* so that carets and joined places hold the brackets */
  inner->parens++;
  return inner;
}

Expr *ast_sequence(Parse *p, Span at, ExprKind kind, Expr *first, ExprVec *rest) {
  Expr *e = expr_new(p, kind, at, max2(depth_of(first), depth_of_all(rest)));
  if (e->kind == EXPR_error) return e;
  if (first) { /* the grammar reads the first item of a tuple on its own */
    uint32_t n = rest->len;
    Expr **all = ARENA_ARRAY(p->arena, Expr *, n + 1);
    all[0] = first;
    memcpy(all + 1, rest->at, sizeof(Expr *) * n);
    e->as.items.at = all;
    e->as.items.len = n + 1;
  } else {
    LIST_SET(e->as.items, rest);
  }
  return e;
}

Expr *ast_comprehension(Parse *p, Span at, Expr *value, LoopVec *loops) {
  uint32_t below = depth_of(value);
  for (uint32_t i = 0; loops && i < loops->len; i++) {
    const Loop *l = &loops->at[i];
    for (uint32_t k = 0; k < l->iterables.len; k++)
      below = max2(below, depth_of(l->iterables.at[k]));
  }
  Expr *e = expr_new(p, EXPR_comprehension, at, below);
  if (e->kind == EXPR_error) return e;
  e->as.comprehension.value = value;
  LIST_SET(e->as.comprehension.loops, loops);
  return e;
}

Expr *ast_map(Parse *p, Span at, MapVec *items) {
  uint32_t below = 0;
  for (uint32_t i = 0; items && i < items->len; i++)
    below = max2(below, depth_of(items->at[i].value));
  Expr *e = expr_new(p, EXPR_map, at, below);
  if (e->kind == EXPR_error) return e;
  LIST_SET(e->as.map, items);
  return e;
}

Arg ast_named_arg(Parse *p, Name name, Expr *value) {
  return (Arg){ast_plain(p, name), value, name.span};
}

MapItem ast_map_item(Parse *p, Span at, Name key, Expr *value) {
  return (MapItem){.key = ast_plain(p, key), .value = value, .span = at};
}

MapItem ast_quoted_item(Parse *p, Span at, Span key, Expr *value) {
  uint32_t length;
  const char *text = literal_text(p, key, &length);
  return (MapItem){.key = text_intern_n(text, length), .quoted = true, .value = value, .span = at};
}

Loop ast_loop(Parse *p, Span at, NameVec *targets, ExprVec *iterables) {
  (void)p;
  Loop l = {.span = at};
  LIST_SET(l.targets, targets);
  LIST_SET(l.iterables, iterables);
  return l;
}
