/* Expressions. Parentheses are kept as they were written, so that no precedence is needed here. */
#include "layout.h"
#include <ctype.h>

void put(Layout *l, const char *text) {
  doc_text(&l->doc, text);
}

static void put_indexed(Layout *l, const char *text, const char *index, const char *suffix) {
  put(l, text);
  if (index) put(l, arena_printf(l->doc.arena, "{%s}%s", index, suffix));
}

void put_name(Layout *l, const Name *name) {
  put_indexed(l, name->text, name->index, name->suffix);
}

/* Every escape has one spelling, so the text gives its source back. */
void put_quoted(Layout *l, const char *text, size_t length) {
  static const char values[] = "\n\t\r\\\"", names[] = "ntr\\\"";
  char *out = arena_alloc(l->doc.arena, 2 * length + 3);
  size_t n = 0;
  out[n++] = '"';
  for (size_t i = 0; i < length; i++) {
    const char *escape = text[i] ? strchr(values, text[i]) : NULL;
    if (escape) out[n++] = '\\';
    out[n++] = escape ? names[escape - values] : text[i];
  }
  out[n++] = '"';
  doc_text_n(&l->doc, out, n);
}

/* ---------- literals ---------- */
/* Digits as typed; `e` and `x` small, no `+` in an exponent. */
static void put_number(Layout *l, const Expr *e) {
  const char *digits = e->literal;
  bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
  char *out = arena_alloc(l->doc.arena, strlen(digits) + 1);
  size_t n = 0;
  for (const char *c = digits; *c; c++)
    if (*c != '+') out[n++] = (*c == 'E' && !hex) ? 'e' : *c;
  if (hex) out[1] = 'x';
  doc_text_n(&l->doc, out, n);
  if (e->kind == EXPR_percent) put(l, "%");
}

static void put_literal(Layout *l, const Expr *e) {
  switch (e->kind) {
  case EXPR_int:
  case EXPR_float:
  case EXPR_percent:
    put_number(l, e);
    break;
  case EXPR_text:
    put_quoted(l, e->as.text.text, e->as.text.length);
    break;
  case EXPR_bool:
    put(l, e->as.b ? "true" : "false");
    break;
  case EXPR_name:
    put_name(l, &e->as.name);
    break;
  default:
    put(l, "none");
    break;
  }
}

/* ---------- operators ---------- */
static int level_of(BinaryOp op) {
  switch (op) {
  case BIN_or:
    return 1;
  case BIN_and:
    return 2;
  case BIN_add:
  case BIN_sub:
    return 3;
  case BIN_mul:
  case BIN_div:
  case BIN_floordiv:
  case BIN_mod:
  case BIN_matmul:
    return 4;
  default:
    return 0; /* stands alone */
  }
}

static bool same_level(const Expr *e, BinaryOp op) {
  int level = level_of(op);
  return e->kind == EXPR_binary && !e->parens && level && level_of(e->as.binary.op) == level;
}

/* a + b - c: one group, broken before each operator of the level. */
static void put_chain(Layout *l, const Expr *e) {
  VEC(const Expr *) links = {0}; /* the last one first */
  const Expr *first = e;
  do {
    vec_push(l->doc.arena, &links, first);
    first = first->as.binary.left;
  } while (same_level(first, e->as.binary.op));
  bool deep = first->kind == EXPR_binary && !first->parens;
  doc_open(&l->doc);
  if (deep) doc_indent(&l->doc);
  put_expr(l, first);
  if (!deep) doc_indent(&l->doc);
  for (uint32_t i = links.len; i-- > 0;) {
    const Expr *right = links.at[i]->as.binary.right;
    doc_line(&l->doc);
    put_part(l, right->span.begin);
    put(l, ast_binary_text(links.at[i]->as.binary.op));
    put(l, " ");
    put_expr(l, right);
  }
  doc_dedent(&l->doc);
  doc_close(&l->doc);
}

static void put_binary(Layout *l, const Expr *e) {
  if (e->as.binary.op != BIN_range) {
    put_chain(l, e);
    return;
  }
  put_expr(l, e->as.binary.left);
  put(l, "..");
  put_expr(l, e->as.binary.right);
}

