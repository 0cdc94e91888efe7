/* Calls: functions are inlined, modules give descriptions, instances run their forward. */
#include "call.h"
#include "builtin.h"
#include "expr.h"
#include "kernel.h"
#include "signature.h"
#include <string.h>

enum { DEPTH_LIMIT = 256 };

static bool enter(Eval *e, CallGuard *g, Frame frame, const char *scope) {
  *g = (CallGuard){.caller = e->frame, .scope = e->scope, .frame = frame};
  g->frame.caller = e->frame;
  g->frame.depth = e->frame ? e->frame->depth + 1 : 1;
  if (g->frame.depth > DEPTH_LIMIT) {
    eval_report(e, DIAG_E0519, frame.at, "calls are nested more than %d deep", DEPTH_LIMIT);
    return false;
  }
  if (!count_work(e, frame.at)) return false;
  e->frame = &g->frame;
  if (e->build) e->scope = graph_scope(e->build->graph, e->scope, text_intern(scope));
  return true;
}

bool call_enter(Eval *e, CallGuard *g, const char *what, const Decl *decl, Span at) {
  return enter(e, g, (Frame){.what = what, .decl = decl, .at = at}, what);
}

/* The path of an instance below the one whose forward runs: "layers.0". */
static const char *path_below(const Eval *e, const Instance *i) {
  const Frame *f = e->frame;
  while (f && !f->instance) f = f->caller;
  const char *path = instance_name(i);
  size_t n = f ? strlen(f->instance->path) : 0;
  bool below = n && i->path[0] && !strncmp(path, f->instance->path, n) && path[n] == '.';
  return below ? path + n + 1 : path;
}

bool call_enter_instance(Eval *e, CallGuard *g, const Instance *i, Span at) {
  Frame f = {.what = instance_name(i), .decl = i->decl, .instance = i, .at = at};
  return enter(e, g, f, path_below(e, i));
}

void call_leave(Eval *e, const CallGuard *g) {
  e->frame = g->caller;
  e->scope = g->scope;
}

/* ---------- functions ---------- */

static Datum with_args(Eval *e, DatumKind kind, const Closure *from, CallArgs args, Span at) {
  Closure *c = ARENA_NEW(e->arena, Closure);
  *c = *from;
  CallArg *copy = args.len ? arena_copy(e->arena, args.at, sizeof *args.at * args.len) : NULL;
  c->args = (CallArgs){copy, args.len};
  c->at = at;
  return (Datum){.kind = kind, .as.closure = c};
}

/* A description that a def returns counts as made by it, for kinds in paths. */
static Datum tag_description(Eval *e, Datum d, const Closure *made_by) {
  if (d.kind == DATUM_module && d.as.closure->called) {
    Closure *c = ARENA_NEW(e->arena, Closure);
    *c = *d.as.closure;
    Closure *link = ARENA_NEW(e->arena, Closure);
    *link = *made_by;
    link->made_by = c->made_by;
    c->made_by = link;
    d.as.closure = c;
  }
  return d;
}

static Datum body_value(Eval *e, const Decl *d, Env *env) {
  if (!d->has_body) return eval_expr(e, d->value, env);
  if (!eval_stmts(e, d->body, env)) return datum_error();
  return eval_returns(e, d->returns, env);
}

static Datum function_body(Eval *e, const Decl *d, Env *env, Span at) {
  KernelCall kernel;
  bool has_kernel = kernel_begin(&kernel, e, d, env, at);
  Datum body = body_value(e, d, env);
  return has_kernel ? kernel_end(&kernel, body) : body;
}

static Span result_place(const Decl *d) {
  if (!d->has_body) return d->value->span;
  return d->returns.len ? d->returns.at[0]->span : d->span;
}

static Datum function_call(Eval *e, const Closure *c, CallArgs args, Span at) {
  const Decl *d = c->decl;
  Env *env = env_new(e->arena, NULL, c->file);
  Signature s = {d->name.text, d->formals, d->name.span};
  CallGuard g;
  /* Defaults and the dimensions of formals belong to the definition; mistakes in the arguments to
     the caller, who is still on top of the chain. */
  Bound bound = signature_bind(e, &s, args, env, at);
  if (bound == BOUND_waits) return with_args(e, DATUM_recipe, c, args, at);
  if (bound == BOUND_wrong) return datum_error();
  if (!call_enter(e, &g, d->name.text, d, at)) return datum_error();
  Datum result = c->file->natives ? external_call(e, c, env, at) : function_body(e, d, env, at);
  Span place = c->file->natives ? d->type->span : result_place(d);
  if (d->type && result.kind != DATUM_error && result.kind != DATUM_draw &&
      !signature_result(e, d->name.text, d->type, env, result, place))
    result = datum_error();
  call_leave(e, &g);
  return tag_description(e, result, c);
}

/* ---------- modules ---------- */

