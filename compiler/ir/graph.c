/* Graphs: values are appended through the op table, which checks them and infers their type. */
#include "die.h"
#include "op.h"

Graph *graph_new(Arena *a, const char *name, bool training) {
  Graph *g = ARENA_NEW(a, Graph);
  g->name = name;
  g->arena = a;
  g->training = training;
  vec_push(a, &g->values, (Value){0});
  vec_push(a, &g->scopes, (ScopeInfo){0, ""});
  return g;
}

Graph *graph_like(const Graph *from) {
  Graph *g = ARENA_NEW(from->arena, Graph);
  g->name = from->name;
  g->arena = from->arena;
  g->training = from->training;
  g->values.cap = from->values.len + 8;
  g->values.at = ARENA_ARRAY(g->arena, Value, g->values.cap);
  g->values.len = 1; /* values.at[0] is unused */
  g->scopes.cap = g->scopes.len = from->scopes.len;
  g->scopes.at = arena_copy(g->arena, from->scopes.at, sizeof(ScopeInfo) * from->scopes.len);
  return g;
}

/* The place of a scope in the table: its own, or the free one where it belongs. Names are interned. */
static Scope *scope_slot(const Graph *g, Scope parent, const char *name) {
  struct {
    uintptr_t name, parent;
  } key = {(uintptr_t)name, parent};
  uint32_t at = (uint32_t)text_hash(&key, sizeof key, 0) & (g->scope_cap - 1);
  for (; g->scope_table[at]; at = (at + 1) & (g->scope_cap - 1)) {
    const ScopeInfo *s = &g->scopes.at[g->scope_table[at]];
    if (s->parent == parent && s->name == name) break;
  }
  return &g->scope_table[at];
}

static void scopes_know(Graph *g) {
  if (2 * (g->scopes.len + 1) > g->scope_cap) {
    g->scope_cap = g->scope_cap ? g->scope_cap : 64;
    while (2 * (g->scopes.len + 1) > g->scope_cap) g->scope_cap *= 2;
    g->scope_table = ARENA_ARRAY(g->arena, Scope, g->scope_cap);
    g->scopes_known = 0;
  }
  for (Scope s = g->scopes_known ? g->scopes_known : 1; s < g->scopes.len; s++)
    *scope_slot(g, g->scopes.at[s].parent, g->scopes.at[s].name) = s;
  g->scopes_known = g->scopes.len;
}

Scope graph_scope(Graph *g, Scope parent, const char *name) {
  name = text_intern(name);
  scopes_know(g);
  Scope found = *scope_slot(g, parent, name);
  if (found) return found;
  vec_push(g->arena, &g->scopes, (ScopeInfo){parent, name});
  return g->scopes.len - 1;
}

const char *graph_scope_path(Arena *a, const Graph *g, Scope s) {
  if (!s) return "";
  const ScopeInfo *info = &g->scopes.at[s];
  if (!info->parent) return info->name;
  return arena_printf(a, "%s.%s", graph_scope_path(a, g, info->parent), info->name);
}

void graph_output(Graph *g, OutputKind kind, int32_t index, Val value) {
  vec_push(g->arena, &g->outputs, (Output){kind, index, value});
}

bool ir_default_attrs(OpKind op, Attr *attrs) {
  const OpDef *d = op_def(op);
  bool all = true;
  for (int i = 0; i < d->attrs; i++) {
    attrs[i] = d->attr[i].value;
    all = all && d->attr[i].has_default;
  }
  return all;
}

static bool inputs_fit(const Graph *g, const OpDef *d, const Val *in, int n, const char **error,
                       int *code) {
  bool fits = d->inputs < 0 ? n >= 1 && n <= op_most_inputs(d) : n == d->inputs;
  if (!fits) {
    *error = d->inputs < 0 ? arena_printf(g->arena, "`%s` takes 1 to %d tensors, not %d", d->name,
                                          op_most_inputs(d), n)
                           : arena_printf(g->arena, "`%s` takes %d tensor%s, not %d", d->name,
                                          d->inputs, d->inputs == 1 ? "" : "s", n);
    *code = d->inputs >= 0 && n < d->inputs ? 503 : 505;
    return false;
  }
  for (int i = 0; i < n; i++)
    check(in[i] != NO_VAL && in[i] < g->values.len, "%s: input %d is no value", d->name, i);
  return true;
}

