/* Calls of operators of C headers. In: a call whose formals and sizes are bound. Out: OP_extern with all
   that was known at the call (extern.h); where the target has no code for the operator, its body.
   Gradients are made when passes/grad asks for them, as graphs over the inputs, y and g. */
#include "call.h"
#include "expr.h"
#include "extern.h"
#include "external.h"
#include "fold.h"
#include "op.h"
#include "ops.h"
#include "signature.h"
#include <string.h>

typedef struct Origin { /* of an ExternalCall */
  Program *program;
  const NativeOp *op;
  File *file;
  const Datum *values; /* by formal; of inputs: unused */
  bool training;
  DType compute;
  Span at;
} Origin;

static const NativeOp *find_op(const File *file, const Decl *decl) {
  const Natives *n = file->natives;
  for (uint32_t i = 0; i < n->ops.len; i++)
    if (n->ops.at[i].decl == decl) return &n->ops.at[i];
  return NULL;
}

/* ---------- graphs of bodies and gradients ---------- */

typedef struct Template {
  Graph *graph;
  Build build;
  Eval eval;
  Env *env; /* formals, sizes */
  CallArgs args;
} Template;

static bool begin_template(Template *t, const Origin *o, const ExternalCall *call) {
  Arena *a = o->program->arena;
  const Decl *d = o->op->decl;
  t->graph = graph_new(a, call->name, o->training);
  t->build = (Build){.graph = t->graph, .host_dtype = o->compute, .compute = o->compute};
  t->eval = eval_new(o->program, &t->build, NULL, o->training);
  CallArg *args = ARENA_ARRAY(a, CallArg, d->formals.len);
  int input = 0;
  for (uint32_t i = 0; i < d->formals.len; i++) {
    const Formal *f = &d->formals.at[i];
    args[i] = (CallArg){.name = f->name, .value = o->values[i], .at = f->span};
    if (!external_is_tensor(f)) continue;
    Val v = ir_leaf(t->graph, OP_input, input, call->in[input], f->span, 0);
    args[i].value = datum_tensor(v);
    input++;
  }
  t->args = (CallArgs){args, d->formals.len};
  t->env = env_new(a, NULL, o->file);
  Signature s = {call->name, d->formals, d->name.span};
  return signature_bind(&t->eval, &s, t->args, t->env, d->name.span) == BOUND_ok;
}

/* A body is arithmetic on its inputs: what needs a step around it has no meaning in there. */
static bool is_pure(const Graph *g, Span at) {
  for (Val v = 1; v < g->values.len; v++) {
    OpKind op = value_at(g, v)->op;
    bool fine = op == OP_input || op == OP_const || op == OP_dimval || op == OP_arange;
    if (!op_has(op, OPF_source) || fine) continue;
    diag_report(DIAG_E0909, at, "draws, settings and buffers have no place in an operator");
    return false;
  }
  return true;
}

static const Graph *end_template(Template *t, Datum d, Span at) {
  Val v;
  if (d.kind == DATUM_error || !need_tensor(&t->eval, d, at, "this", &v)) return NULL;
  if (!is_pure(t->graph, at)) return NULL;
  graph_output(t->graph, OUT_value, 0, v);
  return t->graph;
}

static Datum body_value(Eval *e, const NativeOp *op, Env *env, CallArgs args, Span at) {
  if (!op->body) return eval_expr(e, op->decl->value, env);
  Datum def = file_value(e, op->body_file, op->body, at);
  return eval_call(e, def, args, at);
}

static bool has_body(const NativeOp *op) {
  return op->body || op->decl->value;
}

static const Graph *make_meaning(const Origin *o, const ExternalCall *call) {
  Template t;
  Span at = o->op->c->note[NOTE_body].text;
  if (!begin_template(&t, o, call)) return NULL;
  Datum d = body_value(&t.eval, o->op, t.env, t.args, at);
  if (!signature_result(&t.eval, call->name, o->op->decl->type, t.env, d, at)) return NULL;
  return end_template(&t, d, at);
}

/* ---------- calls ---------- */

static bool settle_number(Eval *e, const Formal *f, DType dtype, Datum d, Span at, double *out) {
  bool b = false;
  int64_t i = 0;
  const char *what = f->name;
  switch (dtype_category(dtype)) {
  case 'b':
    if (!need_bool(e, d, at, what, &b)) return false;
    *out = b;
    return true;
  case 'i':
    if (!need_int(e, d, at, what, &i)) return false;
    *out = (double)i;
    if ((int64_t)*out == i && (dtype != DT_i32 || (int32_t)i == i)) return true;
    eval_report(e, DIAG_E0501, at, "`%s` = %lld is too large for the C function", what,
                (long long)i);
    return false;
  default:
    return need_number(e, d, at, what, out);
  }
}

