/* Bodies and their statements. */
#include "layout.h"

void put_require(Layout *l, const Expr *condition, const char *message) {
  doc_open(&l->doc);
  put(l, "require ");
  put_expr(l, condition);
  if (message) {
    put(l, ",");
    doc_indent(&l->doc);
    doc_line(&l->doc);
    put_quoted(l, message, strlen(message));
    doc_dedent(&l->doc);
  }
  doc_close(&l->doc);
}

static void put_targets(Layout *l, const NameList *targets) {
  for (uint32_t i = 0; i < targets->len; i++) {
    if (i) put(l, ", ");
    put_name(l, &targets->at[i]);
  }
}

static void put_if(Layout *l, const Stmt *s) {
  uint32_t close = s->span.end - 1, first_close = close;
  if (s->has_else) {
    uint32_t n = s->body.len;
    first_close = block_end(l, n ? s->body.at[n - 1]->span.end : s->value->span.end);
  }
  put(l, "if ");
  put_expr(l, s->value);
  put(l, " ");
  put_body(l, (Body){.stmts = &s->body, .close = first_close});
  if (!s->has_else) return;
  put(l, " else ");
  put_body(l, (Body){.stmts = &s->orelse, .close = close});
}

static void put_stmt(Layout *l, const Stmt *s) {
  switch (s->kind) {
  case STMT_metric:
  case STMT_output:
    put(l, s->kind == STMT_metric ? "metric " : "output "); /* fall through */
  case STMT_assign:
    put_targets(l, &s->targets);
    put(l, " = ");
    put_value(l, s->value, false);
    break;
  case STMT_collect:
    put_targets(l, &s->targets);
    put(l, " = "); /* fall through */
  case STMT_for:
    put_loop(l, &s->loop);
    put(l, " ");
    put_body(l, (Body){&s->body, &s->yields, "yield", s->span.end - 1});
    break;
  case STMT_if:
    put_if(l, s);
    break;
  case STMT_require:
    put_require(l, s->value, s->message);
    break;
  case STMT_error:
    break;
  }
}

void put_body(Layout *l, Body body) {
  uint32_t n = body.stmts->len;
  bool ends = body.ends && body.ends->len;
  put_block_open(l);
  for (uint32_t i = 0; i < n; i++) {
    const Stmt *s = body.stmts->at[i];
    bool plain = s->kind == STMT_assign || s->kind == STMT_metric || s->kind == STMT_output ||
                 s->kind == STMT_require;
    uint32_t until = plain ? s->value->span.begin : s->span.begin;
    doc_hard(&l->doc);
    put_item(l, (Item){.begin = s->span.begin, .until = until, .first = i == 0});
    put_stmt(l, s);
  }
  if (ends) {
    uint32_t value = body.ends->at[0]->span.begin;
    uint32_t begin = code_before(l, value) - (uint32_t)strlen(body.word);
    doc_hard(&l->doc);
    put_item(l, (Item){.begin = begin, .until = value, .first = n == 0});
    put(l, body.word);
    put(l, " ");
    put_exprs(l, body.ends);
  }
  put_block_close(l, body.close, !n && !ends);
}