/* kept: attributes in an arena that may be shared where infer changes nothing in them. */
static Val append(Graph *g, Value v, const Attr *attrs, Attr *kept, const char **error, int *code) {
  const OpDef *d = op_def(v.op);
  Attr room[IR_MAX_ATTRS];
  size_t bytes = sizeof(Attr) * (size_t)d->attrs;
  if (attrs && bytes) memcpy(room, attrs, bytes);
  if (!attrs && !ir_default_attrs(v.op, room)) {
    *error = arena_printf(g->arena, "`%s` needs its attributes", d->name);
    *code = 503;
    return NO_VAL;
  }
  v.attr = room;
  if (!d->infer(g, &v, error, code)) return NO_VAL;
  if (type_elements_at(v.type, 1) > TYPE_MOST_ELEMENTS) {
    *error = arena_printf(g->arena, "the result of `%s` has more than 2^47 elements", d->name);
    *code = 421;
    return NO_VAL;
  }
  bool same = kept && bytes && !memcmp(kept, room, bytes);
  v.attr = same ? kept : bytes ? arena_copy(g->arena, room, bytes) : NULL;
  vec_push(g->arena, &g->values, v);
  return g->values.len - 1;
}

Val ir_add(Graph *g, OpKind op, const Val *in, int n, const Attr *attrs, Span at, Scope scope,
           const char **error, int *code) {
  if (!inputs_fit(g, op_def(op), in, n, error, code)) return NO_VAL;
  Value v = {.op = op, .inputs = (uint8_t)n, .at = at, .scope = scope};
  for (int i = 0; i < n; i++) v.in[i] = in[i];
  return append(g, v, attrs, NULL, error, code);
}

Val ir_must(Graph *g, OpKind op, const Val *in, int n, const Attr *attrs, Span at, Scope scope) {
  const char *error = "";
  int code = 0;
  Val v = ir_add(g, op, in, n, attrs, at, scope, &error, &code);
  check(v, "%s: %s (E%04d)", op_def(op)->name, error, code);
  return v;
}

Val ir_const(Graph *g, double v, DType dtype, Span at, Scope scope) {
  Attr attrs[IR_MAX_ATTRS] = {{.as.f = v}, {.as.i = dtype}};
  return ir_must(g, OP_const, NULL, 0, attrs, at, scope);
}

Val ir_leaf(Graph *g, OpKind op, int64_t index, Type type, Span at, Scope scope) {
  Attr attrs[IR_MAX_ATTRS] = {{.as.i = index}, {.as.i = type.dtype}};
  attrs[2].as.dims.len = type.rank;
  for (int i = 0; i < type.rank; i++) attrs[2].as.dims.at[i] = type.dim[i];
  return ir_must(g, op, NULL, 0, attrs, at, scope);
}

bool ir_is_const(const Graph *g, Val v, double *out) {
  const Value *x = value_at(g, v);
  if (x->op != OP_const) return false;
  *out = x->attr[0].as.f;
  return true;
}

bool ir_is_uniform(const Graph *g, Val v, double *out) {
  const Value *x = value_at(g, v);
  /* every view but pad only picks elements */
  while (op_has(x->op, OPF_view) && x->op != OP_pad && x->inputs == 1) x = value_at(g, x->in[0]);
  if (x->op != OP_const) return false;
  *out = x->attr[0].as.f;
  return true;
}

static Scope scope_copy(Graph *to, const Graph *from, Scope s) {
  if (!s) return 0;
  const ScopeInfo *info = &from->scopes.at[s];
  if (s < to->scopes.len && to->scopes.at[s].name == info->name &&
      to->scopes.at[s].parent == info->parent)
    return s; /* the usual case: `to` was made by graph_like */
  return graph_scope(to, scope_copy(to, from, info->parent), info->name);
}

Val ir_copy(Graph *to, const Graph *from, Val v, const Val *map) {
  Value x = *value_at(from, v);
  for (int i = 0; i < x.inputs; i++) x.in[i] = map[x.in[i]];
  x.scope = scope_copy(to, from, x.scope);
  const char *error = "";
  int code = 0;
  bool fits = inputs_fit(to, op_def(x.op), x.in, x.inputs, &error, &code);
  Val copy = fits ? append(to, x, x.attr, x.attr, &error, &code) : NO_VAL;
  check(copy, "%s: %s (E%04d)", op_def(x.op)->name, error, code);
  return copy;
}
