/* Expressions -> values: names, literals, operators, calls, lists. Subscripts are in subscript.c,
   arithmetic in fold.c. */
#include "expr.h"
#include "builtin.h"
#include "call.h"
#include "fold.h"
#include "signature.h"
#include <string.h>

enum { LIST_LIMIT = 65536 };

/* ---------- names ---------- */

const char *name_text(Eval *e, const Name *n, Env *env) {
  if (!n->index) return n->text;
  Binding *b = env_find(env, n->index);
  int64_t i;
  if (!b || !datum_int_value(b->value, &i)) {
    eval_report(e, DIAG_E0312, n->span, "`%s` is not the index of a `for` around this name",
                n->index);
    return NULL;
  }
  return text_intern(
      arena_printf(e->arena, "%s%lld%s", n->text, (long long)i, n->suffix ? n->suffix : ""));
}

static Datum read_binding(Eval *e, const Binding *b, Span at) {
  if (b->value.kind != DATUM_leaf || !e->build) return b->value;
  Val v; /* a leaf is read now: a buffer may be written later */
  return need_tensor(e, b->value, at, b->name, &v) ? datum_tensor(v) : datum_error();
}

static void offer_scope(Eval *e, Env *env, TextNearest *near) {
  File *file = env ? env->file : NULL;
  for (Env *s = env; s; s = s->parent)
    for (uint32_t i = 0; i < s->names.len; i++) text_offer(near, s->names.at[i].name);
  for (uint32_t i = 0; file && i < file->names.len; i++) text_offer(near, file->names.at[i].name);
  library_offer(e->program, near);
  builtin_offer(near);
}

bool name_lookup(Eval *e, Env *env, const char *name, Span at, Datum *out) {
  Binding *b = env_find(env, name);
  if (b) return *out = read_binding(e, b, at), true;
  File *file = env ? env->file : NULL;
  FileName *found = file ? file_find(file, name) : NULL;
  if (!found && !library_find(e->program, name, &file, &found)) found = NULL;
  if (found) return *out = file_value(e, file, found, at), true;
  if (builtin_constant(e, name, at, out)) return true;
  const Builtin *builtin = e->program->bare ? rule_builtin(name) : NULL;
  if (!builtin) builtin = builtin_find(name);
  if (!builtin) return false;
  *out = (Datum){.kind = DATUM_builtin, .as.builtin = builtin};
  return true;
}

static Datum eval_name(Eval *e, const Expr *x, Env *env) {
  const char *name = name_text(e, &x->as.name, env);
  if (!name) return datum_error();
  Datum d;
  if (name_lookup(e, env, name, x->span, &d)) return d;
  if (diag_reported_at(x->span)) return datum_error(); /* resolve.c said what it is */
  TextNearest near = {.wanted = name};
  offer_scope(e, env, &near);
  eval_report(e, DIAG_E0301, x->span, "unknown name `%s`", name);
  if (near.best) diag_help("did you mean `%s`?", near.best);
  return datum_error();
}

/* A name where a value is needed. */
static Datum value_name(Eval *e, const Expr *x, Env *env) {
  Datum d = eval_name(e, x, env);
  if (d.kind != DATUM_namespace) return d;
  eval_report(e, DIAG_E0311, x->span, "`%s` is an import; its names are read with a dot",
              x->as.name.text);
  return datum_error();
}

/* ---------- members ---------- */

static Datum instance_member(Eval *e, Instance *i, const char *name, Span at) {
  if (i->env) {
    Binding *b = env_find(i->env, name);
    if (b) return read_binding(e, b, at);
  }
  for (uint32_t k = 0; k < i->children.len; k++)
    if (i->children.at[k].name == name) return datum_instance(i->children.at[k].instance);
  TextNearest near = {.wanted = name};
  for (Env *s = i->env; s; s = s->parent)
    for (uint32_t k = 0; k < s->names.len; k++) text_offer(&near, s->names.at[k].name);
  eval_report(e, DIAG_E0316, at, "`%s` has no member `%s`", instance_name(i), name);
  if (near.best) diag_help("did you mean `%s`?", near.best);
  return datum_error();
}

static Datum import_member(Eval *e, File *file, const char *name, Span at) {
  FileName *n = file_find(file, name);
  if (n && n->decl->kind != DECL_import) return file_value(e, file, n, at);
  TextNearest near = {.wanted = name};
  for (uint32_t i = 0; i < file->names.len; i++) text_offer(&near, file->names.at[i].name);
  eval_report(e, DIAG_E0309, at, "`%s` declares no `%s`", file->path, name);
  if (near.best) diag_help("did you mean `%s`?", near.best);
  return datum_error();
}

