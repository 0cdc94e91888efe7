/* ir_verify: dies unless a graph is what passes may rely on (ir.h). */
#include "die.h"
#include "op.h"

static const char *value_text(const Graph *g, Val v) {
  static Text t; /* only used on the way to die */
  t.len = 0;
  ir_print_value(&t, g, v);
  return t.at;
}

static void verify_value(const Graph *g, Val v, const char *pass) {
  const Value *x = value_at(g, v);
  check(x->op > OP_none && x->op < OP_COUNT, "after %s: graph %s: %%%u has no op", pass, g->name,
        v);
  const OpDef *d = op_def(x->op);
  bool fits =
      d->inputs < 0 ? x->inputs >= 1 && x->inputs <= op_most_inputs(d) : x->inputs == d->inputs;
  check(fits, "after %s: graph %s: %%%u: %s has %d inputs", pass, g->name, v, d->name, x->inputs);
  for (int i = 0; i < x->inputs; i++)
    check(x->in[i] != NO_VAL && x->in[i] < v, "after %s: graph %s: %s: input %d comes later", pass,
          g->name, value_text(g, v), i);
  check(x->scope < g->scopes.len, "after %s: graph %s: %s: no such scope", pass, g->name,
        value_text(g, v));
  for (int k = 0; k < d->attrs; k++)
    if (d->attr[k].kind == ATTR_graph) ir_verify(x->attr[k].as.graph, pass);
  const char *error = "";
  int code = 0;
  Value again = *x;
  Attr attrs[IR_MAX_ATTRS]; /* infer may write into them */
  if (d->attrs) memcpy(attrs, x->attr, sizeof(Attr) * (size_t)d->attrs);
  again.attr = attrs;
  check(d->infer(g, &again, &error, &code), "after %s: graph %s: %s: %s", pass, g->name,
        value_text(g, v), error);
  if (!type_equal(again.type, x->type)) {
    Text t = {0};
    type_print(&t, again.type);
    die("after %s: graph %s: %s: inferred %s", pass, g->name, value_text(g, v), t.at);
  }
}

void ir_verify(const Graph *g, const char *after_pass) {
  for (Val v = 1; v < g->values.len; v++) verify_value(g, v, after_pass);
  for (Scope s = 1; s < g->scopes.len; s++)
    check(g->scopes.at[s].parent < s && g->scopes.at[s].name,
          "after %s: graph %s: scope %u is broken", after_pass, g->name, s);
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    Val v = g->outputs.at[i].value;
    check(v != NO_VAL && v < g->values.len, "after %s: graph %s: output %u is no value", after_pass,
          g->name, i);
  }
}
