/* pass_widen, after grad: where 16-bit values must not be added up in 16 bits. In: a graph with values
   of bf16 or f16. Out: the same in which
   - sums, and sums over equal indices, are made in f32 and rounded once;
   - calls whose kernels read f32 alone on the target of the job get f32 and are rounded behind;
   - what is only made to become f32, such as the gradient of a weight, is f32 from the product on
     (`full` of matmul and conv_filter), so that the arena of gradients never sees a rounded one;
   - sums into rows read 16 bits where a cast to f32 stood in front (`full` of rows_add). */
#include "passes.h"
#include "rewrite.h"
#include "scan.h"

typedef struct Widen {
  Rewrite r;
  Val *full;      /* by old value: the same in f32, once made */
  uint32_t *uses; /* by old value */
  const Job *job;
} Widen;

static DType type_old(const Widen *w, Val v) {
  return value_at(w->r.from, v)->type.dtype;
}

static Val cast_to(Widen *w, Val v, DType t, const Value *like) {
  if (value_at(w->r.to, v)->type.dtype == t) return v;
  Attr attr = {.as.i = (int64_t)t};
  return ir_must(w->r.to, OP_cast, &v, 1, &attr, like->at, like->scope);
}

/* Does the kernel of a library op read 16-bit floats? */
static bool reads_half(const Widen *w, OpKind op) {
  return op_has(op, OPF_half) || (w->job->target.cuda && op_has(op, OPF_half_gpu));
}

/* x of 16-bit inputs, with its result in f32. */
static Val full_call(Widen *w, const Value *x, const Val *in) {
  Attr attr[IR_MAX_ATTRS];
  op_copy_attrs(x, attr);
  attr[op_attr(x->op, "full")].as.i = true;
  return ir_must(w->r.to, x->op, in, x->inputs, attr, x->at, x->scope);
}

static bool is_full_product(const Widen *w, OpKind op) {
  return op_has(op, OPF_product) && op_attr(op, "full") >= 0 && reads_half(w, op);
}

/* v, an old value, in f32. */
static Val in_full(Widen *w, Val v) {
  if (!dtype_is_half(type_old(w, v))) return w->r.map[v];
  if (w->full[v]) return w->full[v];
  const Value *x = value_at(w->r.from, v);
  bool alone = w->uses[v] == 1;
  bool follows = op_has(x->op, OPF_elementwise) || op_has(x->op, OPF_view);
  Val made;
  if (alone && is_full_product(w, x->op)) {
    made = full_call(w, x, (Val[]){w->r.map[x->in[0]], w->r.map[x->in[1]]});
  } else if (alone && follows && x->op != OP_cast && x->inputs > 0) {
    Val in[IR_MAX_INPUTS];
    for (int i = 0; i < x->inputs; i++) in[i] = in_full(w, x->in[i]);
    made = ir_must(w->r.to, x->op, in, x->inputs, x->attr, x->at, x->scope);
    made = cast_to(w, made, DT_f32, x);
  } else {
    made = cast_to(w, w->r.map[v], DT_f32, x);
  }
  return w->full[v] = made;
}

/* Products read inputs of one type. */
static Val product(Widen *w, const Value *x) {
  Val in[2] = {w->r.map[x->in[0]], w->r.map[x->in[1]]};
  DType a = type_old(w, x->in[0]), b = type_old(w, x->in[1]);
  for (int i = 0; i < 2; i++) in[i] = cast_to(w, in[i], dtype_promote(a, b), x);
  return ir_must(w->r.to, OP_matmul, in, 2, x->attr, x->at, x->scope);
}

/* Sums into rows of what was in 16 bits before a cast: no pass over memory for the cast. */
static Val rows_of_half(Widen *w, const Value *x) {
  const Value *g = value_at(w->r.from, x->in[1]);
  if (x->op != OP_rows_add || !reads_half(w, x->op) || g->op != OP_cast ||
      g->type.dtype != DT_f32 || !dtype_is_half(type_old(w, g->in[0])))
    return NO_VAL;
  return full_call(w, x, (Val[]){w->r.map[x->in[0]], w->r.map[g->in[0]]});
}

static Graph *widen_body(Graph *body, const void *job) {
  return pass_widen(body, job);
}

static Val convert(Widen *w, Val v) {
  const Value *x = value_at(w->r.from, v);
  if (x->op == OP_matmul) return product(w, x);
  if (x->op == OP_scan) {
    Val made = ir_copy(w->r.to, w->r.from, v, w->r.map);
    rewrite_body(w->r.to, made, widen_body, w->job);
    return made;
  }
  bool sum = x->op == OP_sum && dtype_is_half(x->type.dtype);
  bool foreign = op_has(x->op, OPF_library) && !reads_half(w, x->op) && x->op != OP_extern;
  bool half = false;
  for (int i = 0; i < x->inputs; i++) half = half || dtype_is_half(type_old(w, x->in[i]));
  if (x->op == OP_cast && x->type.dtype == DT_f32 && half) return in_full(w, x->in[0]);
  Val rows = rows_of_half(w, x);
  if (rows) return rows;
  bool all = sum || (foreign && half), any = false;
  Val in[IR_MAX_INPUTS];
  for (int i = 0; i < x->inputs; i++) {
    bool logsumexp = x->op == OP_attention_grad && i == 2; /* attention leaves it in f32 */
    in[i] = all || logsumexp ? in_full(w, x->in[i]) : w->r.map[x->in[i]];
    any = any || in[i] != w->r.map[x->in[i]];
  }
  if (!any) return ir_copy(w->r.to, w->r.from, v, w->r.map);
  Val made = ir_must(w->r.to, x->op, in, x->inputs, x->attr, x->at, x->scope);
  if (dtype_is_half(x->type.dtype) && value_at(w->r.to, made)->type.dtype == DT_f32)
    w->full[v] = made;
  return cast_to(w, made, x->type.dtype, x);
}

/* By-products of a call that was made wider have another type than before. */
static Val convert_part(Widen *w, Val v) {
  const Value *x = value_at(w->r.from, v);
  Val call = w->full[x->in[0]] ? w->full[x->in[0]] : w->r.map[x->in[0]];
  Val made = ir_must(w->r.to, OP_part, &call, 1, x->attr, x->at, x->scope);
  if (dtype_is_half(x->type.dtype) && value_at(w->r.to, made)->type.dtype == DT_f32)
    w->full[v] = made;
  return cast_to(w, made, x->type.dtype, x);
}

static bool has_half(const Graph *g) {
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (dtype_is_half(x->type.dtype) || (x->op == OP_scan && has_half(scan_of(x).body)))
      return true;
  }
  return false;
}

Graph *pass_widen(Graph *g, const Job *job) {
  if (!has_half(g)) return g;
  Widen w = {.r = rewrite_begin(g), .job = job};
  w.full = ARENA_ARRAY(g->arena, Val, g->values.len);
  w.uses = ARENA_ARRAY(g->arena, uint32_t, g->values.len);
  for (Val v = 1; v < g->values.len; v++)
    for (int i = 0; i < value_at(g, v)->inputs; i++) w.uses[value_at(g, v)->in[i]]++;
  for (uint32_t i = 0; i < g->outputs.len; i++) w.uses[g->outputs.at[i].value]++;
  for (Val v = 1; v < g->values.len; v++)
    w.r.map[v] = value_at(g, v)->op == OP_part ? convert_part(&w, v) : convert(&w, v);
  return pass_dce(pass_cse(rewrite_end(&w.r)));
}