Datum member_of(Eval *e, Datum object, const char *name, Span at) {
  switch (object.kind) {
  case DATUM_error:
    return object;
  case DATUM_instance:
    return instance_member(e, object.as.instance, name, at);
  case DATUM_namespace:
    return import_member(e, object.as.file, name, at);
  case DATUM_object:
    return object.as.object.class->member(object.as.object.self, e, name, at);
  case DATUM_module: {
    Binding *b = object.as.closure->bound ? env_find(object.as.closure->bound, name) : NULL;
    if (b) return b->value;
    break;
  }
  case DATUM_none:
    eval_report(e, DIAG_E0507, at, "what stands before `.%s` is `none`", name);
    return datum_error();
  case DATUM_tensor:
  case DATUM_leaf:
    eval_report(e, DIAG_E0520, at, "a tensor has no members");
    diag_help("write `%s(...)`: functions take the tensor as their first argument", name);
    return datum_error();
  default:
    break;
  }
  eval_report(e, DIAG_E0316, at, "%s has no member `%s`", datum_describe(e, object), name);
  return datum_error();
}

/* `train.learning_rate`, unless something in scope is called train. */
static bool settings_member(Eval *e, const Expr *x, Env *env, Datum *out) {
  const Expr *object = x->as.member.object;
  if (object->kind != EXPR_name || object->as.name.index) return false;
  const char *block = object->as.name.text;
  if (strcmp(block, "train") != 0 && strcmp(block, "runtime") != 0) return false;
  if (env_find(env, block) || (env && env->file && file_find(env->file, block))) return false;
  if (!e->program->hooks.setting) {
    eval_report(e, DIAG_E0508, x->span, "settings are not known here");
    *out = datum_error();
  } else {
    *out = e->program->hooks.setting(e->program->hooks.self, e, block, x->as.member.name, x->span);
  }
  return true;
}

static Datum eval_member(Eval *e, const Expr *x, Env *env) {
  Datum d;
  if (settings_member(e, x, env, &d)) return d;
  const Expr *before = x->as.member.object;
  Datum object = before->kind == EXPR_name ? eval_name(e, before, env) : eval_expr(e, before, env);
  return member_of(e, object, x->as.member.name, x->as.member.name_span);
}

/* ---------- calls ---------- */

/* In rules attributes are variables of the same names as functions (shape, dtype): what is called is
   the function. */
static Datum rule_callee(Eval *e, const Expr *x, Env *env) {
  if (x->kind != EXPR_name) return eval_expr(e, x, env);
  const Builtin *b = rule_builtin(x->as.name.text);
  if (!b) b = builtin_find(x->as.name.text);
  return b ? (Datum){.kind = DATUM_builtin, .as.builtin = b} : eval_expr(e, x, env);
}

static Datum eval_call_expr(Eval *e, const Expr *x, Env *env) {
  Datum callee = e->program->bare ? rule_callee(e, x->as.call.callee, env)
                                  : eval_expr(e, x->as.call.callee, env);
  uint32_t n = x->as.call.args.len;
  CallArg *args = ARENA_ARRAY(e->arena, CallArg, n ? n : 1);
  for (uint32_t i = 0; i < n; i++) {
    const Arg *a = &x->as.call.args.at[i];
    /* By position an argument is what it is; by name the name is in the way of the caret. */
    args[i] = (CallArg){a->name, eval_expr(e, a->value, env), a->name ? a->span : a->value->span};
  }
  return eval_call(e, callee, (CallArgs){args, n}, x->span);
}

/* ---------- lists ---------- */

static Datum eval_items(Eval *e, const Expr *x, Env *env) {
  uint32_t n = x->as.items.len;
  Datum *items = ARENA_ARRAY(e->arena, Datum, n ? n : 1);
  bool wrong = false;
  for (uint32_t i = 0; i < n; i++) {
    items[i] = eval_expr(e, x->as.items.at[i], env);
    wrong = wrong || items[i].kind == DATUM_error;
  }
  if (wrong) return datum_error();
  return (Datum){.kind = x->kind == EXPR_list ? DATUM_list : DATUM_tuple, .as.list = {items, n}};
}

