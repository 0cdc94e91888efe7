/* Walking an old graph into a new one (rewrite.h). */
#include "rewrite.h"

Rewrite rewrite_begin(const Graph *g) {
  return (Rewrite){g, graph_like(g), ARENA_ARRAY(g->arena, Val, g->values.len)};
}

Graph *rewrite_end(Rewrite *r) {
  for (uint32_t i = 0; i < r->from->outputs.len; i++) {
    const Output *o = &r->from->outputs.at[i];
    graph_output(r->to, o->kind, o->index, r->map[o->value]);
  }
  return r->to;
}

void rewrite_body(Graph *to, Val v, BodyPass *pass, const void *with) {
  Value *x = value_at(to, v);
  if (x->op != OP_scan) return;
  Attr attrs[IR_MAX_ATTRS];
  op_copy_attrs(x, attrs);
  Attr *body = &attrs[op_attr(OP_scan, "body")];
  body->as.graph = pass((Graph *)(uintptr_t)body->as.graph, with); /* makes a new one */
  x->attr = arena_copy(to->arena, attrs, sizeof *attrs * (size_t)op_def(OP_scan)->attrs);
}

static bool dims_equal(const Attr *a, const Attr *b) {
  if (a->as.dims.len != b->as.dims.len) return false;
  for (int i = 0; i < a->as.dims.len; i++)
    if (!dim_equal(a->as.dims.at[i], b->as.dims.at[i])) return false;
  return true;
}

static bool ints_equal(const Attr *a, const Attr *b) {
  if (a->as.ints.len != b->as.ints.len) return false;
  for (int i = 0; i < a->as.ints.len; i++)
    if (a->as.ints.at[i] != b->as.ints.at[i]) return false;
  return true;
}

bool rewrite_attr_equal(OpKind op, int k, const Attr *a, const Attr *b) {
  switch (op_def(op)->attr[k].kind) {
  case ATTR_int:
  case ATTR_bool:
  case ATTR_dtype:
    return a->as.i == b->as.i;
  case ATTR_float: /* by bits: 0 and -0 differ, NaN equals itself */
    return !memcmp(&a->as.f, &b->as.f, sizeof a->as.f);
  case ATTR_text:
    return a->as.text == b->as.text;
  case ATTR_graph:
    return a->as.graph == b->as.graph;
  case ATTR_dims:
    return dims_equal(a, b);
  case ATTR_axes:
  case ATTR_ints:
    return ints_equal(a, b);
  }
  return false;
}