static void put_branch(Layout *l, const char *word, const Expr *e) {
  doc_line(&l->doc);
  put_part(l, e->span.begin);
  put(l, word);
  put_expr(l, e);
}

static bool plain_choice(const Expr *e) {
  return e->kind == EXPR_if && !e->parens;
}

/* if a then x        One condition: `then` and `else` get lines of their own. Several: each condition
   else if b then y   with its value. */
static void put_ladder(Layout *l, const Expr *e, bool starts_line) {
  doc_open(&l->doc);
  if (!starts_line) doc_indent(&l->doc);
  const char *word = "if ";
  do {
    if (*word == 'e') {
      doc_line(&l->doc);
      put_part(l, e->as.cond.condition->span.begin);
    }
    doc_open(&l->doc);
    put(l, word);
    put_expr(l, e->as.cond.condition);
    doc_indent(&l->doc);
    put_branch(l, "then ", e->as.cond.yes);
    doc_dedent(&l->doc);
    doc_close(&l->doc);
    word = "else if ";
    e = e->as.cond.no;
  } while (plain_choice(e));
  put_branch(l, "else ", e);
  if (!starts_line) doc_dedent(&l->doc);
  doc_close(&l->doc);
}

static void put_choice(Layout *l, const Expr *e, bool starts_line) {
  if (plain_choice(e->as.cond.no)) {
    put_ladder(l, e, starts_line);
    return;
  }
  doc_open(&l->doc);
  put(l, "if ");
  put_expr(l, e->as.cond.condition);
  doc_indent(&l->doc);
  put_branch(l, "then ", e->as.cond.yes);
  put_branch(l, "else ", e->as.cond.no);
  doc_dedent(&l->doc);
  doc_close(&l->doc);
}

/* ---------- lists ---------- */
void put_args(Layout *l, const ArgList *args) {
  if (!args->len) {
    put(l, "()");
    return;
  }
  put_open(l, "(", false);
  for (uint32_t i = 0; i < args->len; i++) {
    const Arg *a = &args->at[i];
    put_next(l, i, a->span.begin);
    if (!a->name) {
      put_line_expr(l, a->value);
      continue;
    }
    put(l, a->name);
    put(l, " = ");
    put_expr(l, a->value);
  }
  put_end(l, ")", (ListEnd){.last = args->at[args->len - 1].value->span.end, .comma = true});
}

void put_exprs(Layout *l, const ExprList *list) {
  if (list->len == 1) {
    put_expr(l, list->at[0]);
    return;
  }
  doc_open(&l->doc);
  doc_indent(&l->doc);
  for (uint32_t i = 0; i < list->len; i++) {
    if (i) put_next(l, i, list->at[i]->span.begin);
    put_expr(l, list->at[i]);
  }
  doc_dedent(&l->doc);
  doc_close(&l->doc);
}

static void put_sequence(Layout *l, const Expr *e) {
  const ExprList *items = &e->as.items;
  bool list = e->kind == EXPR_list;
  if (!items->len) {
    put(l, "[]");
    return;
  }
  put_open(l, list ? "[" : "(", false);
  for (uint32_t i = 0; i < items->len; i++) {
    put_next(l, i, items->at[i]->span.begin);
    put_line_expr(l, items->at[i]);
  }
  put_end(l, list ? "]" : ")",
          (ListEnd){.last = items->at[items->len - 1]->span.end, .comma = true});
}

void put_loop(Layout *l, const Loop *loop) {
  put(l, "for ");
  for (uint32_t i = 0; i < loop->targets.len; i++) {
    if (i) put(l, ", ");
    put_name(l, &loop->targets.at[i]);
  }
  put(l, " in ");
  put_exprs(l, &loop->iterables);
}

static void put_comprehension(Layout *l, const Expr *e) {
  const LoopList *loops = &e->as.comprehension.loops;
  put_open(l, "[", false);
  put_next(l, 0, e->as.comprehension.value->span.begin);
  put_line_expr(l, e->as.comprehension.value);
  for (uint32_t i = 0; i < loops->len; i++) {
    uint32_t begin = loops->at[i].span.begin;
    doc_line(&l->doc);
    put_part(l, begin);
    put_loop(l, &loops->at[i]);
  }
  put_end(l, "]", (ListEnd){.last = loops->at[loops->len - 1].span.end});
}

