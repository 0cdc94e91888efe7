/* pass_cast, before grad: mixed precision, as torch.autocast does it. In: the training and evaluation
   graphs in f32. Out: the same with casts, so that gradients get theirs from the rule of `cast`.

   - Products (OPF_product) read 16-bit inputs and give 16-bit results. What is added to a product in
     its own function is its bias, a part of the product.
   - What the table calls OPF_full is computed in f32, and so is what its function computes for it
     element by element; but not in functions that PyTorch computes as one op of its input's type.
   - Functions of C headers get the types they had, and so does what a loop carries and yields; the
     products of its body are like others.
   - Everything else follows by promotion. Numbers and masks (`weak`) do not widen a 16-bit tensor.

   A full evaluation has every weight, buffer and field in 16 bits (model.to(dtype)), and no OPF_full.
   Types that the job states keep their width: casts are left alone. */
#include "passes.h"
#include "rewrite.h"
#include <string.h>

typedef struct Casting {
  Rewrite r;
  DType half;
  bool all;   /* full evaluation */
  bool *weak; /* by old value: computed from numbers and bools alone */
  struct {
    uint32_t len, cap;
    Val *at;
  } full; /* by new value: the same in f32, once asked for */
} Casting;

static DType type_in(const Casting *c, Val v) {
  return value_at(c->r.to, v)->type.dtype;
}

static Val cast_to(Casting *c, Val v, DType t, const Value *like) {
  if (type_in(c, v) == t) return v;
  Attr attr = {.as.i = (int64_t)t};
  return ir_must(c->r.to, OP_cast, &v, 1, &attr, like->at, like->scope);
}

/* ---------- f32 ---------- */

/* Is `inner` the scope `outer`, or inside of it? */
static bool scope_within(const Graph *g, Scope inner, Scope outer) {
  while (inner != outer && inner) inner = g->scopes.at[inner].parent;
  return inner == outer;
}

static Val *full_slot(Casting *c, Val v) {
  while (c->full.len <= v) vec_push(c->r.to->arena, &c->full, NO_VAL);
  return &c->full.at[v];
}

/* v, a new value, in f32 for a value of `scope`. What the same function computes element by element is
   computed in f32 from the start: kernels do anyway, so it costs nothing. */
static Val in_full(Casting *c, Val v, const Value *like) {
  if (type_in(c, v) != c->half) return v;
  if (*full_slot(c, v)) return c->full.at[v];
  const Value x = *value_at(c->r.to, v);
  bool own = op_has(x.op, OPF_elementwise) && x.op != OP_cast &&
             scope_within(c->r.to, like->scope, x.scope);
  Val made = NO_VAL;
  if (own) {
    Val in[IR_MAX_INPUTS];
    for (int i = 0; i < x.inputs; i++) in[i] = in_full(c, x.in[i], &x);
    made = ir_must(c->r.to, x.op, in, x.inputs, x.attr, x.at, x.scope);
  }
  /* of numbers alone it has no wider type */
  if (!made || type_in(c, made) == c->half) made = cast_to(c, v, DT_f32, like);
  *full_slot(c, v) = made;
  return made;
}

/* Functions of the library that are one op of PyTorch's, with a result of the type of the input. */
static bool in_plain_function(const Casting *c, const Value *x) {
  static const char *const plain[] = {"gelu", "gelu_new", "elu", "mish", "log_sigmoid", "silu"};
  for (Scope s = x->scope; s; s = c->r.to->scopes.at[s].parent)
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
      if (!strcmp(c->r.to->scopes.at[s].name, plain[i])) return true;
  return false;
}

/* ---------- 16 bits ---------- */

static bool is_weak(const Casting *c, const Value *x) {
  if (x->op == OP_const) return true;
  if (x->type.dtype == DT_bool) return true;
  bool plain = op_has(x->op, OPF_elementwise) || op_has(x->op, OPF_view);
  for (int i = 0; plain && i < x->inputs; i++) plain = c->weak[x->in[i]];
  return plain && x->inputs > 0;
}

static Val product(Casting *c, const Value *x, Val *in) {
  for (int i = 0; i < x->inputs; i++)
    if (type_in(c, in[i]) == DT_f32) in[i] = cast_to(c, in[i], c->half, x);
  return ir_must(c->r.to, x->op, in, x->inputs, x->attr, x->at, x->scope);
}

static bool is_product_of(const Casting *c, Val v, Scope scope) {
  const Value *x = value_at(c->r.to, v);
  while (x->op == OP_reshape) x = value_at(c->r.to, x->in[0]);
  return op_has(x->op, OPF_product) && x->scope == scope;
}
static bool is_param_of(const Casting *c, Val v) {
  const Value *x = value_at(c->r.to, v);
  while (op_has(x->op, OPF_view) && x->inputs == 1) x = value_at(c->r.to, x->in[0]);
  return x->op == OP_param;
}

