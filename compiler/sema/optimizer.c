/* Optimizers of a job. In: the values of `optim` and `optim_args`, the shapes of the tensors. Out:
   Job.optimizers (job.h). An update that goes element by element becomes one graph over a flat tensor
   of B elements, which serves every shape; one that looks at a tensor as a whole (a norm, a product, a
   state of another shape, its number of rows) becomes a graph for each shape. */
#include "analysis.h"
#include "diag.h"
#include "die.h"
#include "op.h"

typedef struct OptimizerShape {
  Type tensor;
  int32_t number; /* in Job.optimizers; -1: reported */
} OptimizerShape;

typedef struct OptimizerKey {
  const Decl *decl;
  const SettingValue *args;
  Optimizer *line; /* over a flat tensor, once a tensor's own update went element by element */
  int32_t flat;    /* its number; -1: nobody uses it */
  VEC(OptimizerShape) shapes;
} OptimizerKey;

enum { OPTIMIZER_STATES = 4 }; /* as ddp/job.h has room for */

typedef struct Update { /* one instance over one shape */
  Graph *graph;
  Build *build;
  LeafStore *states;
  Instance *instance;
} Update;

static Val update_input(Graph *g, int32_t number, const Type *t, Span at) {
  Attr attrs[3] = {{.as.i = number}, {.as.i = (int64_t)t->dtype}};
  attrs[2].as.dims.len = t->rank;
  for (int i = 0; i < t->rank; i++) attrs[2].as.dims.at[i] = t->dim[i];
  return ir_must(g, OP_input, NULL, 0, attrs, at, 0);
}

static Datum update_host(Analysis *a, Graph *g, const char *name, Span at) {
  HostValue *v = ARENA_NEW(a->arena, HostValue);
  *v = (HostValue){.is_int = true};
  Attr attrs[2] = {{.as.text = text_intern(name)}, {.as.i = DT_f64}};
  Datum d = {.kind = DATUM_host};
  d.as.host.value = v;
  d.as.host.val = ir_must(g, OP_host, NULL, 0, attrs, at, 0);
  return d;
}

/* Evaluates the optimizer for a tensor of type t. */
static bool run_update(Analysis *a, Datum optimizer, const DefinitionArgs *given, Type t, Span at,
                       Update *out) {
  const Closure *c = optimizer.as.closure;
  out->graph =
      graph_new(a->arena, arena_printf(a->arena, "optimizer.%s", c->decl->name.text), true);
  out->states = ARENA_NEW(a->arena, LeafStore);
  out->build = build_new(a->arena, out->graph, out->states);
  out->build->host_dtype = DT_f64;
  Eval e = eval_new(a->program, out->build, out->states, true);
  e.update = true;
  DefinitionArgs args = {0};
  const char *tensor = c->decl->formals.len ? c->decl->formals.at[0].name : text_intern("p");
  vec_push(a->arena, &args.args,
           (CallArg){.name = tensor,
                     .value = datum_tensor(update_input(out->graph, 0, &t, at)),
                     .at = at});
  for (uint32_t i = 0; i < given->args.len; i++) vec_push(a->arena, &args.args, given->args.at[i]);
  out->instance = optimizer_instantiate(&e, optimizer, (CallArgs){args.args.at, args.args.len}, at);
  if (!out->instance) return false;
  for (uint32_t i = 0; i < out->states->leaves.len; i++) {
    out->states->leaves.at[i].number = (int32_t)i;
  }
  CallArg update[2] = {
      {.name = text_intern("g"), .value = datum_tensor(update_input(out->graph, 1, &t, at))},
      {.name = text_intern("step"), .value = update_host(a, out->graph, "step", at)}};
  update[0].at = update[1].at = at;
  return optimizer_update(&e, out->instance, (CallArgs){update, 2}, at);
}

/* The update reads and writes element by element, and its states have the shape of the tensor. */
static bool is_flat(const Update *u, Type t) {
  for (uint32_t i = 0; i < u->states->leaves.len; i++) {
    Type s = u->states->leaves.at[i].leaf.type;
    if (s.rank != t.rank) return false;
    for (int k = 0; k < s.rank; k++) {
      if (!dim_equal(s.dim[k], t.dim[k])) return false;
    }
  }
  for (Val v = 1; v < u->graph->values.len; v++) {
    const Value *x = value_at(u->graph, v);
    if (op_has(x->op, OPF_elementwise) || op_has(x->op, OPF_source)) continue;
    if (x->op == OP_expand && x->type.rank == t.rank) continue;
    return false;
  }
  return true;
}

