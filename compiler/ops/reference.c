/* The op table as a page for people (`ddpc --print-ops`, docs). */
#include "ops.h"
#include "ir_text.h"
#include <string.h>

static void print_attributes(Text *out, const OpDef *d) {
  for (int i = 0; i < d->attrs; i++) {
    const AttrDef *a = &d->attr[i];
    bool list = a->kind == ATTR_axes || a->kind == ATTR_ints || a->kind == ATTR_dims;
    text_addf(out, "%s`%s", i ? ", " : "", a->name);
    if (a->has_default) {
      text_add(out, " = ");
      if (list && (a->kind == ATTR_dims ? a->value.as.dims.len : a->value.as.ints.len) < 0)
        text_add(out, "none");
      else
        ir_print_attr(out, a->kind, &a->value);
    }
    text_add(out, "`");
  }
}

/* A cell of a table: `|` would end it. */
static void print_code(Text *out, const char *code) {
  text_add(out, "`");
  for (; *code; code++) text_add_n(out, *code == '|' ? "\\|" : code, *code == '|' ? 2 : 1);
  text_add(out, "`");
}

static void print_gradients(Text *out, const OpDef *d) {
  int n = d->inputs < 0 ? 1 : d->inputs;
  for (int i = 0; i < n; i++) {
    const char *rule = d->grad[i];
    bool word = !strcmp(rule, GRAD_NONE) || !strcmp(rule, GRAD_ZERO) || !strcmp(rule, GRAD_MISSING);
    if (i) text_add(out, "; ");
    if (word)
      text_add(out, rule);
    else if (d->inputs < 0)
      text_add(out, "its part of `g`");
    else
      print_code(out, rule);
  }
}

void ops_print_table(Text *out) {
  text_add(out, "| op | inputs | attributes | forward | gradient of each input |\n");
  text_add(out, "|---|---|---|---|---|\n");
  for (int op = OP_none + 1; op < OP_COUNT; op++) {
    const OpDef *d = op_def((OpKind)op);
    text_addf(out, "| `%s` | ", d->name);
    if (d->inputs < 0)
      text_addf(out, "1 to %d", op_most_inputs(d));
    else
      text_addf(out, "%d", d->inputs);
    text_add(out, " | ");
    print_attributes(out, d);
    text_add(out, " | ");
    if (d->c)
      print_code(out, d->c);
    else if (d->body)
      print_code(out, d->body);
    text_add(out, " | ");
    print_gradients(out, d);
    text_add(out, " |\n");
  }
}