/* Inputs of an elementwise op or a view: numbers and biases take the type of their neighbours. If f32
   tensors are left, the others are widened here, in one cast for all who do, so that their gradients
   are added up before they are rounded. */
static void join(Casting *c, const Value *x, Val *in) {
  bool half = false, full = false;
  for (int i = 0; i < x->inputs; i++)
    half = half || (type_in(c, in[i]) == c->half && value_at(c->r.to, in[i])->type.rank > 0);
  for (int i = 0; half && i < x->inputs; i++) {
    if (type_in(c, in[i]) != DT_f32 || !value_at(c->r.to, in[i])->type.rank) continue;
    bool bias = x->op == OP_add && is_param_of(c, in[i]) && is_product_of(c, in[1 - i], x->scope);
    if (c->weak[x->in[i]] || bias)
      in[i] = cast_to(c, in[i], c->half, x);
    else
      full = true;
  }
  for (int i = 0; full && i < x->inputs; i++) in[i] = in_full(c, in[i], x);
}

/* ---------- the walk ---------- */

typedef struct Precision {
  DType half;
  bool all;
} Precision;

static Graph *cast_body(Graph *body, const void *with) {
  const Precision *p = with;
  return cast_graph(body, p->half, p->all);
}

static Val convert(Casting *c, Val v) {
  const Value *x = value_at(c->r.from, v);
  Val in[IR_MAX_INPUTS] = {NO_VAL};
  for (int i = 0; i < x->inputs; i++) in[i] = c->r.map[x->in[i]];
  c->weak[v] = is_weak(c, x);
  bool wide = x->type.dtype == DT_f64;
  for (int i = 0; i < x->inputs; i++) wide = wide || type_in(c, in[i]) == DT_f64;
  if (op_has(x->op, OPF_product) && !wide) return product(c, x, in);
  bool full = op_has(x->op, OPF_full) && !c->all && !in_plain_function(c, x);
  bool foreign = x->op == OP_extern || x->op == OP_scan; /* their types are settled */
  for (int i = 0; (full || foreign) && i < x->inputs; i++) {
    DType had = value_at(c->r.from, x->in[i])->type.dtype;
    in[i] = x->op == OP_scan ? cast_to(c, in[i], had, x) : in_full(c, in[i], x);
  }
  if (!full && (op_has(x->op, OPF_elementwise) || op_has(x->op, OPF_view))) join(c, x, in);
  Val made = ir_must(c->r.to, x->op, in, x->inputs, x->attr, x->at, x->scope);
  rewrite_body(c->r.to, made, cast_body, &(Precision){c->half, c->all});
  bool leaf = x->op == OP_param || x->op == OP_buffer || x->op == OP_input || x->op == OP_normal ||
              x->op == OP_uniform;
  return c->all && leaf && x->type.dtype == DT_f32 ? cast_to(c, made, c->half, x) : made;
}

Graph *cast_graph(Graph *g, DType half, bool all) {
  Casting c = {.r = rewrite_begin(g), .half = half, .all = all};
  c.weak = ARENA_ARRAY(g->arena, bool, g->values.len);
  for (Val v = 1; v < g->values.len; v++) c.r.map[v] = convert(&c, v);
  for (uint32_t i = 0; i < g->outputs.len; i++) { /* what the runtime reads keeps its type */
    const Output *o = &g->outputs.at[i];
    const Value *old = value_at(g, o->value);
    Val v = in_full(&c, c.r.map[o->value], old);
    graph_output(c.r.to, o->kind, o->index, cast_to(&c, v, old->type.dtype, old));
  }
  return pass_dce(pass_cse(c.r.to));
}

void pass_cast(Job *job) {
  bool bf16 = job_setting_is(job, "bf16", "true"), fp16 = job_setting_is(job, "fp16", "true");
  bool bf16_eval = job_setting_is(job, "bf16_full_eval", "true");
  bool fp16_eval = job_setting_is(job, "fp16_full_eval", "true");
  if (bf16 || fp16) job->train = cast_graph(job->train, bf16 ? DT_bf16 : DT_f16, false);
  if (!job->eval) return;
  if (bf16_eval || fp16_eval)
    job->eval = cast_graph(job->eval, bf16_eval ? DT_bf16 : DT_f16, true);
  else if (bf16 || fp16)
    job->eval = cast_graph(job->eval, bf16 ? DT_bf16 : DT_f16, false);
}