/* States become inputs 2, 3, ...; the rates go by their short names. */
static void rename_sources(Graph *g) {
  for (Val v = 1; v < g->values.len; v++) {
    Value *x = value_at(g, v);
    if (x->op == OP_buffer) {
      x->op = OP_input;
      x->attr[0].as.i += 2;
    } else if (x->op == OP_host) {
      const char *name = x->attr[0].as.text;
      if (!strcmp(name, "train.learning_rate")) x->attr[0].as.text = text_intern("lr");
      if (!strcmp(name, "train.weight_decay")) x->attr[0].as.text = text_intern("weight_decay");
    }
  }
}

static Val as_f32(Graph *g, Val v, Span at) {
  if (value_at(g, v)->type.dtype == DT_f32) return v;
  Attr attr = {.as.i = DT_f32};
  return ir_must(g, OP_cast, &v, 1, &attr, at, 0);
}

static bool set_outputs(Analysis *a, Update *u, Span at, Optimizer *o) {
  const Decl *decl = u->instance->decl;
  Graph *g = u->graph;
  Binding *p = env_find(u->instance->env, decl->formals.at[0].name);
  Eval e = eval_new(a->program, u->build, u->states, true);
  Val v = NO_VAL;
  if (!p || !need_tensor(&e, p->value, at, "the new value", &v)) return false;
  if (value_at(g, v)->op == OP_input) {
    diag_report(DIAG_E0617, decl->name.span, "`update` of `%s` does not assign `%s`",
                decl->name.text, decl->formals.at[0].name);
    return false;
  }
  graph_output(g, OUT_state, -1, as_f32(g, v, at));
  for (uint32_t i = 0; i < u->states->leaves.len; i++) {
    const LeafEntry *entry = &u->states->leaves.at[i];
    Val state = i < u->build->leaf_value.len ? u->build->leaf_value.at[i] : NO_VAL;
    if (state == NO_VAL) { /* never read nor written: a buffer, which becomes an input below */
      state = update_input(g, (int32_t)i, &entry->leaf.type, at);
      value_at(g, state)->op = OP_buffer;
    }
    graph_output(g, OUT_state, (int32_t)i, as_f32(g, state, at));
    vec_push(a->arena, &o->states, entry->member);
    vec_push(a->arena, &o->state_init, entry->fill.a);
    vec_push(a->arena, &o->state_type, entry->leaf.type);
  }
  return true;
}

static void set_constants(Analysis *a, const Update *u, Optimizer *o) {
  const Decl *decl = u->instance->decl;
  for (uint32_t i = 1; i < decl->formals.len; i++) {
    const char *name = decl->formals.at[i].name;
    const Binding *b = env_find(u->instance->env, name);
    double value = 0;
    if (!b || (b->value.kind != DATUM_bool && !datum_number(b->value, &value))) continue;
    if (b->value.kind == DATUM_bool) value = b->value.as.b;
    vec_push(a->arena, &o->constants, (__typeof__(*o->constants.at)){.name = name, .value = value});
  }
}

/* Dimensions of the tensors that an optimizer is for; *open: or more (`...`). */
static int declared_rank(const Decl *decl, bool *open) {
  const TypeExpr *type = decl->formals.len ? decl->formals.at[0].type : NULL;
  int rank = 0;
  *open = !type || type->kind != TYPE_tensor;
  for (uint32_t i = 0; type && i < type->dims.len; i++) {
    rank += type->dims.at[i].value != NULL;
    *open = *open || !type->dims.at[i].value;
  }
  return rank;
}

/* The update of a tensor of type t; *flat: it goes element by element. */
static bool build(Analysis *a, Datum optimizer, const DefinitionArgs *args, Type t, Span at,
                  Optimizer *o, bool *flat) {
  const Decl *decl = optimizer.as.closure->decl;
  Update u = {0};
  if (!run_update(a, optimizer, args, t, at, &u)) return false;
  *flat = is_flat(&u, t);
  *o = (Optimizer){.name = decl->name.text,
                   .kernel = decl->kernel,
                   .update = u.graph,
                   .tensor = t,
                   .at = decl->name.span};
  if (!set_outputs(a, &u, at, o)) return false;
  if (o->states.len > OPTIMIZER_STATES) {
    diag_report(DIAG_E0716, decl->name.span,
                "an optimizer with %u states is not supported yet; %d are", o->states.len,
                OPTIMIZER_STATES);
    return false;
  }
  set_constants(a, &u, o);
  rename_sources(u.graph);
  return true;
}

