/* Rules of the op table (gradients, decompositions): texts in the expression language over g, x0.., y
   and the attributes of y, evaluated into the graph. Ops are callable by name, inputs first, then
   attributes in the order of their row; no library takes part. Each text is parsed once. */
#include "builtin.h"
#include "die.h"
#include "expr.h"
#include "fold.h"
#include "op.h"
#include "parse.h"
#include "sema.h"
#include <string.h>

typedef struct Rule {
  const char *text;
  const Expr *expr;
} Rule;

typedef struct Rules {
  Arena *arena;
  Program *program;
  File file; /* no declarations */
  VEC(Rule) parsed;
} Rules;

static Rules *rules(void) {
  static Rules r;
  if (!r.arena) {
    r.arena = arena_new();
    r.program = program_new(r.arena);
    r.program->bare = true;
    r.file.path = "<rule>";
    r.file.library = true;
  }
  return &r;
}

static const Expr *rule_expr(Rules *r, const char *text) {
  for (uint32_t i = 0; i < r->parsed.len; i++)
    if (r->parsed.at[i].text == text) return r->parsed.at[i].expr;
  Expr *x = parse_expression(r->arena, source_add("<rule>", text, strlen(text)));
  if (!x) die("rule does not parse: %s", text);
  Rule rule = {text, x};
  vec_push(r->arena, &r->parsed, rule);
  return x;
}

/* ---------- attributes as values ---------- */

static Datum attr_value(Arena *a, AttrKind kind, const Attr *attr) {
  Datum items[IR_MAX_RANK];
  int n = 0;
  switch (kind) {
  case ATTR_int:
    return datum_int(attr->as.i);
  case ATTR_bool:
    return datum_bool(attr->as.i != 0);
  case ATTR_float:
    return datum_float(attr->as.f);
  case ATTR_text:
    return datum_text(attr->as.text ? attr->as.text : "");
  case ATTR_dtype:
    return datum_dtype((DType)attr->as.i);
  case ATTR_graph: /* no rule reads one */
    return datum_none();
  case ATTR_axes:
  case ATTR_ints:
    if (attr->as.ints.len < 0) return datum_none();
    for (n = 0; n < attr->as.ints.len; n++) items[n] = datum_int(attr->as.ints.at[n]);
    break;
  case ATTR_dims:
    if (attr->as.dims.len < 0) return datum_none();
    for (n = 0; n < attr->as.dims.len; n++) items[n] = datum_dim(attr->as.dims.at[n]);
    break;
  }
  return datum_list(a, items, (uint32_t)n);
}

static bool list_attr(Eval *e, AttrKind kind, Datum d, Span at, Attr *out) {
  DatumList list = {&d, 1};
  if (d.kind == DATUM_list || d.kind == DATUM_tuple) list = d.as.list;
  if (kind == ATTR_dims) return dims_of(e, d, at, "this list", out);
  out->as.ints.len = (int)list.len;
  for (uint32_t i = 0; i < list.len && i < IR_MAX_RANK; i++)
    if (!need_int(e, list.at[i], at, "an item", &out->as.ints.at[i])) return false;
  return list.len <= IR_MAX_RANK;
}

bool attr_from(Eval *e, AttrKind kind, Datum d, Span at, Attr *out) {
  bool b = false;
  switch (kind) {
  case ATTR_int:
    return need_int(e, d, at, "this attribute", &out->as.i);
  case ATTR_float:
    return need_number(e, d, at, "this attribute", &out->as.f);
  case ATTR_bool:
    if (!need_bool(e, d, at, "this attribute", &b)) return false;
    out->as.i = b;
    return true;
  case ATTR_text:
    return need_text(e, d, at, "this attribute", &out->as.text);
  case ATTR_dtype:
    if (d.kind != DATUM_dtype) return false;
    out->as.i = d.as.dtype;
    return true;
  default:
    return list_attr(e, kind, d, at, out);
  }
}

/* ---------- ops by their own name ---------- */

static bool defaults(const OpDef *def, Attr *attr) {
  for (int k = 0; k < def->attrs; k++)
    if (def->attr[k].has_default) attr[k] = def->attr[k].value;
  return true;
}