static Datum describe(Eval *e, const Closure *c, CallArgs args, Span at) {
  if (c->called) {
    eval_report(e, DIAG_E0513, at,
                "a description of `%s` cannot be called; a module comes to be where it is assigned "
                "to a member",
                c->decl->name.text);
    return datum_error();
  }
  const Decl *d = c->decl;
  Signature s = {d->name.text, d->formals, d->name.span};
  Env *env = env_new(e->arena, NULL, c->file);
  Eval outer = *e; /* descriptions know no tensors */
  outer.build = NULL;
  Bound bound = signature_bind(&outer, &s, args, env, at);
  if (bound == BOUND_waits) return with_args(e, DATUM_recipe, c, args, at);
  if (bound == BOUND_wrong) return datum_error();
  Datum out = with_args(e, DATUM_module, c, args, at);
  Closure *made = ARENA_NEW(e->arena, Closure);
  *made = *out.as.closure;
  made->called = true;
  made->bound = env;
  out.as.closure = made;
  return out;
}

const char *instance_name(const Instance *i) {
  if (i->path[0]) return i->path;
  return i->model ? i->model : i->decl ? i->decl->name.text : "list of modules";
}

static const Step *step_of(const MemberList *members, bool update) {
  for (uint32_t i = 0; i < members->len; i++) {
    const Member *m = members->at[i];
    if (m->kind == MEMBER_step && m->step->is_update == update) return m->step;
  }
  return NULL;
}

/* Items in order, each with the one result of the one before. */
static Datum chain_call(Eval *e, const Datum *item, uint32_t n, CallArgs args, Span at) {
  if (args.len != 1 || args.at[0].name) {
    eval_report(e, args.len ? DIAG_E0505 : DIAG_E0503, at,
                "a list of modules takes one argument, by position");
    return datum_error();
  }
  CallArg arg = args.at[0];
  for (uint32_t i = 0; i < n; i++) {
    arg.value = eval_call(e, item[i], (CallArgs){&arg, 1}, at);
    if (arg.value.kind == DATUM_error) return arg.value;
    if (arg.value.kind == DATUM_tuple && i + 1 < n) {
      eval_report(e, DIAG_E0611, at,
                  "item %u of this list gives %u results, the next one takes one", i,
                  arg.value.as.list.len);
      return datum_error();
    }
  }
  return arg.value;
}

static Datum list_call(Eval *e, Instance *i, CallArgs args, Span at) {
  uint32_t n = i->children.len;
  Datum *items = ARENA_ARRAY(e->arena, Datum, n ? n : 1);
  for (uint32_t k = 0; k < n; k++) items[k] = datum_instance(i->children.at[k].instance);
  return chain_call(e, items, n, args, at);
}

static Datum forward(Eval *e, Instance *i, const Step *step, CallArgs args, Span at) {
  const char *name = instance_name(i);
  Env *env = env_new(e->arena, i->env, NULL);
  Signature s = {name, step->formals, step->span};
  CallGuard g;
  Bound bound = signature_bind(e, &s, args, env, at);
  if (bound == BOUND_waits) {
    eval_report(e, DIAG_E0503, at, "`%s` needs all of its arguments", name);
    return datum_error();
  }
  if (bound == BOUND_wrong || !call_enter_instance(e, &g, i, at)) return datum_error();
  Datum result = datum_error();
  if (eval_stmts(e, step->body, env)) result = eval_returns(e, step->returns, env);
  Span place = step->returns.len ? step->returns.at[0]->span : step->span;
  if (step->result && result.kind != DATUM_error &&
      !signature_result(e, name, step->result, env, result, place))
    result = datum_error();
  call_leave(e, &g);
  return result;
}

/* `forward` that reaches its own instance again, through the name of its model. */
static bool runs_already(const Eval *e, const Instance *i) {
  for (const Frame *f = e->frame; f; f = f->caller)
    if (f->instance == i) return true;
  return false;
}

Datum instance_call(Eval *e, Instance *i, CallArgs args, Span at) {
  if (!e->build) {
    eval_report(e, DIAG_E0508, at, "`%s` runs in a graph, not while compiling", instance_name(i));
    return datum_error();
  }
  if (runs_already(e, i)) {
    eval_report(e, DIAG_E0310, at, "`%s` calls itself", instance_name(i));
    return datum_error();
  }
  bool training = e->training;
  e->training = training && !i->eval;
  Datum out = datum_error();
  const Step *step = i->kind == INSTANCE_module ? step_of(&i->decl->members, false) : NULL;
  CallGuard g;
  if (step) {
    out = forward(e, i, step, args, at);
  } else if (i->kind == INSTANCE_list) {
    if (call_enter_instance(e, &g, i, at)) {
      out = list_call(e, i, args, at);
      call_leave(e, &g);
    }
  } else {
    eval_report(e, DIAG_E0601, at, "`%s` has no `forward`", i->decl->name.text);
  }
  e->training = training;
  return out;
}

