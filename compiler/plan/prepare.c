/* Before fusion: a graph that only holds what its outputs need, in which
   - every output is a value of its own, computed by an op: nothing is read from the memory of an
     accumulated output, no memory is written for two outputs;
   - products read transposed operands through ta and tb, and add the bias of a layer themselves;
   - the mask of a relu's gradient reads the saved activation (x <= 0 exactly where relu(x) <= 0,
   NaN included), so that the product in front of it need not be kept or computed again;
   - a buffer whose old value is read by others gets its new one at the end, by a copy from scratch.
 */
#include "die.h"
#include "fuse.h"
#include "map.h"
#include "op.h"

typedef struct Prepare {
  const Graph *from;
  Graph *to;
  Val *map;      /* from -> to */
  bool *live;    /* of from */
  bool *operand; /* of from: read by a library op, directly or reshaped */
  Val *product;  /* of from: the product that this sum adds a bias to, as one call */
  bool *within;  /* of from: part of such a call */
  bool fuse;
  Map parts; /* of new values: call and number -> OP_part */
} Prepare;

static void mark_live(Prepare *p) {
  const Graph *g = p->from;
  for (uint32_t i = 0; i < g->outputs.len; i++) p->live[g->outputs.at[i].value] = true;
  for (Val v = g->values.len - 1; v > 0; v--) {
    const Value *x = value_at(g, v);
    bool passes = op_has(x->op, OPF_library) || (x->op == OP_reshape && p->operand[v]);
    for (int i = 0; p->live[v] && i < x->inputs; i++) {
      p->live[x->in[i]] = true;
      if (passes) p->operand[x->in[i]] = true;
    }
  }
}

/* Swaps the last two dimensions and leaves the others. */
static bool is_transpose(const Value *v) {
  if (v->op != OP_permute || v->type.rank < 2) return false;
  const Attr *dims = &v->attr[op_attr(OP_permute, "dims")];
  int last = v->type.rank - 1;
  for (int d = 0; d < last - 1; d++)
    if (dims->as.ints.at[d] != d) return false;
  return dims->as.ints.at[last] == last - 1 && dims->as.ints.at[last - 1] == last;
}

/* A value made in the place of `from` is computed again, or kept, as that one. */
static Val again(Graph *to, Val v, const Value *from) {
  value_at(to, v)->region = from->region;
  value_at(to, v)->kept = from->kept;
  return v;
}

/* What a product reads, of `from`; transposes become ta and tb. */
static void product_operands(const Prepare *p, const Value *v, Attr *attr, Val *in) {
  op_copy_attrs(v, attr);
  for (int i = 0; i < 2; i++) {
    in[i] = v->in[i];
    Attr *flag = &attr[op_attr(OP_matmul, i == 0 ? "ta" : "tb")];
    for (; is_transpose(value_at(p->from, in[i])); in[i] = value_at(p->from, in[i])->in[0])
      flag->as.i = !flag->as.i;
  }
}

static Val copy_matmul(Prepare *p, const Value *v) {
  Attr attr[IR_MAX_ATTRS];
  Val in[2];
  product_operands(p, v, attr, in);
  for (int i = 0; i < 2; i++) in[i] = p->map[in[i]];
  return again(p->to, ir_must(p->to, OP_matmul, in, 2, attr, v->at, v->scope), v);
}

/* ---------- x W^T + bias as one call ---------- */

/* The product behind `v`, through reshapes, if nobody else reads it. */
static Val lone_product(const Prepare *p, const uint32_t *uses, Val v) {
  for (;; v = value_at(p->from, v)->in[0]) {
    const Value *x = value_at(p->from, v);
    if (uses[v] != 1 || x->kept) return NO_VAL;
    if (x->op == OP_matmul) return v;
    if (x->op != OP_reshape) return NO_VAL;
  }
}

/* The library adds a bias to x W^T of matrices in f32. */
static bool takes_bias(const Prepare *p, Val product, Val sum, Val bias) {
  const Value *m = value_at(p->from, product), *v = value_at(p->from, sum),
              *w = value_at(p->from, bias);
  Attr attr[IR_MAX_ATTRS];
  Val in[2];
  if (w->op != OP_param || w->type.rank != 1 || v->type.rank < 2 || m->type.rank != 2) return false;
  product_operands(p, m, attr, in);
  if (attr[op_attr(OP_matmul, "ta")].as.i || !attr[op_attr(OP_matmul, "tb")].as.i) return false;
  Type a = value_at(p->from, in[0])->type, b = value_at(p->from, in[1])->type;
  Dim n = m->type.dim[1];
  return a.dtype == DT_f32 && b.dtype == DT_f32 && w->type.dtype == DT_f32 &&
         v->type.dtype == DT_f32 && a.rank == 2 && b.rank == 2 && dim_equal(n, w->type.dim[0]) &&
         dim_equal(n, v->type.dim[v->type.rank - 1]);
}

