/* Instances: a description becomes members, leaves and draws, in the order in which PyTorch's
   constructors would make them; then `init` statements, then `tie`. Also optimizers, whose buffers are
   their state. Nothing here touches a graph. */
#include "call.h"
#include "expr.h"
#include "fold.h"
#include "signature.h"
#include <string.h>

enum { INSTANCE_LIMIT = 100000 };
#define ELEMENT_LIMIT ((int64_t)1 << 48)

typedef struct Later { /* `init` and `tie` wait until all members exist */
  const Member *member;
  Env *env;
  LeafSet set;
} Later;
typedef struct Making {
  Eval *e;
  Instance *i;
  VEC(Later) inits, ties;
} Making;

static Instance *make(Eval *e, Datum d, const char *path, const char *model, Span at);

static const char *path_join(Arena *a, const char *path, const char *name) {
  return path[0] ? arena_printf(a, "%s.%s", path, name) : name;
}

/* A module description, or a list or map of such. */
static bool describes(Datum d) {
  if (d.kind == DATUM_module) return true;
  if (d.kind == DATUM_list && d.as.list.len) {
    for (uint32_t i = 0; i < d.as.list.len; i++)
      if (!describes(d.as.list.at[i])) return false;
    return true;
  }
  if (d.kind != DATUM_map || !d.as.map.len) return false;
  for (uint32_t i = 0; i < d.as.map.len; i++)
    if (!describes(d.as.map.at[i].value)) return false;
  return true;
}

/* ---------- leaves ---------- */

static bool leaf_draw(Eval *e, const char *name, Type type, Datum value, Span at, Draw *out) {
  double x;
  if (value.kind == DATUM_error) return false;
  if (datum_number(value, &x)) return *out = (Draw){.kind = INIT_fill, .a = x}, true;
  if (value.kind != DATUM_draw) {
    eval_report(e, value.kind == DATUM_none ? DIAG_E0602 : DIAG_E0501, at,
                "`%s` needs an initial value, such as `zeros()`; this is %s", name,
                datum_describe(e, value));
    return false;
  }
  DatumList shape = value.as.draw.shape;
  bool same = (int)shape.len == type.rank;
  for (int i = 0; i < type.rank && same; i++) {
    Dim d;
    same = datum_dim_value(shape.at[i], &d) && dim_equal(d, type.dim[i]);
  }
  if (!same) {
    eval_report(e, DIAG_E0405, at, "the initial value of `%s` has another shape than the leaf",
                name);
    return false;
  }
  *out = value.as.draw.draw;
  return true;
}

static Datum shape_datum(Eval *e, Type t) {
  Datum dims[IR_MAX_RANK];
  for (int i = 0; i < t.rank; i++) dims[i] = datum_dim(t.dim[i]);
  return datum_list(e->arena, dims, (uint32_t)t.rank);
}

/* The value of an initialiser for a leaf of this shape; no graph takes part. */
static Datum initial_value(Eval *e, const Expr *x, Env *env, Type type, bool known_none) {
  Eval outer = *e;
  outer.build = NULL;
  Datum v = eval_expr(&outer, x, env);
  if (known_none || v.kind == DATUM_none) return v;
  CallArg shape = {"shape", shape_datum(e, type), x->span};
  return eval_complete(&outer, v, (CallArgs){&shape, 1}, x->span);
}

const char *init_kind_name(InitKind kind) {
  static const char *const names[] = {"fill",       "uniform",   "normal", "trunc_normal",
                                      "orthogonal", "bernoulli", "randint"};
  return names[kind];
}

static void record_draw(Eval *e, int32_t leaf, Draw d) {
  LeafStore *store = e->leaves;
  InitStep s = {.kind = (InitKind)d.kind,
                .leaf = leaf,
                .a = d.a,
                .b = d.b,
                .step = 1,
                .low = d.low,
                .high = d.high};
  s.elements = type_elements_at(store->leaves.at[leaf].leaf.type, 1);
  vec_push(e->arena, &store->init, s);
  if (!d.count) return;
  s = (InitStep){.kind = INIT_fill,
                 .leaf = leaf,
                 .elements = d.count,
                 .a = d.value,
                 .offset = d.offset,
                 .step = d.step};
  vec_push(e->arena, &store->init, s);
}