Datum op_call(Eval *e, OpKind op, CallArgs args, Span at) {
  const OpDef *def = op_def(op);
  Datum in[IR_MAX_INPUTS];
  Val v[IR_MAX_INPUTS];
  Attr attr[IR_MAX_ATTRS] = {0};
  int n = 0, next = 0;
  defaults(def, attr);
  for (uint32_t i = 0; i < args.len; i++) {
    const CallArg *a = &args.at[i];
    /* ops with any number of inputs: the tensors; `none` stands for one that is not there */
    bool any = def->inputs < 0 && !next && n < IR_MAX_INPUTS;
    if (any && a->value.kind == DATUM_none) continue;
    if (!a->name && (any ? a->value.kind == DATUM_tensor : n < def->inputs)) {
      in[n++] = a->value;
      continue;
    }
    int k = a->name ? op_attr(op, a->name) : next++;
    if (k < 0 || k >= def->attrs) die("rule: too many arguments for `%s`", def->name);
    if (a->value.kind == DATUM_none) continue;
    if (!attr_from(e, def->attr[k].kind, a->value, a->at, &attr[k])) return datum_error();
  }
  if ((def->flags & OPF_elementwise) && !def->attrs) return fold_elementwise(e, op, in, n, at);
  for (int i = 0; i < n; i++)
    if (!need_tensor(e, in[i], at, "this argument", &v[i])) return datum_error();
  return emit_op(e, op, v, n, attr, at);
}

static Datum rule_op(Eval *e, const Builtin *b, const BuiltinCall *c) {
  CallArg *args = ARENA_ARRAY(e->arena, CallArg, c->n + 1);
  for (uint32_t i = 0; i < c->n; i++) args[i] = (CallArg){NULL, c->value[i], c->span[i]};
  return op_call(e, (OpKind)b->op, (CallArgs){args, c->n}, c->at);
}

/* The functions about shapes stay what they are in a rule. */
static bool about_shapes(const char *name) {
  static const char *const shapes[] = {"shape", "ndim", "size",  "numel",
                                       "len",   "prod", "dtype", "cast"};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    if (!strcmp(name, shapes[i])) return true;
  return false;
}

/* Names in a rule: the ops of the table. */
const Builtin *rule_builtin(const char *name) {
  static Builtin ops[OP_COUNT];
  OpKind op;
  if (about_shapes(name) || !op_find(name, &op)) return NULL;
  ops[op] = (Builtin){op_def(op)->name, "*", rule_op, NULL, (int)op};
  return &ops[op];
}

/* ---------- entry ---------- */

static Env *rule_scope(Rules *r, const Graph *g, Val y, Val gradient) {
  Env *env = env_new(r->arena, NULL, &r->file);
  Span at = {0};
  const Value *v = value_at(g, y);
  const OpDef *def = op_def(v->op);
  static const char *const inputs[IR_MAX_LISTED] = {"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"};
  env_define(r->arena, env, text_intern("y"), datum_tensor(y), BIND_local, at);
  if (gradient != NO_VAL)
    env_define(r->arena, env, text_intern("g"), datum_tensor(gradient), BIND_local, at);
  int most = def->inputs == -1 ? IR_MAX_LISTED : v->inputs;
  for (int i = 0; i < most; i++)
    env_define(r->arena, env, text_intern(inputs[i]),
               i < v->inputs ? datum_tensor(v->in[i]) : datum_none(), BIND_local, at);
  for (int i = 0; i < def->attrs; i++) /* shape(y) says what an attribute `shape` would */
    if (!about_shapes(def->attr[i].name))
      env_define(r->arena, env, text_intern(def->attr[i].name),
                 attr_value(r->arena, def->attr[i].kind, &v->attr[i]), BIND_local, at);
  return env;
}

Val sema_eval_rule(Graph *g, const char *text, Val y, Val gradient, Scope scope) {
  Rules *r = rules();
  const Expr *x = rule_expr(r, text);
  Build build = {.graph = g, .host_dtype = DT_f32, .compute = DT_f32};
  Eval e = eval_new(r->program, &build, NULL, g->training);
  e.scope = scope;
  Val result;
  Val first = g->values.len;
  Datum d = eval_expr(&e, x, rule_scope(r, g, y, gradient));
  Span at = value_at(g, y)->at; /* what a rule makes stands where y stands in the job */
  for (Val i = first; i < g->values.len; i++) value_at(g, i)->at = at;
  if (d.kind == DATUM_int || d.kind == DATUM_float) {
    double n = 0;
    datum_number(d, &n);
    DType t = value_at(g, y)->type.dtype;
    return ir_const(g, n, dtype_category(t) == 'f' ? t : DT_f32, at, scope);
  }
  if (d.kind == DATUM_error || !need_tensor(&e, d, x->span, "the rule", &result)) return NO_VAL;
  return result;
}