bool is_name(const char *s, bool verbs_too) {
  enum Class { CLASS_reserved, CLASS_verb, CLASS_opener };
  static const struct {
    const char *text;
    enum Class class;
  } words[] = {
#define KEYWORD(text, token, class) {text, CLASS_##class},
#include "keywords.def"
  };
  if (!isalpha((unsigned char)s[0]) && s[0] != '_') return false;
  for (const char *c = s; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '_') return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (!strcmp(s, words[i].text))
      return words[i].class == CLASS_opener || (verbs_too && words[i].class == CLASS_verb);
  return true;
}

static void put_map(Layout *l, const MapList *items) {
  if (!items->len) {
    put(l, "{}");
    return;
  }
  put_open(l, "{", true);
  for (uint32_t i = 0; i < items->len; i++) {
    const MapItem *m = &items->at[i];
    put_next(l, i, m->span.begin);
    if (is_name(m->key, true)) {
      put(l, m->key);
      put(l, " = ");
    } else {
      put_quoted(l, m->key, strlen(m->key));
      put(l, ": ");
    }
    put_expr(l, m->value);
  }
  ListEnd end = {.last = items->at[items->len - 1].span.end, .comma = true, .blanks = true};
  put_end(l, "}", end);
}

/* ---------- access ---------- */
static void put_bound(Layout *l, const Expr *e) {
  if (e) put_expr(l, e);
}

void put_subscript(Layout *l, const Subscript *s) {
  if (s->kind == SUB_ellipsis) {
    put(l, "...");
    return;
  }
  put_bound(l, s->start);
  if (s->kind == SUB_index) return;
  put(l, ":");
  put_bound(l, s->stop);
  if (!s->step) return;
  put(l, ":");
  put_bound(l, s->step);
}

static void put_index(Layout *l, const Expr *e) {
  const SubscriptList *subs = &e->as.index.subs;
  put_expr(l, e->as.index.object);
  put_open(l, "[", false);
  for (uint32_t i = 0; i < subs->len; i++) {
    put_next(l, i, subs->at[i].span.begin);
    put_subscript(l, &subs->at[i]);
  }
  put_end(l, "]", (ListEnd){.last = subs->at[subs->len - 1].span.end});
}

static void put_member(Layout *l, const Expr *e) {
  const Expr *object = e->as.member.object;
  put_expr(l, object);
  bool digits = !object->parens && (object->kind == EXPR_int || object->kind == EXPR_float);
  put(l, digits ? " ." : "."); /* `1.x` would be a number */
  put(l, e->as.member.name);
}

static void put_bare(Layout *l, const Expr *e, bool starts_line) {
  switch (e->kind) {
  case EXPR_unary:
    put(l, e->as.unary.op == UN_neg ? "-" : "not ");
    put_expr(l, e->as.unary.operand);
    break;
  case EXPR_binary:
    put_binary(l, e);
    break;
  case EXPR_if:
    put_choice(l, e, starts_line);
    break;
  case EXPR_member:
    put_member(l, e);
    break;
  case EXPR_call:
    put_expr(l, e->as.call.callee);
    put_args(l, &e->as.call.args);
    break;
  case EXPR_index:
    put_index(l, e);
    break;
  case EXPR_list:
  case EXPR_tuple:
    put_sequence(l, e);
    break;
  case EXPR_comprehension:
    put_comprehension(l, e);
    break;
  case EXPR_map:
    put_map(l, &e->as.map);
    break;
  default:
    put_literal(l, e);
    break;
  }
}

void put_expr(Layout *l, const Expr *e) {
  for (int i = 0; i < e->parens; i++) put(l, "(");
  put_bare(l, e, false);
  for (int i = 0; i < e->parens; i++) put(l, ")");
}

void put_line_expr(Layout *l, const Expr *e) {
  if (e->parens)
    put_expr(l, e);
  else
    put_bare(l, e, true);
}

void put_value(Layout *l, const Expr *e, bool starts_line) {
  put_bare(l, e, starts_line);
}

bool expr_ends_in_bracket(const Expr *e) {
  switch (e->kind) {
  case EXPR_call:
  case EXPR_index:
  case EXPR_list:
  case EXPR_tuple:
  case EXPR_comprehension:
  case EXPR_map:
    return true;
  default:
    return false;
  }
}