/* The tensor as the C function reads it: numbers get its type, tensors must have it. */
static bool settle_input(Eval *e, const Formal *f, Binding *b, Val *out) {
  DType want = DT_f32;
  external_dtype(f->type, &want);
  if (!need_tensor(e, b->value, b->at, f->name, out)) return false;
  DType is = value_at(e->build->graph, *out)->type.dtype;
  if (is == want) return true;
  if (b->value.kind == DATUM_tensor || b->value.kind == DATUM_leaf) {
    eval_report(e, DIAG_E0506, b->at, "the C function reads `%s` as %s, this is %s", f->name,
                dtype_name(want), datum_describe(e, b->value));
    diag_help("`cast(%s, %s)` converts", f->name, dtype_name(want));
    return false;
  }
  Attr attr = {.as.i = (int64_t)want};
  Datum d = emit_op(e, OP_cast, out, 1, &attr, b->at);
  return d.kind != DATUM_error && need_tensor(e, d, b->at, f->name, out);
}

static Binding *bound_formal(Env *env, const Formal *f) {
  return env_find(env, text_intern(f->name));
}

static bool settle_inputs(Eval *e, const Decl *d, Env *env, ExternalCall *call, Val *in,
                          Datum *values) {
  for (uint32_t i = 0; i < d->formals.len; i++) {
    const Formal *f = &d->formals.at[i];
    Binding *b = bound_formal(env, f);
    values[i] = b->value;
    if (!external_is_tensor(f)) continue;
    if (!settle_input(e, f, b, &in[call->inputs])) return false;
    call->in[call->inputs] = value_at(e->build->graph, in[call->inputs])->type;
    call->inputs++;
  }
  return true;
}

static int input_number(const Decl *d, uint32_t formal) {
  int n = 0;
  for (uint32_t i = 0; i < formal; i++) n += external_is_tensor(&d->formals.at[i]);
  return n;
}

static bool settle_args(Eval *e, const NativeOp *op, Env *env, ExternalCall *call) {
  for (uint32_t i = 0; i < op->roles.len; i++) {
    const Role *r = &op->roles.at[i];
    const Formal *f = &op->decl->formals.at[r->formal];
    ExternalArg arg = {.dtype = r->dtype};
    if (r->kind == ROLE_result) {
      arg.kind = EXTERNAL_result;
    } else if (r->kind == ROLE_input) {
      arg.kind = EXTERNAL_input;
      arg.input = input_number(op->decl, r->formal);
    } else if (r->kind == ROLE_attribute) {
      Binding *b = bound_formal(env, f);
      arg.kind = EXTERNAL_number;
      if (!settle_number(e, f, r->dtype, b->value, b->at, &arg.number)) return false;
    } else {
      Datum d = eval_expr(e, r->size, env);
      arg.kind = EXTERNAL_size;
      if (d.kind == DATUM_error || !need_dim(e, d, r->size->span, "a size", &arg.size))
        return false;
    }
    vec_push(e->arena, &call->args, arg);
  }
  return true;
}

static Datum emit_call(Eval *e, const ExternalCall *call, const Val *in, Span at) {
  Attr attrs[4] = {{.as.i = external_add(call)},
                   {.as.text = text_intern(call->name)},
                   {.as.i = (int64_t)call->result.dtype},
                   {.as.dims.len = call->result.rank}};
  for (int i = 0; i < call->result.rank; i++) attrs[3].as.dims.at[i] = call->result.dim[i];
  return emit_op(e, OP_extern, in, call->inputs, attrs, at);
}

/* Formals of the call as arguments of its body. */
static CallArgs body_args(Eval *e, const Decl *d, Env *env) {
  CallArg *args = ARENA_ARRAY(e->arena, CallArg, d->formals.len);
  for (uint32_t i = 0; i < d->formals.len; i++) {
    Binding *b = bound_formal(env, &d->formals.at[i]);
    args[i] = (CallArg){.name = d->formals.at[i].name, .value = b->value, .at = b->at};
  }
  return (CallArgs){args, d->formals.len};
}

