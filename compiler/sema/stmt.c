/* Statements of bodies: assignment, `if`, `require`, and what loop.c does for `for`. The branch of an `if` that is not taken is not evaluated (resolve.c has looked at it). */
#include "expr.h"
#include "fold.h"
#include "op.h"
#include "signature.h"
#include <string.h>

enum { STATEMENT_LIMIT = 1000000 };

/* ---------- assignment ---------- */

/* A buffer takes the new value: same dtype and shape as the leaf. */
static bool write_buffer(Eval *e, int32_t leaf, const char *name, Datum value, Span at) {
  const LeafEntry *l = &e->leaves->leaves.at[leaf];
  if (!l->leaf.buffer) {
    eval_report(e, DIAG_E0610, at, "`%s` is a parameter; only the optimizer changes it", name);
    return false;
  }
  if (!e->training && !e->update) {
    eval_report(e, DIAG_E0608, at, "buffer `%s` is written in the evaluation graph", name);
    diag_help("put the assignment under `if training { ... }`");
    return false;
  }
  if (e->in_loop) {
    eval_report(e, DIAG_E0609, at, "buffer `%s` is written in a loop over a tensor", name);
    diag_help("carry a local through the loop and assign the buffer after it");
    return false;
  }
  Type want = l->leaf.type;
  double number;
  Val v;
  if (datum_number(value, &number))
    v = ir_const(e->build->graph, number, want.dtype, at, e->scope);
  else if (!need_tensor(e, value, at, "the new value of a buffer", &v))
    return false;
  Type is = value_at(e->build->graph, v)->type;
  if (is.dtype != want.dtype && is.rank) {
    eval_report(e, DIAG_E0506, at, "buffer `%s` holds %s, the new value %s", name,
                dtype_name(want.dtype), dtype_name(is.dtype));
    return false;
  }
  if (is.dtype != want.dtype) {
    Attr attr[IR_MAX_ATTRS] = {0};
    attr[op_attr(OP_cast, "dtype")].as.i = want.dtype;
    v = emit_op(e, OP_cast, &v, 1, attr, at).as.tensor;
  }
  if (is.rank == 0 && want.rank) {
    Attr attr[IR_MAX_ATTRS] = {0};
    Attr *shape = &attr[op_attr(OP_expand, "shape")];
    shape->as.dims.len = want.rank;
    for (int i = 0; i < want.rank; i++) shape->as.dims.at[i] = want.dim[i];
    attr[op_attr(OP_expand, "dim")].as.ints.len = -1;
    Datum d = emit_op(e, OP_expand, &v, 1, attr, at);
    if (d.kind == DATUM_error) return false;
    v = d.as.tensor;
    is = value_at(e->build->graph, v)->type;
  }
  is.dtype = want.dtype;
  if (!type_equal(is, want)) {
    eval_report(e, DIAG_E0405, at, "buffer `%s` keeps its shape; the new value is %s", name,
                datum_describe(e, datum_tensor(v)));
    return false;
  }
  Val old; /* makes room for the leaf */
  if (!need_tensor(e, (Datum){.kind = DATUM_leaf, .as.leaf = leaf}, at, name, &old)) return false;
  e->build->leaf_value.at[leaf] = v;
  e->build->written.at[leaf] = 1;
  return true;
}

static bool assign_member(Eval *e, Binding *b, Datum value, Span at) {
  if (b->value.kind == DATUM_leaf) return write_buffer(e, b->value.as.leaf, b->name, value, at);
  if (b->value.kind == DATUM_instance) {
    eval_report(e, DIAG_E0610, at, "`%s` is a module; `forward` cannot assign it", b->name);
    return false;
  }
  eval_report(e, DIAG_E0305, at, "local `%s` takes the name of a member", b->name);
  if (b->at.file) diag_note(b->at, "the member");
  return false;
}

static bool assign(Eval *e, Env *env, const Name *target, Datum value) {
  const char *name = name_text(e, target, env);
  if (!name || value.kind == DATUM_error) return false;
  if (name[0] == '_' && !name[1]) return true;
  Binding *b = env_find(env, name);
  if (b && b->kind == BIND_member) return assign_member(e, b, value, target->span);
  if (b) {
    b->value = value;
    b->kind = b->kind == BIND_index ? BIND_local : b->kind;
  } else {
    env_define(e->arena, env, name, value, BIND_local, target->span);
  }
  return true;
}

