/* Pairs brackets. Where they do not come in pairs, guesses from the layout which one is missing or
   too many, reports that one, and repairs the list of tokens, so that everything after it can rely
   on pairs. Layout means nothing in a text whose brackets are right. */
#include "parser.h"
#include "ddp.tab.h"

static bool is_opener(int kind) {
  return kind == T_LBRACE || kind == T_LPAREN || kind == T_LBRACKET;
}
static bool is_closer(int kind) {
  return kind == T_RBRACE || kind == T_RPAREN || kind == T_RBRACKET;
}
static int closer_of(int kind) {
  return kind == T_LBRACE ? T_RBRACE : kind == T_LPAREN ? T_RPAREN : T_RBRACKET;
}
static const char *bracket_text(int kind) {
  switch (kind) {
  case T_LBRACE:
    return "{";
  case T_LPAREN:
    return "(";
  case T_LBRACKET:
    return "[";
  case T_RBRACE:
    return "}";
  case T_RPAREN:
    return ")";
  default:
    return "]";
  }
}

/* Sets mates and parents. False when a bracket has no partner. */
static bool pair(Parse *p, bool *too_deep) {
  uint32_t open[NESTING_MAX], depth = 0;
  for (uint32_t i = 0; i < p->tokens.len; i++) {
    Token *t = &p->tokens.at[i];
    t->parent = depth ? open[depth - 1] : NO_TOKEN;
    if (is_opener(t->kind)) {
      if (depth == NESTING_MAX) {
        parse_too_deep(p, token_span(p, i));
        *too_deep = true;
        return false;
      }
      open[depth++] = i;
    } else if (is_closer(t->kind)) {
      if (!depth || closer_of(p->tokens.at[t->parent].kind) != t->kind) return false;
      t->mate = t->parent;
      p->tokens.at[t->mate].mate = i;
      depth--;
    }
  }
  return depth == 0;
}

/* ---------- repair ---------- */
typedef struct Repair {
  Parse *p;
  TokenVec out;
  uint32_t open[NESTING_MAX + 1]; /* indices into out */
  uint32_t depth;
  int64_t surplus; /* closing brackets more than opening ones, in the whole text */
} Repair;

static const Token *top(const Repair *r) {
  return &r->out.at[r->open[r->depth - 1]];
}

/* Closes the innermost bracket, which the text forgot; `noticed` is where that showed. */
static void insert_closer(Repair *r, const Token *noticed) {
  Token open = *top(r);
  const Token *last = &r->out.at[r->out.len - 1];
  Token t = {.kind = (uint16_t)closer_of(open.kind),
             .inserted = true,
             .begin = last->end,
             .end = last->end,
             .indent = last->indent,
             .mate = NO_TOKEN};
  Span at = parse_span(r->p, open.begin, open.end);
  if (parse_report(r->p, DIAG_E0204, at, "`%s` is never closed", bracket_text(open.kind)) &&
      noticed->kind != T_END)
    diag_note(parse_span(r->p, noticed->begin, noticed->end), "`%s` is missing before this",
              bracket_text(closer_of(open.kind)));
  tokens_push(&r->out, t);
  r->depth--;
}

static void keep(Repair *r, const Token *t) {
  tokens_push(&r->out, *t);
}

/* The nearest open bracket of the kind that `t` closes, as an index into open; -1: none. For a `}`
   at the start of a line one of the same indentation goes first. */
static int partner(const Repair *r, const Token *t) {
  int nearest = -1;
  for (int i = (int)r->depth - 1; i >= 0; i--) {
    const Token *o = &r->out.at[r->open[i]];
    if (closer_of(o->kind) != t->kind) continue;
    if (nearest < 0) nearest = i;
    if (t->kind != T_RBRACE || !t->first || o->indent == t->indent) return i;
  }
  return nearest;
}

static void repair_closer(Repair *r, const Token *t) {
  Parse *p = r->p;
  Span at = parse_span(p, t->begin, t->end);
  bool deeper = t->first && t->kind == T_RBRACE && r->depth && t->indent > top(r)->indent;
  int with = partner(r, t);
  if (with < 0 || (deeper && r->surplus > 0)) {
    bool same_line = r->depth && with < 0 && top(r)->kind != T_LBRACE && !t->first;
    if (same_line) { /* `f(x]` */
      Token o = *top(r);
      const char *right = bracket_text(closer_of(o.kind));
      if (parse_report(p, DIAG_E0201, at, "`%s` where `%s` belongs", bracket_text(t->kind), right))
        diag_note(parse_span(p, o.begin, o.end), "opened here");
      Token fixed = *t;
      fixed.kind = (uint16_t)closer_of(o.kind);
      keep(r, &fixed);
      r->depth--;
    } else {
      parse_report(p, DIAG_E0201, at, "`%s` closes nothing", bracket_text(t->kind));
    }
    r->surplus--;
    return;
  }
  while ((int)r->depth > with + 1) insert_closer(r, t);
  keep(r, t);
  r->depth--;
}

/* A line that begins a statement ends the round and square brackets that began no further left. */
static void close_before_line(Repair *r, const Token *t, uint32_t index) {
  if (!t->first || is_closer(t->kind)) return;
  if (token_opens_declaration(r->p, index)) {
    bool outermost = r->depth && t->indent <= r->out.at[r->open[0]].indent;
    while (outermost && r->depth) insert_closer(r, t);
  }
  bool word = token_is_word(t->kind) || token_word_class(t->kind) != WORD_none;
  while (word && r->depth && top(r)->kind != T_LBRACE && t->indent <= top(r)->indent)
    insert_closer(r, t);
}

static void repair(Parse *p) {
  Repair r = {.p = p};
  for (uint32_t i = 0; i < p->tokens.len; i++) {
    if (is_opener(p->tokens.at[i].kind)) r.surplus--;
    if (is_closer(p->tokens.at[i].kind)) r.surplus++;
  }
  for (uint32_t i = 0; i < p->tokens.len; i++) {
    const Token *t = &p->tokens.at[i];
    close_before_line(&r, t, i);
    if (t->kind == T_END)
      while (r.depth) insert_closer(&r, t);
    if (is_closer(t->kind)) {
      repair_closer(&r, t);
      continue;
    }
    if (is_opener(t->kind)) {
      if (r.depth == NESTING_MAX) {
        keep(&r, t); /* pair() reports it */
        break;
      }
      r.open[r.depth++] = r.out.len;
    }
    keep(&r, t);
  }
  tokens_free(&p->tokens);
  p->tokens = r.out;
}

bool brackets_pair(Parse *p) {
  bool too_deep = false;
  if (pair(p, &too_deep)) return true;
  if (too_deep) return false;
  repair(p);
  return pair(p, &too_deep);
}
