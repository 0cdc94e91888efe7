/* Which values lie in memory. In: a prepared graph. Out: Fuser.memory, keep, base.
   In memory are: sources, outputs, operands and results of library calls, reductions, and what
   several roots read and what costs more to compute again than to store and load: a function that
   is not cheap, or one that reads more than one full-size value. Everything else is pulled into its
   users. Draws are computed again: counter-based, the same numbers. */
#include "fuse.h"
#include "die.h"
#include "op.h"

enum { COST_cheap = 1, COST_indexed = 3, COST_function = 10, COST_most = 1000 };
enum { SAMPLE_BATCH = 61 }; /* sizes are compared at some batch; not a divisor of usual sizes */

bool fuse_is_resident(const Graph *g, Val v) {
  OpKind op = value_at(g, v)->op;
  return op == OP_input || op == OP_param || op == OP_buffer || op == OP_arg;
}

bool fuse_overwrites(const Graph *g, const Output *o, Val source) {
  const Value *x = value_at(g, source);
  if (o->kind == OUT_buffer && x->op == OP_buffer)
    return x->attr[op_attr(OP_buffer, "leaf")].as.i == o->index;
  if (o->kind == OUT_state && x->op == OP_input) /* inputs: p, g, states */
    return x->attr[op_attr(OP_input, "field")].as.i == (o->index < 0 ? 0 : o->index + 2);
  return false;
}

bool val_list_has(const Val *list, uint32_t n, Val v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return true;
  return false;
}

static void collect_loads(Fuser *f, Val v, bool top, ValList *out) {
  if (f->seen[v] == f->walk) return;
  f->seen[v] = f->walk;
  if (!top && f->memory[v]) {
    vec_push(f->arena, out, v);
    return;
  }
  const Value *x = value_at(f->g, v);
  for (int i = 0; i < x->inputs; i++) collect_loads(f, x->in[i], false, out);
}

void fuse_loads(Fuser *f, Val v, ValList *out) {
  f->walk++;
  collect_loads(f, v, true, out);
}

/* ---------- what has to be in memory ---------- */
static void keep(Fuser *f, Val v) {
  f->memory[v] = true;
  f->keep[v] = true;
  f->base[v] = v;
}

static bool lies_in_memory(void *self, Val v) {
  const Fuser *f = self;
  return f->memory[v];
}

/* An operand of a library call; a reshape of it shares the memory, and for calls with strides any view. */
static void keep_operand(Fuser *f, Val v, bool strided) {
  Val base = strided ? plan_view_base(f->g, v, lies_in_memory, f) : v;
  while (!f->memory[base] && value_at(f->g, base)->op == OP_reshape)
    base = value_at(f->g, base)->in[0];
  keep(f, base);
  f->base[v] = base;
}

static void decide_forced(Fuser *f, const Prepared *p) {
  for (uint32_t i = 0; i < f->g->outputs.len; i++) {
    Output *o = &f->g->outputs.at[i];
    check(!f->output[o->value] || o->kind == OUT_result, "%%%u is two outputs", o->value);
    f->output[o->value] = o;
    keep(f, o->value);
  }
  for (uint32_t i = 0; i < p->force.len; i++) keep(f, p->force.at[i]);
  for (Val v = 1; v < f->g->values.len; v++) {
    const Value *x = value_at(f->g, v);
    bool called = op_has(x->op, OPF_library) || x->op == OP_part;
    if (fuse_is_resident(f->g, v) || called) keep(f, v);
    if (op_has(x->op, OPF_reduce) || x->kept) f->memory[v] = true;
  }
  for (Val v = 1; v < f->g->values.len; v++) {
    const Value *x = value_at(f->g, v);
    for (int i = 0; i < x->inputs && op_has(x->op, OPF_library); i++)
      keep_operand(f, x->in[i], op_has(x->op, OPF_strided));
  }
}

/* ---------- what is better in memory ---------- */
static int64_t size_of(const Graph *g, Val v) {
  return type_elements_at(value_at(g, v)->type, SAMPLE_BATCH);
}

/* For every value: the one root that pulls it, or MANY; how often its users count it; whether a
   user reads each of its elements many times. */
#define MANY UINT32_MAX
typedef struct Use {
  Val root;
  uint32_t count;
  bool repeated;
} Use;