bool optimizer_update(Eval *e, Instance *i, CallArgs args, Span at) {
  const Step *step = step_of(&i->decl->members, true);
  if (!step) {
    eval_report(e, DIAG_E0617, i->decl->name.span, "optimizer `%s` has no `update`",
                i->decl->name.text);
    return false;
  }
  /* `step` is supplied to those that declare it. */
  CallArg *taken = ARENA_ARRAY(e->arena, CallArg, args.len + 1);
  uint32_t n = 0;
  for (uint32_t k = 0; k < args.len; k++) {
    bool declared = !args.at[k].name;
    for (uint32_t f = 0; f < step->formals.len && !declared; f++)
      declared = !strcmp(step->formals.at[f].name, args.at[k].name);
    if (declared) taken[n++] = args.at[k];
  }
  Env *env = env_new(e->arena, i->env, NULL);
  Signature s = {i->decl->name.text, step->formals, step->span};
  CallGuard g;
  if (signature_bind(e, &s, (CallArgs){taken, n}, env, at) != BOUND_ok) return false;
  if (!call_enter(e, &g, i->decl->name.text, i->decl, at)) return false;
  bool update = e->update;
  e->update = true;
  bool ok = eval_stmts(e, step->body, env);
  e->update = update;
  call_leave(e, &g);
  return ok;
}

/* ---------- anything ---------- */

static Datum optimizer_call(Eval *e, const Closure *c, CallArgs args, Span at) {
  Datum d = with_args(e, DATUM_optimizer, c, args, at);
  return d;
}

Datum eval_call(Eval *e, Datum callee, CallArgs args, Span at) {
  for (uint32_t i = 0; i < args.len; i++)
    if (args.at[i].value.kind == DATUM_error) return datum_error();
  switch (callee.kind) {
  case DATUM_error:
    return callee;
  case DATUM_function:
    return function_call(e, callee.as.closure, args, at);
  case DATUM_builtin:
    return builtin_call(e, callee.as.builtin, args, at);
  case DATUM_module:
    return describe(e, callee.as.closure, args, at);
  case DATUM_optimizer:
    return optimizer_call(e, callee.as.closure, args, at);
  case DATUM_instance:
    return instance_call(e, callee.as.instance, args, at);
  case DATUM_list:
    for (uint32_t i = 0; i < callee.as.list.len; i++)
      if (callee.as.list.at[i].kind != DATUM_instance) goto no;
    return chain_call(e, callee.as.list.at, callee.as.list.len, args, at);
  case DATUM_none:
    eval_report(e, DIAG_E0507, at, "what is called here is `none`");
    return datum_error();
  default:
    break;
  }
no:
  eval_report(e, DIAG_E0513, at, "%s cannot be called", datum_describe(e, callee));
  return datum_error();
}

/* ---------- recipes ---------- */

static const FormalList *formals_of(Datum d) {
  bool has = d.kind == DATUM_function || d.kind == DATUM_recipe || d.kind == DATUM_module ||
             d.kind == DATUM_optimizer;
  return has && d.as.closure->decl ? &d.as.closure->decl->formals : NULL;
}

bool closure_accepts(Datum callee, const char *name) {
  if (callee.kind == DATUM_builtin) return builtin_accepts(callee.as.builtin, name);
  if (callee.kind == DATUM_recipe && callee.as.closure->builtin)
    return builtin_accepts(callee.as.closure->builtin, name);
  const FormalList *formals = formals_of(callee);
  for (uint32_t i = 0; formals && i < formals->len; i++)
    if (!strcmp(formals->at[i].name, name)) return true;
  return false;
}

/* Which formal the k-th positional argument of the closure is: then it was given. */
static bool given_already(Datum d, CallArgs args, const char *name) {
  uint32_t position = 0;
  const FormalList *formals = formals_of(d);
  for (uint32_t i = 0; i < args.len; i++) {
    if (args.at[i].name && !strcmp(args.at[i].name, name)) return true;
    if (args.at[i].name) continue;
    if (formals && position < formals->len && !strcmp(formals->at[position].name, name))
      return true;
    position++;
  }
  return false;
}

Datum eval_complete(Eval *e, Datum d, CallArgs supplied, Span at) {
  for (int turn = 0; turn < DEPTH_LIMIT; turn++) {
    bool open = d.kind == DATUM_recipe || d.kind == DATUM_function || d.kind == DATUM_builtin;
    if (!open) return d;
    CallArgs given = d.kind == DATUM_recipe ? d.as.closure->args : (CallArgs){NULL, 0};
    CallArg *all = ARENA_ARRAY(e->arena, CallArg, given.len + supplied.len + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < given.len; i++) all[n++] = given.at[i];
    for (uint32_t i = 0; i < supplied.len; i++)
      if (closure_accepts(d, supplied.at[i].name) && !given_already(d, given, supplied.at[i].name))
        all[n++] = supplied.at[i];
    Span place = d.kind == DATUM_recipe ? d.as.closure->at : at;
    if (d.kind == DATUM_recipe && n == given.len) {
      eval_report(e, DIAG_E0515, place, "this call lacks arguments that the place does not supply");
      return datum_error();
    }
    Datum callee = d;
    if (d.kind == DATUM_recipe) {
      const Closure *c = d.as.closure;
      if (c->builtin)
        callee = (Datum){.kind = DATUM_builtin, .as.builtin = c->builtin};
      else
        callee.kind = c->decl->kind == DECL_module ? DATUM_module : DATUM_function;
    }
    d = eval_call(e, callee, (CallArgs){all, n}, place);
  }
  return datum_error();
}