static bool sizes_known(Eval *e, Type t, Span at) {
  for (int k = 0; k < t.rank; k++) {
    if (!dim_known(t.dim[k])) {
      eval_report(e, DIAG_E0508, at, "the sizes of a leaf must be known while compiling");
      return false;
    }
    if (t.dim[k].fixed < 1) {
      eval_report(e, DIAG_E0410, at, "dimension %d is %lld", k, (long long)t.dim[k].fixed);
      return false;
    }
  }
  Dim elements;
  if (type_elements(t, &elements) && elements.fixed < ELEMENT_LIMIT) return true;
  eval_report(e, DIAG_E0519, at, "a leaf of more than 2 ** 48 elements");
  return false;
}

static bool add_leaf(Making *mk, const Member *m, const char *name, Env *env) {
  Eval *e = mk->e;
  Instance *i = mk->i;
  Type type;
  Datum v = initial_value(e, m->value, env, (Type){0}, true);
  if (v.kind == DATUM_error) return false;
  if (v.kind == DATUM_none) {
    env_define(e->arena, i->env, name, v, BIND_member, m->name.span);
    return true;
  }
  if (!eval_dims(e, m->type, env, &type)) return false;
  bool optimizer = i->kind == INSTANCE_optimizer;
  if (!optimizer && !sizes_known(e, type, m->type->span)) return false;
  if (m->kind == MEMBER_param && dtype_category(type.dtype) != 'f') {
    eval_report(e, DIAG_E0506, m->type->span, "a parameter holds floats, not %s",
                dtype_name(type.dtype));
    return false;
  }
  Draw draw;
  v = initial_value(e, m->value, env, type, false);
  if (!leaf_draw(e, name, type, v, m->value->span, &draw)) return false;
  if (optimizer && (draw.kind != INIT_fill || draw.count)) {
    eval_report(e, DIAG_E0716, m->value->span, "random optimizer state is not supported yet");
    return false;
  }
  LeafEntry entry = {.owner = i, .member = name, .number = -1, .fill = draw};
  entry.leaf = (Leaf){.name = path_join(e->arena, i->path, name),
                      .type = type,
                      .buffer = m->kind == MEMBER_buffer,
                      .trained = m->kind == MEMBER_param,
                      .tied_to = -1,
                      .group = -1,
                      .model = i->model,
                      .at = m->name.span};
  entry.leaf.norm_owner =
      i->made && i->made->file->library && !strcmp(i->decl->name.text, "LayerNorm");
  int32_t index = (int32_t)e->leaves->leaves.len;
  vec_push(e->arena, &e->leaves->leaves, entry);
  vec_push(e->arena, &i->leaves, index);
  env_define(e->arena, i->env, name, (Datum){.kind = DATUM_leaf, .as.leaf = index}, BIND_member,
             m->name.span);
  if (!optimizer) record_draw(e, index, draw);
  return true;
}

/* ---------- members ---------- */

static bool taken(Making *mk, const char *name, const Member *m) {
  Env *env = mk->i->env;
  for (uint32_t k = 0; k < env->names.len; k++) {
    const Binding *b = &env->names.at[k];
    if (b->name != name || b->value.kind == DATUM_none) continue;
    eval_report(mk->e, m->name.index ? DIAG_E0313 : DIAG_E0302, m->name.span,
                "member `%s` is declared twice", name);
    if (b->at.file) diag_note(b->at, "the first one");
    return true;
  }
  return false;
}

static bool add_member(Making *mk, const Member *m, const char *name, Env *env) {
  Eval *e = mk->e;
  Instance *i = mk->i;
  Eval outer = *e;
  if (i->kind != INSTANCE_optimizer) outer.build = NULL;
  Datum v = eval_expr(&outer, m->value, env);
  if (v.kind == DATUM_error) return false;
  if (v.kind == DATUM_instance) {
    eval_report(e, DIAG_E0716, m->value->span,
                "a second name for an instance is not supported yet");
    return false;
  }
  /* The uncalled name of a module is a description when nothing is missing. */
  bool instance = describes(v) && !(i->kind == INSTANCE_optimizer);
  if (!instance) { /* a constant; in a loop it belongs to the turn */
    env_define(e->arena, env, name, v, BIND_member, m->name.span);
    return true;
  }
  Instance *child = make(e, v, path_join(e->arena, i->path, name), i->model, m->value->span);
  if (!child) return false;
  Child c = {name, child};
  vec_push(e->arena, &i->children, c);
  env_define(e->arena, i->env, name, datum_instance(child), BIND_member, m->name.span);
  return true;
}

