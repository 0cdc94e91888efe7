/* Graph -> text that ir_parse reads back. Places in the job are written for people and not read. */
#include "op.h"
#include "ir_text.h"
#include <inttypes.h>

const char *const ir_output_names[] = {
    [OUT_loss] = "loss",     [OUT_grad] = "grad",       [OUT_buffer] = "buffer",
    [OUT_sum] = "sum",       [OUT_metric] = "metric",   [OUT_state] = "state",
    [OUT_result] = "result", [OUT_carried] = "carried", [OUT_yield] = "yield",
    [OUT_value] = "value",
};
const int ir_output_kinds = sizeof ir_output_names / sizeof *ir_output_names;

static void print_list(Text *out, AttrKind kind, const Attr *a) {
  text_add(out, "[");
  int len = kind == ATTR_dims ? a->as.dims.len : a->as.ints.len;
  for (int i = 0; i < len; i++) {
    if (i) text_add(out, ",");
    if (kind == ATTR_dims)
      dim_print(out, a->as.dims.at[i]);
    else
      text_addf(out, "%" PRId64, a->as.ints.at[i]);
  }
  text_add(out, "]");
}

static void print_text(Text *out, const char *s) {
  text_add(out, "\"");
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') text_add(out, "\\");
    text_add_n(out, s, 1);
  }
  text_add(out, "\"");
}

void ir_print_attr(Text *out, AttrKind kind, const Attr *a) {
  switch (kind) {
  case ATTR_int:
    text_addf(out, "%" PRId64, a->as.i);
    break;
  case ATTR_float:
    text_add_double(out, a->as.f);
    break;
  case ATTR_bool:
    text_add(out, a->as.i ? "true" : "false");
    break;
  case ATTR_text:
    print_text(out, a->as.text);
    break;
  case ATTR_axes:
  case ATTR_ints:
  case ATTR_dims:
    print_list(out, kind, a);
    break;
  case ATTR_dtype:
    text_add(out, dtype_name((DType)a->as.i));
    break;
  case ATTR_graph:
    break;
  }
}

static bool list_is_unset(AttrKind kind, const Attr *a) {
  if (kind == ATTR_dims) return a->as.dims.len < 0;
  return (kind == ATTR_axes || kind == ATTR_ints) && a->as.ints.len < 0;
}

static void print_body(Text *out, const Graph *g, const char *indent);

static void print_line(Text *out, const Graph *g, Val v, const char *indent) {
  const Value *x = value_at(g, v);
  const OpDef *d = op_def(x->op);
  text_addf(out, "%%%u = %s", v, d->name);
  for (int i = 0; i < x->inputs; i++) text_addf(out, "%s %%%u", i ? "," : "", x->in[i]);
  for (int i = 0; i < d->attrs; i++) {
    if (list_is_unset(d->attr[i].kind, &x->attr[i])) continue;
    text_addf(out, " %s=", d->attr[i].name);
    if (d->attr[i].kind != ATTR_graph) {
      ir_print_attr(out, d->attr[i].kind, &x->attr[i]);
      continue;
    }
    text_add(out, "{\n");
    print_body(out, x->attr[i].as.graph, arena_printf(g->arena, "%s  ", indent));
    text_addf(out, "%s}", indent);
  }
  text_add(out, " : ");
  type_print(out, x->type);
  if (x->region) text_addf(out, " again=%u", x->region);
  if (x->kept) text_add(out, " kept");
  if (!x->scope && !x->at.file) return;
  text_add(out, "   ;");
  if (x->scope) text_addf(out, " %s", graph_scope_path(g->arena, g, x->scope));
  if (x->at.file) {
    Place p = source_place(x->at.file, x->at.begin);
    text_addf(out, " %s:%u", p.path, p.line);
  }
}

void ir_print_value(Text *out, const Graph *g, Val v) {
  print_line(out, g, v, "");
}

/* Values and outputs, a line each. */
static void print_body(Text *out, const Graph *g, const char *indent) {
  for (Val v = 1; v < g->values.len; v++) {
    text_add(out, indent);
    print_line(out, g, v, indent);
    text_add(out, "\n");
  }
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    const Output *o = &g->outputs.at[i];
    text_addf(out, "%sout %s %d %%%u\n", indent, ir_output_names[o->kind], o->index, o->value);
  }
}

void ir_print(Text *out, const Graph *g) {
  text_addf(out, "graph %s%s {\n", g->name, g->training ? " training" : "");
  print_body(out, g, "  ");
  text_add(out, "}\n");
}
