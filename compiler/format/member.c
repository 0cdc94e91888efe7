/* Members of modules and optimizers. */
#include "layout.h"

static void put_step(Layout *l, const Step *s, uint32_t close) {
  put_kernel(l, s->kernel);
  put(l, s->is_update ? "update" : "forward");
  put_formals(l, &s->formals);
  put_result(l, s->result);
  put(l, " ");
  put_body(l, (Body){&s->body, &s->returns, "return", close});
}

static void put_leaf(Layout *l, const Member *m) {
  put_name(l, &m->name);
  put(l, m->kind == MEMBER_param ? ": param " : ": buffer ");
  put_type(l, m->type);
  put(l, " = ");
  put_value(l, m->value, false);
}

static void put_if(Layout *l, const Member *m) {
  uint32_t close = m->span.end - 1, first_close = close;
  if (m->has_else) {
    uint32_t n = m->body.len;
    first_close = block_end(l, n ? m->body.at[n - 1]->span.end : m->value->span.end);
  }
  put(l, "if ");
  put_expr(l, m->value);
  put(l, " ");
  put_members(l, &m->body, first_close);
  if (!m->has_else) return;
  put(l, " else ");
  put_members(l, &m->orelse, close);
}

static void put_member(Layout *l, const Member *m) {
  switch (m->kind) {
  case MEMBER_assign:
    put_name(l, &m->name);
    put(l, " = ");
    put_value(l, m->value, false);
    break;
  case MEMBER_param:
  case MEMBER_buffer:
    put_leaf(l, m);
    break;
  case MEMBER_tie:
  case MEMBER_init:
    put(l, m->kind == MEMBER_tie ? "tie " : "init ");
    put_path(l, &m->left);
    put(l, " = ");
    if (m->kind == MEMBER_tie)
      put_path(l, &m->right);
    else
      put_value(l, m->value, false);
    break;
  case MEMBER_require:
    put_require(l, m->value, m->message);
    break;
  case MEMBER_for:
    put_loop(l, &m->loop);
    put(l, " ");
    put_members(l, &m->body, m->span.end - 1);
    break;
  case MEMBER_if:
    put_if(l, m);
    break;
  case MEMBER_step:
    put_step(l, m->step, m->span.end - 1);
    break;
  case MEMBER_error:
    break;
  }
}

/* Comments up to here go above the member. */
static uint32_t head_end(const Member *m) {
  switch (m->kind) {
  case MEMBER_assign:
  case MEMBER_param:
  case MEMBER_buffer:
  case MEMBER_init:
  case MEMBER_require:
    return m->value->span.begin;
  default:
    return m->span.begin;
  }
}

void put_members(Layout *l, const MemberList *list, uint32_t close) {
  put_block_open(l);
  for (uint32_t i = 0; i < list->len; i++) {
    const Member *m = list->at[i];
    doc_hard(&l->doc);
    put_item(l, (Item){.begin = m->span.begin,
                       .until = head_end(m),
                       .first = i == 0,
                       .blank = m->kind == MEMBER_step});
    put_member(l, m);
  }
  put_block_close(l, close, !list->len);
}