static void find_biased(Prepare *p, Arena *a) {
  const Graph *g = p->from;
  uint32_t *uses = ARENA_ARRAY(a, uint32_t, g->values.len);
  for (Val v = 1; v < g->values.len; v++)
    for (int i = 0; p->live[v] && i < value_at(g, v)->inputs; i++) uses[value_at(g, v)->in[i]]++;
  for (uint32_t i = 0; i < g->outputs.len; i++) uses[g->outputs.at[i].value]++;
  for (Val v = 1; v < g->values.len && p->fuse; v++) {
    const Value *x = value_at(g, v);
    for (int i = 0; p->live[v] && x->op == OP_add && i < 2 && !p->product[v]; i++) {
      Val m = lone_product(p, uses, x->in[i]);
      if (!m || !type_equal(value_at(g, x->in[i])->type, x->type)) continue;
      if (!takes_bias(p, m, v, x->in[1 - i])) continue;
      p->product[v] = m;
      for (Val at = x->in[i]; at != m; at = value_at(g, at)->in[0]) p->within[at] = true;
      p->within[m] = true;
    }
  }
}

static Val copy_biased(Prepare *p, Val sum) {
  const Value *v = value_at(p->from, sum), *m = value_at(p->from, p->product[sum]);
  Attr attr[IR_MAX_ATTRS], shape[IR_MAX_ATTRS] = {{.as.dims.len = v->type.rank}};
  Val in[3];
  product_operands(p, m, attr, in);
  bool first = value_at(p->from, v->in[0])->op == OP_param;
  in[2] = v->in[first ? 0 : 1];
  for (int i = 0; i < 3; i++) in[i] = p->map[in[i]];
  Val y = again(p->to, ir_must(p->to, OP_matmul_bias, in, 3, NULL, m->at, m->scope), v);
  if (v->type.rank == 2) return y;
  for (int i = 0; i < v->type.rank; i++) shape[0].as.dims.at[i] = v->type.dim[i];
  return again(p->to, ir_must(p->to, OP_reshape, &y, 1, shape, v->at, v->scope), v);
}

static bool is_zero(const Graph *g, Val v) {
  double k;
  return ir_is_const(g, v, &k) && k == 0;
}

/* v = where(x <= 0, 0, x): later readers of the comparison get (v <= 0) instead. */
static void reuse_mask(Prepare *p, Val v) {
  const Value *w = value_at(p->from, v);
  if (w->op != OP_where || !p->operand[v] || !p->fuse) return;
  const Value *test = value_at(p->from, w->in[0]);
  if (test->op != OP_le || test->in[0] != w->in[2]) return;
  if (!is_zero(p->from, test->in[1]) || !is_zero(p->from, w->in[1])) return;
  if (!type_equal(w->type, value_at(p->from, w->in[2])->type)) return;
  Val in[2] = {p->map[v], p->map[test->in[1]]};
  Span at = test->at;
  Scope scope = test->scope;
  p->map[w->in[0]] = ir_must(p->to, OP_le, in, 2, NULL, at, scope);
  value_at(p->to, p->map[w->in[0]])->region = w->region;
}

static Val identity(Graph *g, Val v) {
  Value x = *value_at(g, v);
  return ir_must(g, OP_detach, &v, 1, NULL, x.at, x.scope);
}

/* A call reads memory: numbers that have none get some. */
static Val copy_call(Prepare *p, const Value *v) {
  Val in[IR_MAX_INPUTS];
  for (int i = 0; i < v->inputs; i++) {
    in[i] = p->map[v->in[i]];
    const Value *x = value_at(p->to, in[i]);
    if (op_has(x->op, OPF_source) && !fuse_is_resident(p->to, in[i]))
      in[i] = identity(p->to, in[i]);
  }
  return again(p->to, ir_must(p->to, v->op, in, v->inputs, v->attr, v->at, v->scope), v);
}

/* A result of a call is one value, however often it is named: it has one memory. */
static Val copy_part(Prepare *p, Val v) {
  const Value *x = value_at(p->from, v);
  uint32_t *made = map_at(&p->parts, (uint64_t)p->map[x->in[0]] << 32 | (uint32_t)op_part_index(x));
  if (!*made) *made = ir_copy(p->to, p->from, v, p->map);
  return *made;
}

static void copy_live(Prepare *p) {
  for (Val v = 1; v < p->from->values.len; v++) {
    if (!p->live[v] || p->within[v]) continue;
    const Value *x = value_at(p->from, v);
    p->map[v] = p->product[v]                   ? copy_biased(p, v)
                : x->op == OP_matmul            ? copy_matmul(p, x)
                : op_has(x->op, OPF_overwrites) ? copy_call(p, x)
                : x->op == OP_part              ? copy_part(p, v)
                                                : ir_copy(p->to, p->from, v, p->map);
    reuse_mask(p, v);
  }
}