/* Members of a branch that is not taken are none. */
static void absent_members(Making *mk, MemberList members) {
  for (uint32_t k = 0; k < members.len; k++) {
    const Member *m = members.at[k];
    bool named = m->kind == MEMBER_assign || m->kind == MEMBER_param || m->kind == MEMBER_buffer;
    if (m->kind == MEMBER_if) {
      absent_members(mk, m->body);
      absent_members(mk, m->orelse);
    }
    if (!named || m->name.index) continue;
    bool found = false;
    for (uint32_t b = 0; b < mk->i->env->names.len; b++)
      found = found || mk->i->env->names.at[b].name == m->name.text;
    if (!found)
      env_define(mk->e->arena, mk->i->env, m->name.text, datum_none(), BIND_member, m->name.span);
  }
}

static bool add_members(Making *mk, MemberList members, Env *env);

static bool loop_members(Making *mk, const Member *m, Env *env) {
  Eval *e = mk->e;
  DatumList *lists = ARENA_ARRAY(e->arena, DatumList, m->loop.iterables.len + 1);
  if (!loop_lists(e, &m->loop, env, lists)) return false;
  for (uint32_t turn = 0; turn < lists[0].len; turn++) {
    Env *inner = env_new(e->arena, env, NULL);
    if (!loop_bind(e, &m->loop, lists, turn, inner)) return false;
    if (!add_members(mk, m->body, inner)) return false;
  }
  return true;
}

static bool if_members(Making *mk, const Member *m, Env *env) {
  bool yes;
  Eval *e = mk->e;
  const char *need = e->need;
  e->need = "if ";
  bool known =
      need_bool(e, eval_expr(e, m->value, env), m->value->span, "the condition of `if`", &yes);
  e->need = need;
  if (!known) return false;
  bool ok = add_members(mk, yes ? m->body : m->orelse, env);
  absent_members(mk, yes ? m->orelse : m->body);
  return ok;
}

static bool one_member(Making *mk, const Member *m, Env *env) {
  Eval *e = mk->e;
  Later later = {.member = m, .env = env};
  switch (m->kind) {
  case MEMBER_assign:
  case MEMBER_param:
  case MEMBER_buffer: {
    const char *name = name_text(e, &m->name, env);
    if (!name || taken(mk, name, m)) return false;
    return m->kind == MEMBER_assign ? add_member(mk, m, name, env) : add_leaf(mk, m, name, env);
  }
  case MEMBER_tie:
    vec_push(e->arena, &mk->ties, later);
    return true;
  case MEMBER_init:
    vec_push(e->arena, &mk->inits, later);
    return true;
  case MEMBER_require:
    return require_holds(e, m->value, m->message, env, m->span);
  case MEMBER_for:
    return loop_members(mk, m, env);
  case MEMBER_if:
    return if_members(mk, m, env);
  case MEMBER_step:
    return true;
  default:
    return false;
  }
}

static bool add_members(Making *mk, MemberList members, Env *env) {
  bool ok = true;
  for (uint32_t k = 0; k < members.len; k++) {
    const Member *m = members.at[k];
    if (one_member(mk, m, env)) continue;
    ok = false;
    if (m->kind == MEMBER_require) return false;
    if (m->name.text && !m->name.index) /* what reads it reports nothing more */
      env_define(mk->e->arena, mk->i->env, m->name.text, datum_error(), BIND_member, m->name.span);
  }
  return ok;
}

/* ---------- init ---------- */

static bool apply_init(Eval *e, int32_t leaf, const Expr *value, Env *env) {
  Type type = e->leaves->leaves.at[leaf].leaf.type;
  Datum v = initial_value(e, value, env, type, false);
  if (v.kind == DATUM_none && value->kind != EXPR_none)
    return true; /* `if bias then ... else none` */
  Draw draw;
  if (!leaf_draw(e, e->leaves->leaves.at[leaf].leaf.name, type, v, value->span, &draw))
    return false;
  record_draw(e, leaf, draw);
  return true;
}