static Datum eval_range(Eval *e, const Expr *x, Env *env) {
  int64_t from, to;
  Datum a = eval_expr(e, x->as.binary.left, env), b = eval_expr(e, x->as.binary.right, env);
  if (!need_int(e, a, x->as.binary.left->span, "the start of a range", &from)) return datum_error();
  if (!need_int(e, b, x->as.binary.right->span, "the end of a range", &to)) return datum_error();
  int64_t n = 0;
  if (to > from && __builtin_sub_overflow(to, from, &n)) n = INT64_MAX;
  if (n > LIST_LIMIT) {
    eval_report(e, DIAG_E0519, x->span, "range of %lld numbers; 65,536 is the limit", (long long)n);
    return datum_error();
  }
  Datum *items = ARENA_ARRAY(e->arena, Datum, n ? n : 1);
  for (int64_t i = 0; i < n; i++) items[i] = datum_int(from + i);
  return (Datum){.kind = DATUM_list, .as.list = {items, (uint32_t)n}};
}

bool iterate(Eval *e, Datum d, Span at, DatumList *out) {
  if (d.kind == DATUM_list || d.kind == DATUM_tuple) return *out = d.as.list, true;
  if (d.kind == DATUM_error) return false;
  if (d.kind == DATUM_instance && d.as.instance->kind == INSTANCE_list) {
    const Instance *i = d.as.instance;
    Datum *items = ARENA_ARRAY(e->arena, Datum, i->children.len ? i->children.len : 1);
    for (uint32_t k = 0; k < i->children.len; k++)
      items[k] = datum_instance(i->children.at[k].instance);
    *out = (DatumList){items, i->children.len};
    return true;
  }
  if (datum_is_tensorlike(d)) return iterate_tensor(e, d, at, out);
  if (d.kind == DATUM_none)
    eval_report(e, DIAG_E0507, at, "`for` walks over `none` here");
  else if (d.kind == DATUM_dim || d.kind == DATUM_host)
    eval_report(e, DIAG_E0508, at, "what `for` walks over must be known while compiling");
  else
    eval_report(e, DIAG_E0501, at, "`for` walks over a list, a range or a list of modules, not %s",
                datum_describe(e, d));
  return false;
}

bool loop_lists_of(Eval *e, const Loop *loop, const Datum *over, DatumList *lists) {
  uint32_t n = loop->iterables.len;
  if (n != loop->targets.len && n != 1) {
    eval_report(e, DIAG_E0514, loop->span, "%u names for %u lists", loop->targets.len, n);
    return false;
  }
  for (uint32_t k = 0; k < n; k++) {
    Span at = loop->iterables.at[k]->span;
    if (!iterate(e, over[k], at, &lists[k])) return false;
    if (lists[k].len == lists[0].len) continue;
    eval_report(e, DIAG_E0418, at, "the lists of one `for` differ in length: %u and %u",
                lists[0].len, lists[k].len);
    return false;
  }
  return true;
}

bool loop_lists(Eval *e, const Loop *loop, Env *env, DatumList *lists) {
  Datum *over = ARENA_ARRAY(e->arena, Datum, loop->iterables.len + 1);
  for (uint32_t k = 0; k < loop->iterables.len; k++)
    over[k] = eval_expr(e, loop->iterables.at[k], env);
  return loop_lists_of(e, loop, over, lists);
}

bool loop_bind(Eval *e, const Loop *loop, const DatumList *lists, uint32_t turn, Env *env) {
  if (loop->iterables.len == loop->targets.len) {
    for (uint32_t k = 0; k < loop->targets.len; k++) {
      const Name *t = &loop->targets.at[k];
      env_define(e->arena, env, t->text, lists[k].at[turn], BIND_index, t->span);
    }
    return true;
  }
  /* for a, b in pairs */
  Datum item = lists[0].at[turn];
  bool several = item.kind == DATUM_list || item.kind == DATUM_tuple;
  if (!several || item.as.list.len != loop->targets.len) {
    eval_report(e, DIAG_E0514, loop->span, "%u names for %s", loop->targets.len,
                datum_describe(e, item));
    return false;
  }
  for (uint32_t k = 0; k < loop->targets.len; k++) {
    const Name *t = &loop->targets.at[k];
    env_define(e->arena, env, t->text, item.as.list.at[k], BIND_index, t->span);
  }
  return true;
}

typedef VEC(Datum) Collected;