bool assign_all(Eval *e, Env *env, NameList targets, Datum value, Span at) {
  if (value.kind == DATUM_error) return false;
  if (targets.len == 1) return assign(e, env, &targets.at[0], value);
  bool several = value.kind == DATUM_tuple || value.kind == DATUM_list;
  if (!several || value.as.list.len != targets.len) {
    eval_report(e, DIAG_E0514, at, "%u names on the left, %s on the right", targets.len,
                several ? arena_printf(e->arena, "%u values", value.as.list.len)
                        : datum_describe(e, value));
    return false;
  }
  bool ok = true;
  for (uint32_t i = 0; i < targets.len; i++)
    ok = assign(e, env, &targets.at[i], value.as.list.at[i]) && ok;
  return ok;
}

/* After a mistake the targets hold an error, so that what reads them reports nothing more. */
static void poison(Eval *e, Env *env, NameList targets) {
  for (uint32_t i = 0; i < targets.len; i++) {
    if (targets.at[i].index) continue;
    Binding *b = env_find(env, targets.at[i].text);
    if (b && b->kind == BIND_member) continue;
    if (b)
      b->value = datum_error();
    else
      env_define(e->arena, env, targets.at[i].text, datum_error(), BIND_local, targets.at[i].span);
  }
}

bool count_work(Eval *e, Span at) {
  if (++e->limits->statements <= STATEMENT_LIMIT) return true;
  if (e->limits->statements == STATEMENT_LIMIT + 1)
    eval_report(e, DIAG_E0519, at, "more than 1,000,000 unrolled statements");
  return false;
}

/* ---------- the others ---------- */

static bool run_if(Eval *e, const Stmt *s, Env *env) {
  bool yes;
  const char *need = e->need;
  e->need = "if ";
  bool known =
      need_bool(e, eval_expr(e, s->value, env), s->value->span, "the condition of `if`", &yes);
  e->need = need;
  if (!known) return false;
  return eval_stmts(e, yes ? s->body : s->orelse, env);
}

bool require_holds(Eval *e, const Expr *condition, const char *message, Env *env, Span at) {
  bool yes;
  const char *need = e->need;
  e->need = "require ";
  Datum d = eval_expr(e, condition, env);
  bool known = false;
  if (datum_is_tensorlike(d))
    eval_report(e, DIAG_E0508, condition->span,
                "`require` looks at a tensor, whose values are not "
                "known while compiling");
  else
    known = need_bool(e, d, condition->span, "the condition of `require`", &yes);
  e->need = need;
  if (!known) return false;
  if (yes) return true;
  if (message)
    eval_report(e, DIAG_E0417, at, "%s (`%s`)", message, span_text(e->arena, condition->span));
  else
    eval_report(e, DIAG_E0417, at, "`%s` does not hold", span_text(e->arena, condition->span));
  return false;
}

static bool run_stmt(Eval *e, const Stmt *s, Env *env) {
  switch (s->kind) {
  case STMT_assign:
    return assign_all(e, env, s->targets, eval_expr(e, s->value, env), s->span);
  case STMT_collect:
  case STMT_for:
    return run_for(e, s, env); /* loop.c */
  case STMT_if:
    return run_if(e, s, env);
  case STMT_require:
    return require_holds(e, s->value, s->message, env, s->span);
  case STMT_metric:
  case STMT_output: {
    Datum d = eval_expr(e, s->value, env);
    if (d.kind == DATUM_error) return false;
    void (*hook)(void *, Eval *, const Stmt *, Datum) =
        s->kind == STMT_metric ? e->program->hooks.metric : e->program->hooks.output;
    if (hook) hook(e->program->hooks.self, e, s, d);
    return true;
  }
  default:
    return false;
  }
}

bool eval_stmts(Eval *e, StmtList body, Env *env) {
  bool ok = true;
  for (uint32_t i = 0; i < body.len; i++) {
    const Stmt *s = body.at[i];
    if (!count_work(e, s->span)) return false;
    if (run_stmt(e, s, env)) continue;
    ok = false; /* the rest may hold mistakes of its own */
    if (s->kind == STMT_require) return false;
    poison(e, env, s->targets);
    if (s->kind == STMT_for || s->kind == STMT_if) return false;
  }
  return ok;
}

Datum eval_returns(Eval *e, ExprList returns, Env *env) {
  if (returns.len == 1) return eval_expr(e, returns.at[0], env);
  Datum *values = ARENA_ARRAY(e->arena, Datum, returns.len ? returns.len : 1);
  for (uint32_t i = 0; i < returns.len; i++) {
    values[i] = eval_expr(e, returns.at[i], env);
    if (values[i].kind == DATUM_error) return datum_error();
  }
  return (Datum){.kind = DATUM_tuple, .as.list = {values, returns.len}};
}