static bool in_set(const LeafSet *s, int32_t leaf) {
  for (uint32_t i = 0; i < s->leaves.len; i++)
    if (s->leaves.at[i] == leaf) return true;
  return false;
}

/* Sub-modules first, then the own leaves; each takes every matching `init` in the order written. */
static bool visit_inits(Making *mk, const Instance *i) {
  bool ok = true;
  for (uint32_t k = 0; k < i->children.len; k++)
    ok = visit_inits(mk, i->children.at[k].instance) && ok;
  for (uint32_t k = 0; k < i->leaves.len; k++)
    for (uint32_t n = 0; n < mk->inits.len; n++) {
      const Later *l = &mk->inits.at[n];
      if (in_set(&l->set, i->leaves.at[k]))
        ok = apply_init(mk->e, i->leaves.at[k], l->member->value, l->env) && ok;
    }
  return ok;
}

static bool run_later(Making *mk) {
  bool ok = true;
  for (uint32_t n = 0; n < mk->inits.len; n++) {
    Later *l = &mk->inits.at[n];
    ok = path_leaves(mk->e, mk->i, &l->member->left, l->env, &l->set) && ok;
  }
  if (ok && mk->inits.len) ok = visit_inits(mk, mk->i);
  for (uint32_t n = 0; n < mk->ties.len; n++) {
    const Member *m = mk->ties.at[n].member;
    ok = module_tie(mk->e, mk->i, &m->left, &m->right, mk->ties.at[n].env, m->span) && ok;
  }
  return ok;
}

bool module_init(Eval *e, Instance *root, const Path *path, const Expr *value, Env *env, Span at) {
  (void)at;
  Making mk = {.e = e, .i = root};
  Member m = {.kind = MEMBER_init, .left = *path, .value = (Expr *)(uintptr_t)value};
  Later l = {.member = &m, .env = env};
  vec_push(e->arena, &mk.inits, l);
  return run_later(&mk);
}

/* ---------- instances ---------- */

static Instance *new_instance(Eval *e, const char *path, const char *model, Span at) {
  if (++e->limits->instances > INSTANCE_LIMIT) {
    if (e->limits->instances == INSTANCE_LIMIT + 1)
      eval_report(e, DIAG_E0519, at, "more than 100,000 instances of modules");
    return NULL;
  }
  Instance *i = ARENA_NEW(e->arena, Instance);
  i->path = path;
  i->model = model;
  i->at = at;
  return i;
}

static Instance *make_module(Eval *e, const Closure *c, const char *path, const char *model,
                             Span at) {
  Instance *i = new_instance(e, path, model, at);
  CallGuard g;
  if (!i || !call_enter(e, &g, c->decl->name.text, c->decl, c->at)) return NULL;
  i->kind = INSTANCE_module;
  i->made = c;
  i->decl = c->decl;
  /* Formals lie below the members: a member may take the name of a formal. */
  Env *formals = env_new(e->arena, NULL, c->file);
  for (uint32_t k = 0; k < c->bound->names.len; k++)
    vec_push(e->arena, &formals->names, c->bound->names.at[k]);
  i->env = env_new(e->arena, formals, NULL);
  i->env->instance = i;
  Making mk = {.e = e, .i = i};
  bool ok = add_members(&mk, i->decl->members, i->env) && run_later(&mk);
  call_leave(e, &g);
  return ok ? i : NULL;
}

static Instance *make_items(Eval *e, Datum d, const char *path, const char *model, Span at) {
  Instance *i = new_instance(e, path, model, at);
  if (!i) return NULL;
  i->kind = INSTANCE_list;
  bool list = d.kind == DATUM_list, ok = true;
  uint32_t n = list ? d.as.list.len : d.as.map.len;
  for (uint32_t k = 0; k < n; k++) {
    const char *name =
        list ? text_intern(arena_printf(e->arena, "%u", k)) : text_intern(d.as.map.at[k].key);
    Datum item = list ? d.as.list.at[k] : d.as.map.at[k].value;
    Child c = {name, make(e, item, path_join(e->arena, path, name), model, at)};
    ok = ok && c.instance;
    if (c.instance) vec_push(e->arena, &i->children, c);
  }
  return ok ? i : NULL;
}