Datum external_call(Eval *e, const Closure *c, Env *env, Span at) {
  const NativeOp *op = find_op(c->file, c->decl);
  const Decl *d = c->decl;
  if (!c->file->natives->compiled)
    return body_value(e, op, env, body_args(e, d, env), op->c->note[NOTE_body].text);
  if (!e->build) {
    eval_report(e, DIAG_E0508, at, "`%s` runs in a graph, not while compiling", d->name.text);
    return datum_error();
  }
  ExternalCall *call = ARENA_NEW(e->arena, ExternalCall);
  *call = (ExternalCall){.name = d->name.text, .function = op->c->name};
  Val in[IR_MAX_INPUTS];
  Datum *values = ARENA_ARRAY(e->arena, Datum, d->formals.len);
  if (!settle_inputs(e, d, env, call, in, values) || !settle_args(e, op, env, call) ||
      !eval_dims(e, d->type, env, &call->result))
    return datum_error();
  Origin *o = ARENA_NEW(e->arena, Origin);
  *o = (Origin){e->program, op, c->file, values, e->training, e->build->compute, at};
  call->origin = o;
  if (has_body(op)) {
    call->meaning = make_meaning(o, call);
    if (!call->meaning) return datum_error();
  }
  return emit_call(e, call, in, at);
}

/* ---------- gradients ---------- */

static const Origin *origin_of(const Value *v) {
  return external_of(v)->origin;
}

static const Formal *input_formal(const Decl *d, int input) {
  uint32_t i = 0;
  for (int n = 0;; i++) {
    if (!external_is_tensor(&d->formals.at[i])) continue;
    if (n++ == input) return &d->formals.at[i];
  }
}

static const Expr *named_gradient(const NativeOp *op, int input) {
  const char *name = input_formal(op->decl, input)->name;
  for (uint32_t i = 0; op->grad && i < op->grad->as.call.args.len; i++) {
    const Arg *arg = &op->grad->as.call.args.at[i];
    if (!strcmp(arg->name, name)) return arg->value;
  }
  return NULL;
}

static const char *type_words(Arena *a, Type t) {
  Text text = {0};
  type_print(&text, t);
  const char *kept = arena_strdup(a, text.at);
  text_free(&text);
  return kept;
}

ExternalGrad sema_external_grad(const Value *v, int input) {
  const NativeOp *op = origin_of(v)->op;
  const Expr *x = named_gradient(op, input);
  if (x) return x->kind == EXPR_none ? EXTERNAL_GRAD_none : EXTERNAL_GRAD_named;
  return has_body(op) ? EXTERNAL_GRAD_body : EXTERNAL_GRAD_missing;
}

const Graph *sema_external_gradient(const Value *v, int input) {
  const ExternalCall *call = external_of(v);
  const Origin *o = call->origin;
  const Expr *x = named_gradient(o->op, input);
  Arena *a = o->program->arena;
  Template t;
  if (!begin_template(&t, o, call)) return NULL;
  Val y = ir_leaf(t.graph, OP_input, call->inputs, call->result, x->span, 0);
  Val g = ir_leaf(t.graph, OP_input, call->inputs + 1, call->result, x->span, 0);
  env_define(a, t.env, text_intern("y"), datum_tensor(y), BIND_local, x->span);
  env_define(a, t.env, text_intern("g"), datum_tensor(g), BIND_local, x->span);
  CallGuard guard;
  if (!call_enter(&t.eval, &guard, call->name, o->op->decl, o->at)) return NULL;
  Datum d = eval_expr(&t.eval, x, t.env);
  const Graph *made = end_template(&t, d, x->span);
  call_leave(&t.eval, &guard);
  if (!made) return NULL;
  Type is = value_at(made, made->outputs.at[0].value)->type, want = call->in[input];
  if (is.rank == want.rank && dtype_category(is.dtype) == 'f') {
    bool same = true;
    for (int i = 0; i < is.rank; i++) same = same && dim_equal(is.dim[i], want.dim[i]);
    if (same) return made;
  }
  diag_report(DIAG_E0909, x->span, "the gradient of `%s`: expected %s, here stands %s",
              input_formal(o->op->decl, input)->name, type_words(a, want), type_words(a, is));
  return NULL;
}

void sema_external_missing(const Value *v, int input) {
  const Origin *o = origin_of(v);
  const Decl *d = o->op->decl;
  const char *name = input_formal(d, input)->name;
  diag_report(DIAG_E0910, v->at, "`%s` has no gradient for `%s`, and the loss depends on it",
              d->name.text, name);
  diag_note(d->name.span, "its header gives neither DDP_GRAD(%s = ...) nor DDP_BODY", name);
  diag_help("add one of them to the header, or `detach` the argument");
}
