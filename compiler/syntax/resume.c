/* Tokens for the parser, and where it goes on after an error: at the next line of the innermost block
   that can begin an item, or at the end of that block. Brackets come in pairs (bracket.c), so what
   stands in deeper blocks is passed over as a whole. */
#include "parser.h"
#include "ddp.tab.h"

int parse_next(Parse *p, Span *place) {
  while (p->tokens.at[p->next].skip) p->next++;
  p->last = p->next;
  const Token *t = &p->tokens.at[p->next];
  *place = parse_span(p, t->begin, t->end);
  if (t->kind == T_END) return 0;
  p->next++;
  return t->kind;
}

/* A `{` that opens a block rather than a map: it does not stand where a value is expected. */
static bool opens_block(const Parse *p, uint32_t token) {
  if (p->tokens.at[token].kind != T_LBRACE) return false;
  uint32_t before = token_before(p, token);
  int k = p->tokens.at[before].kind;
  if (k == T_ELSE) return p->tokens.at[token_before(p, before)].kind == T_RBRACE;
  return token_ends_operand(k) || token_word_class(k) == WORD_verb || k == T_MODULE ||
         k == T_EXCEPT;
}

static uint32_t enclosing_block(const Parse *p, uint32_t token) {
  uint32_t b = p->tokens.at[token].parent;
  while (b != NO_TOKEN && !opens_block(p, b)) b = p->tokens.at[b].parent;
  return b;
}

bool token_opens_declaration(const Parse *p, uint32_t token) {
  const Token *t = &p->tokens.at[token];
  if (!t->first) return false;
  int next = p->tokens.at[token_after(p, token)].kind;
  bool name = token_is_word(next) || token_word_class(next) == WORD_verb;
  switch (t->kind) {
  case T_IMPORT:
  case T_CONST:
  case T_DEF:
  case T_MODULE:
    return true;
  case T_PARAM:
  case T_OPTIMIZER:
  case T_DATASET:
  case T_MODEL:
  case T_TARGET:
    return name;
  case T_OBJECTIVE:
  case T_RUNTIME:
  case T_SWEEP:
    return next == T_LBRACE;
  case T_TRAIN:
    return next == T_LBRACE || next == T_EXTENDS;
  case T_AT_KERNEL:
    return next == T_LPAREN;
  default:
    return false;
  }
}

/* Whether an item of a block (not of the file) can begin with this token, by it and the next one. */
static bool opens_item(const Parse *p, uint32_t token) {
  const Token *t = &p->tokens.at[token];
  int next = p->tokens.at[token_after(p, token)].kind;
  switch (t->kind) {
  case T_FOR:
  case T_IF:
  case T_REQUIRE:
  case T_RETURN:
  case T_YIELD:
  case T_AT_KERNEL:
    return true;
  case T_FORWARD:
  case T_UPDATE:
    if (next == T_LPAREN) return true;
    break;
  case T_TRANSFORM:
    if (next == T_LBRACE) return true;
    break;
  default:
    break;
  }
  WordClass class = token_word_class(t->kind);
  if (class == WORD_verb || (class == WORD_reserved && next == T_ASSIGN)) return true;
  if (!token_is_word(t->kind)) return false;
  if (next == T_ASSIGN || next == T_COLON || next == T_COMMA || next == T_IN) return true;
  return class == WORD_opener && (token_is_word(next) || token_word_class(next) == WORD_verb);
}

bool parse_resume(Parse *p) {
  uint32_t i = p->last;
  if (p->tokens.at[i].kind == T_END && p->resumed == i) return false;
  if (i <= p->resumed && p->tokens.at[i].kind != T_END) i++; /* always forward */
  uint32_t block = enclosing_block(p, i);
  while (p->tokens.at[i].kind != T_END) {
    const Token *t = &p->tokens.at[i];
    if (t->kind == T_RBRACE && t->mate == block) break;
    bool here = t->first && !t->skip && t->parent == block;
    if (here && (block == NO_TOKEN ? token_opens_declaration(p, i) : opens_item(p, i))) break;
    bool opener = t->mate != NO_TOKEN && t->mate > i;
    i = opener ? t->mate + 1 : i + 1;
  }
  p->next = p->resumed = i;
  return true;
}