static bool comprehend(Eval *e, const Expr *x, uint32_t depth, Env *env, Collected *out) {
  if (depth == x->as.comprehension.loops.len) {
    Datum d = eval_expr(e, x->as.comprehension.value, env);
    if (d.kind == DATUM_error) return false;
    if (out->len == LIST_LIMIT) {
      eval_report(e, DIAG_E0519, x->span, "list of more than 65,536 elements");
      return false;
    }
    vec_push(e->arena, out, d);
    return true;
  }
  const Loop *loop = &x->as.comprehension.loops.at[depth];
  DatumList *lists = ARENA_ARRAY(e->arena, DatumList, loop->iterables.len + 1);
  if (!loop_lists(e, loop, env, lists)) return false;
  Env *inner = env_new(e->arena, env, NULL); /* nothing keeps the scope of a turn */
  for (uint32_t turn = 0; turn < lists[0].len; turn++) {
    if (!count_work(e, x->span) || !loop_bind(e, loop, lists, turn, inner)) return false;
    if (!comprehend(e, x, depth + 1, inner, out)) return false;
  }
  return true;
}

static Datum eval_comprehension(Eval *e, const Expr *x, Env *env) {
  Collected out = {0};
  if (!comprehend(e, x, 0, env, &out)) return datum_error();
  return (Datum){.kind = DATUM_list, .as.list = {out.at, out.len}};
}

static Datum eval_map(Eval *e, const Expr *x, Env *env) {
  uint32_t n = x->as.map.len;
  MapEntry *entries = ARENA_ARRAY(e->arena, MapEntry, n ? n : 1);
  for (uint32_t i = 0; i < n; i++) {
    const MapItem *item = &x->as.map.at[i];
    for (uint32_t k = 0; k < i; k++) {
      if (strcmp(entries[k].key, item->key) != 0) continue;
      eval_report(e, DIAG_E0302, item->span, "key `%s` twice in one map", item->key);
      return datum_error();
    }
    entries[i] = (MapEntry){item->key, eval_expr(e, item->value, env)};
    if (entries[i].value.kind == DATUM_error) return datum_error();
  }
  return (Datum){.kind = DATUM_map, .as.map = {entries, n}};
}

/* ---------- all kinds ---------- */

static Datum eval_if(Eval *e, const Expr *x, Env *env) {
  const Expr *condition = x->as.cond.condition;
  Datum c = eval_expr(e, condition, env);
  bool yes;
  const char *need = e->need;
  e->need = "if ";
  bool known = need_bool(e, c, condition->span, "the condition of `if`", &yes);
  e->need = need;
  if (!known) return datum_error();
  return eval_expr(e, yes ? x->as.cond.yes : x->as.cond.no, env);
}

static Datum eval_binary(Eval *e, const Expr *x, Env *env) {
  if (x->as.binary.op == BIN_range) return eval_range(e, x, env);
  Datum a = eval_expr(e, x->as.binary.left, env);
  Datum b = eval_expr(e, x->as.binary.right, env);
  return fold_binary(e, x->as.binary.op, a, b, x->as.binary.op_span, x->span);
}

Datum eval_expr(Eval *e, const Expr *x, Env *env) {
  switch (x->kind) {
  case EXPR_int:
    return datum_int(x->as.i);
  case EXPR_float:
    return datum_float(x->as.f);
  case EXPR_percent:
    return (Datum){.kind = DATUM_percent, .as.f = x->as.f};
  case EXPR_text:
    return (Datum){.kind = DATUM_text, .as.text = {x->as.text.text, x->as.text.length}};
  case EXPR_bool:
    return datum_bool(x->as.b);
  case EXPR_none:
    return datum_none();
  case EXPR_name:
    return value_name(e, x, env);
  case EXPR_unary:
    return fold_unary(e, x->as.unary.op, eval_expr(e, x->as.unary.operand, env), x->span);
  case EXPR_binary:
    return eval_binary(e, x, env);
  case EXPR_if:
    return eval_if(e, x, env);
  case EXPR_member:
    return eval_member(e, x, env);
  case EXPR_call:
    return eval_call_expr(e, x, env);
  case EXPR_index:
    return eval_subscript(e, x, env);
  case EXPR_list:
  case EXPR_tuple:
    return eval_items(e, x, env);
  case EXPR_comprehension:
    return eval_comprehension(e, x, env);
  case EXPR_map:
    return eval_map(e, x, env);
  default:
    return datum_error();
  }
}