/* ---------- outputs ---------- */
/* By-products do not read the value of their call. */
static uint32_t *count_uses(Arena *a, const Graph *g) {
  uint32_t *uses = ARENA_ARRAY(a, uint32_t, g->values.len);
  for (Val v = 1; v < g->values.len; v++) {
    if (value_at(g, v)->op == OP_part) continue;
    for (int i = 0; i < value_at(g, v)->inputs; i++) uses[value_at(g, v)->in[i]]++;
  }
  return uses;
}

/* Its memory holds more than this value (a sum over micro-batches) or another type (results): it is
   written, never read. */
static bool write_only(OutputKind kind) {
  return kind != OUT_buffer && kind != OUT_state && kind != OUT_carried && kind != OUT_yield;
}

/* An output that only reshapes a result is that result: same elements, same order, simpler loops.
 */
static Val see_through_reshape(const Graph *g, uint32_t *uses, const uint32_t *times, Val v) {
  while (value_at(g, v)->op == OP_reshape && uses[v] == 0 && times[v] == 0) {
    Val in = value_at(g, v)->in[0];
    if (uses[in] != 1 || times[in] || op_has(value_at(g, in)->op, OPF_source)) break;
    uses[in] = 0;
    v = in;
  }
  return v;
}

static void own_values(Graph *g, Arena *a) {
  uint32_t *uses = count_uses(a, g);
  uint32_t *times = ARENA_ARRAY(a, uint32_t, g->values.len);
  for (uint32_t i = 0; i < g->outputs.len; i++) times[g->outputs.at[i].value]++;
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    Output *o = &g->outputs.at[i];
    times[o->value]--;
    o->value = see_through_reshape(g, uses, times, o->value);
    times[o->value]++;
  }
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    Output *o = &g->outputs.at[i];
    OpKind op = value_at(g, o->value)->op;
    /* some calls and all by-products write their result; they cannot add to one */
    bool apart = op_has(op, OPF_source) || op_has(op, OPF_overwrites) || op == OP_part;
    if (apart || times[o->value] > 1 || (write_only(o->kind) && uses[o->value]))
      o->value = identity(g, o->value);
  }
}

/* ---------- buffers ---------- */
/* An optimizer over a flat tensor: one loop, which reads an element before it writes it. */
static bool is_flat(const Graph *g) {
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (x->op == OP_input && x->type.rank == 1 && x->type.dim[0].per_batch) return true;
  }
  return false;
}

/* Everything that `to` is computed from, itself included. */
static void mark_ancestors(const Graph *g, Val to, bool *ancestor) {
  ancestor[to] = true;
  for (Val v = to; v > 0; v--)
    for (int i = 0; ancestor[v] && i < value_at(g, v)->inputs; i++)
      ancestor[value_at(g, v)->in[i]] = true;
}

/* May the new value `to` be stored over the old one where it is computed? Not if anything else is
   computed from the old value (it may run later), nor if `to` reads it at other places. */
static bool may_update_in_place(const Graph *g, Arena *a, const Output *o) {
  Val to = o->value;
  uint32_t n = g->values.len;
  bool *ancestor = ARENA_ARRAY(a, bool, n), *reads_old = ARENA_ARRAY(a, bool, n);
  mark_ancestors(g, to, ancestor);
  for (Val v = 1; v < n; v++) {
    const Value *x = value_at(g, v);
    bool old = fuse_overwrites(g, o, v);
    reads_old[v] = old;
    for (int i = 0; i < x->inputs; i++)
      reads_old[v] = reads_old[v] || (x->in[i] != to && reads_old[x->in[i]]);
    if (!reads_old[v] || old) continue;
    if (!ancestor[v] || !op_has(x->op, OPF_elementwise)) return false;
  }
  return true;
}

static void protect_buffers(Prepared *p, Arena *a) {
  Graph *g = p->g;
  bool flat = is_flat(g);
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    Output *o = &g->outputs.at[i];
    bool overwrites = o->kind == OUT_buffer || (o->kind == OUT_state && !flat);
    if (!overwrites || may_update_in_place(g, a, o)) continue;
    vec_push(a, &p->force, o->value);
    o->value = identity(g, o->value);
  }
}

Prepared plan_prepare(Arena *a, const Graph *g, bool fuse) {
  Prepared p = {.g = graph_new(a, g->name, g->training)};
  p.g->scopes.len = 0;
  for (uint32_t i = 0; i < g->scopes.len; i++) vec_push(a, &p.g->scopes, g->scopes.at[i]);
  Prepare work = {.from = g, .to = p.g, .fuse = fuse, .parts = {.arena = a}};
  work.map = ARENA_ARRAY(a, Val, g->values.len);
  work.live = ARENA_ARRAY(a, bool, g->values.len);
  work.operand = ARENA_ARRAY(a, bool, g->values.len);
  work.product = ARENA_ARRAY(a, Val, g->values.len);
  work.within = ARENA_ARRAY(a, bool, g->values.len);
  mark_live(&work);
  find_biased(&work, a);
  copy_live(&work);
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    Output o = g->outputs.at[i];
    graph_output(p.g, o.kind, o.index, work.map[o.value]);
  }
  own_values(p.g, a);
  protect_buffers(&p, a);
  return p;
}