static Instance *make(Eval *e, Datum d, const char *path, const char *model, Span at) {
  if (d.kind == DATUM_error) return NULL;
  if (d.kind == DATUM_recipe && d.as.closure->decl && d.as.closure->decl->kind == DECL_module) {
    eval_report(e, DIAG_E0503, at, "`%s` needs more arguments", d.as.closure->decl->name.text);
    return NULL;
  }
  if (d.kind == DATUM_module && !d.as.closure->called) {
    d = eval_call(e, d, (CallArgs){NULL, 0}, at); /* the name alone: all arguments have defaults */
    return make(e, d, path, model, at);
  }
  if (d.kind == DATUM_module) return make_module(e, d.as.closure, path, model, at);
  if (describes(d)) return make_items(e, d, path, model, at);
  eval_report(e, DIAG_E0501, at, "a module is needed, not %s", datum_describe(e, d));
  return NULL;
}

Instance *module_instantiate(Eval *e, Datum description, const char *path, const char *model,
                             Span at) {
  Eval outer = *e;
  outer.build = NULL;
  return make(&outer, description, path, model, at);
}

Instance *optimizer_instantiate(Eval *e, Datum optimizer, CallArgs supplied, Span at) {
  if (optimizer.kind != DATUM_optimizer) return NULL;
  const Closure *c = optimizer.as.closure;
  Instance *i = new_instance(e, "", c->decl->name.text, at);
  if (!i) return NULL;
  i->kind = INSTANCE_optimizer;
  i->made = c;
  i->decl = c->decl;
  CallArg *all = ARENA_ARRAY(e->arena, CallArg, c->args.len + supplied.len + 1);
  uint32_t n = 0;
  for (uint32_t k = 0; k < c->args.len; k++) all[n++] = c->args.at[k];
  for (uint32_t k = 0; k < supplied.len; k++)
    if (closure_accepts(optimizer, supplied.at[k].name)) all[n++] = supplied.at[k];
  Env *formals = env_new(e->arena, NULL, c->file);
  Signature s = {c->decl->name.text, c->decl->formals, c->decl->name.span};
  Bound bound = signature_bind(e, &s, (CallArgs){all, n}, formals, at);
  if (bound != BOUND_ok) {
    if (bound == BOUND_waits)
      eval_report(e, DIAG_E0715, at, "optimizer `%s` lacks an argument", s.what);
    return NULL;
  }
  i->env = env_new(e->arena, formals, NULL);
  i->env->instance = i;
  Making mk = {.e = e, .i = i};
  CallGuard g;
  if (!call_enter(e, &g, s.what, c->decl, at)) return NULL;
  bool ok = add_members(&mk, i->decl->members, i->env);
  call_leave(e, &g);
  return ok ? i : NULL;
}

/* ---------- numbers of leaves ---------- */

static void number(Eval *e, LeafStore *store, const Instance *i, Job *job) {
  for (int buffers = 0; buffers < 2; buffers++)
    for (uint32_t k = 0; k < i->leaves.len; k++) {
      LeafEntry *l = &store->leaves.at[i->leaves.at[k]];
      if (l->leaf.buffer != (buffers == 1)) continue;
      l->number = (int32_t)job->leaves.len;
      vec_push(job->arena, &job->leaves, l->leaf);
    }
  for (uint32_t k = 0; k < i->children.len; k++) number(e, store, i->children.at[k].instance, job);
}

void leaves_number(Eval *e, LeafStore *store, Instance *const *models, uint32_t n, Job *job) {
  for (uint32_t k = 0; k < n; k++)
    if (models[k]) number(e, store, models[k], job);
  for (uint32_t k = 0; k < store->leaves.len; k++) {
    const LeafEntry *l = &store->leaves.at[k];
    if (l->number < 0 || l->leaf.tied_to < 0) continue;
    job->leaves.at[l->number].tied_to = store->leaves.at[l->leaf.tied_to].number;
  }
  for (uint32_t k = 0; k < store->init.len; k++) {
    InitStep s = store->init.at[k];
    const LeafEntry *l = &store->leaves.at[s.leaf];
    /* What a tied leaf drew is thrown away: it is the leaf it is tied to. */
    s.leaf = l->leaf.tied_to >= 0 ? -1 : l->number;

    vec_push(job->arena, &job->init, s);
  }
}