/* The same computation, shapes apart: what the flat one does to an element is what this one does. */
static bool same_update(const Graph *a, const Graph *b) {
  if (a->values.len != b->values.len) return false;
  for (Val v = 1; v < a->values.len; v++) {
    const Value *x = value_at(a, v), *y = value_at(b, v);
    double p = 0, q = 0;
    if (x->op != y->op || x->type.dtype != y->type.dtype || x->inputs != y->inputs) return false;
    if (memcmp(x->in, y->in, sizeof *x->in * x->inputs) != 0) return false;
    if (ir_is_const(a, v, &p) && (!ir_is_const(b, v, &q) || memcmp(&p, &q, sizeof p) != 0))
      return false;
    bool by_number = x->op == OP_input || x->op == OP_host;
    if (by_number && x->attr[0].as.i != y->attr[0].as.i) return false;
  }
  return true;
}

/* The optimizer for tensors of type t, made or found. */
static int32_t make_for(Analysis *a, Datum optimizer, const DefinitionArgs *args, OptimizerKey *key,
                        Type t, Span at) {
  Job *job = a->job;
  Optimizer own;
  bool open = false, flat = false, ignored = false;
  int rank = declared_rank(key->decl, &open);
  if (!build(a, optimizer, args, t, at, &own, &flat)) return -1;
  if (flat && (rank == 1 || (rank == 0 && open))) {
    Type line = {.dtype = DT_f32, .rank = 1, .dim = {{1, 0}}};
    if (!key->line) {
      key->line = ARENA_NEW(a->arena, Optimizer);
      if (!build(a, optimizer, args, line, at, key->line, &ignored)) return -1;
    }
    if (same_update(own.update, key->line->update)) {
      if (key->flat < 0) {
        vec_push(a->arena, &job->optimizers, *key->line);
        key->flat = (int32_t)job->optimizers.len - 1;
      }
      return key->flat;
    }
  }
  own.whole = true;
  own.kernel = NULL;
  vec_push(a->arena, &job->optimizers, own);
  return (int32_t)job->optimizers.len - 1;
}

bool optimizer_takes(Analysis *a, const OptimizerChoice *choice, const Leaf *leaf) {
  Eval e = analysis_eval(a);
  Datum optimizer = definition_find(a, &e, "optim", "std/optim.ddp", choice->expr, choice->name,
                                    choice->file, choice->at);
  if (optimizer.kind != DATUM_optimizer) return true; /* optimizer_make says so */
  const Decl *decl = optimizer.as.closure->decl;
  bool open = false;
  int rank = declared_rank(decl, &open);
  if (leaf->type.rank == rank || (open && leaf->type.rank > rank)) return true;
  diag_report(DIAG_E0618, choice->at, "`%s` takes tensors of %s%d dimensions, and `%s` has %d",
              decl->name.text, open ? "at least " : "", rank, leaf->name, leaf->type.rank);
  diag_note(decl->formals.at[0].span, "this type says so");
  diag_help("choose it for some parameters only: `group PATHS { optim = %s }` in the model block",
            decl->name.text);
  return false;
}

static OptimizerKey *key_of(Analysis *a, const Decl *decl, const SettingValue *args) {
  for (uint32_t i = 0; i < a->optimizer_keys.len; i++) {
    OptimizerKey *k = a->optimizer_keys.at[i];
    if (k->decl == decl && setting_equal(k->args, args)) return k;
  }
  OptimizerKey *key = ARENA_NEW(a->arena, OptimizerKey);
  *key = (OptimizerKey){.decl = decl, .args = args, .flat = -1};
  vec_push(a->arena, &a->optimizer_keys, key);
  return key;
}

int32_t optimizer_make(Analysis *a, const OptimizerChoice *choice, const Type *tensor,
                       int32_t *first) {
  Eval e = analysis_eval(a);
  *first = -1;
  Datum optimizer = definition_find(a, &e, "optim", "std/optim.ddp", choice->expr, choice->name,
                                    choice->file, choice->at);
  if (optimizer.kind != DATUM_optimizer) return -1;
  static const SettingValue none = {.kind = VALUE_none};
  OptimizerKey *key = key_of(a, optimizer.as.closure->decl, choice->args ? choice->args : &none);
  OptimizerShape *shape = NULL;
  for (uint32_t i = 0; i < key->shapes.len && !shape; i++)
    if (type_equal(key->shapes.at[i].tensor, *tensor)) shape = &key->shapes.at[i];
  if (!shape) {
    DefinitionArgs args = {0};
    OptimizerShape made = {.tensor = *tensor, .number = -1};
    bool failed = key->shapes.len && key->shapes.at[0].number < 0; /* it would say so again */
    if (!failed && definition_args(a, optimizer, key->args, choice->args_at, &args))
      made.number = make_for(a, optimizer, &args, key, *tensor, choice->at);
    vec_push(a->arena, &key->shapes, made);
    shape = &key->shapes.at[key->shapes.len - 1];
  }
  *first = key->shapes.at[0].number;
  return shape->number;
}