static bool passes_through(const Value *x) {
  return op_has(x->op, OPF_view) && x->op != OP_concat && x->op != OP_pad;
}

static Use *find_uses(Fuser *f) {
  Use *use = ARENA_ARRAY(f->arena, Use, f->g->values.len);
  for (Val v = f->g->values.len - 1; v > 0; v--) {
    const Value *x = value_at(f->g, v);
    bool alias = f->base[v] && f->base[v] != v;
    for (int i = 0; i < x->inputs && !alias; i++) {
      Use *in = &use[x->in[i]];
      Val root = f->memory[v] ? v : use[v].root;
      in->root = in->root == NO_VAL || in->root == root ? root : MANY;
      bool again = false; /* x * x counts once */
      for (int k = 0; k < i; k++) again = again || x->in[k] == x->in[i];
      if (!again) in->count += passes_through(x) && !f->memory[v] ? use[v].count : 1;
      /* pad and concat are larger, but read each element once */
      bool once = op_has(x->op, OPF_reduce) || x->op == OP_pad || x->op == OP_concat;
      bool wider = !once && size_of(f->g, v) > size_of(f->g, x->in[i]);
      in->repeated = in->repeated || wider || (!f->memory[v] && use[v].repeated);
    }
  }
  return use;
}

static int own_cost(const Value *x) {
  if (op_has(x->op, OPF_cheap) || op_has(x->op, OPF_view) || op_has(x->op, OPF_source))
    return COST_cheap;
  return op_has(x->op, OPF_elementwise) ? COST_function : COST_indexed;
}

/* Computed from scalars of the step alone: leaves every loop by itself. */
static bool *find_scalars(const Fuser *f) {
  bool *scalar = ARENA_ARRAY(f->arena, bool, f->g->values.len);
  for (Val v = 1; v < f->g->values.len; v++) {
    const Value *x = value_at(f->g, v);
    scalar[v] = x->type.rank == 0 && !fuse_is_resident(f->g, v) && !op_has(x->op, OPF_random) &&
                (op_has(x->op, OPF_elementwise) || op_has(x->op, OPF_source));
    for (int i = 0; i < x->inputs; i++) scalar[v] = scalar[v] && scalar[x->in[i]];
  }
  return scalar;
}

static void decide_cost(Fuser *f) {
  const Graph *g = f->g;
  const bool *scalar = find_scalars(f);
  Use *use = find_uses(f);
  int *cost = ARENA_ARRAY(f->arena, int, g->values.len);
  int *loads = ARENA_ARRAY(f->arena, int, g->values.len); /* of its own size or more */
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    cost[v] = own_cost(x);
    for (int i = 0; i < x->inputs; i++) {
      Val in = x->in[i];
      if (val_list_has(x->in, (uint32_t)i, in)) continue; /* x * x loads x once */
      bool full = size_of(g, in) >= size_of(g, v);
      if (!f->memory[in] && full) cost[v] += cost[in]; /* smaller ones leave the loop */
      if (full) loads[v] += f->memory[in] ? 1 : loads[in];
    }
    if (cost[v] > COST_most) cost[v] = COST_most;
    if (f->memory[v] || op_has(x->op, OPF_source) || op_has(x->op, OPF_view)) continue;
    if (scalar[v] || f->pulled[v]) continue;
    bool shared = use[v].root == MANY && use[v].count > 1;
    if ((shared && (cost[v] >= COST_function || loads[v] > 1)) ||
        (use[v].repeated && cost[v] >= COST_function))
      f->memory[v] = true;
  }
}

/* Unfused: whatever is not a source or a movement is stored. */
static void decide_all(Fuser *f) {
  for (Val v = 1; v < f->g->values.len; v++) {
    const Value *x = value_at(f->g, v);
    if (!op_has(x->op, OPF_source) && !op_has(x->op, OPF_view)) f->memory[v] = true;
    f->keep[v] = f->memory[v];
  }
}

void fuse_decide(Fuser *f, const Prepared *p, const ProgramOptions *options) {
  decide_forced(f, p);
  if (f->fuse && options->epilogues) epilogue_find(f);
  if (f->fuse)
    decide_cost(f);
  else
    decide_all(f);
  for (Val v = 1; v < f->g->values.len; v++)
    if (f->memory[v]) f->base[v] = v;
}
