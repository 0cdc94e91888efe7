/* Reverse mode through a loop. In: the gradients of its results. Out: a loop that runs the other way,
   whose body is reverse mode of the body, and what its results add to the gradients of the inputs.

   The body stands once in a graph of its own (`g`), forwards and then backwards. What the backward part
   reads of the forward one comes in three ways: walked inputs are walked again; what is cheap is
   computed again; the rest is yielded by the forward loop and walked (`saved`).

   The gradient of an input that all turns read is a sum over the turns. Where it is a product or a sum of
   things that can be stacked, the sum is taken after the loop, over the stacks: sum_t h_t' g_t is one
   product with T times the rows (grad_hoist.c). Otherwise it is carried. */
#include "grad_scan.h"
#include "diag.h"
#include "die.h"

/* ---------- the body, there and back ---------- */

static void collect_result_grads(ScanGrad *sg) {
  Grad *b = sg->b;
  sg->of_result[0] = b->sum[sg->v];
  for (Val p = sg->v + 1; p < b->n; p++) {
    const Value *x = value_at(b->g, p);
    if (x->op != OP_part || x->in[0] != sg->v || b->sum[p] == NO_VAL) continue;
    grad_contribute(b, &sg->of_result[op_part_index(x)], b->sum[p]);
  }
}

static bool is_float(const Graph *g, Val v) {
  return dtype_category(value_at(g, v)->type.dtype) == 'f';
}

/* What depends on inputs whose gradient is asked for; what is carried may come to, turn by turn. */
static void mark_needed(ScanGrad *sg) {
  const Scan *s = &sg->s;
  bool *needed = sg->inner.needed;
  for (int k = 0; k < s->inputs; k++)
    if (sg->arg[k] != NO_VAL && sg->b->needed[sg->x.in[k]])
      needed[sg->arg[k]] = is_float(sg->g, sg->arg[k]);
  for (bool more = true; more;) {
    more = false;
    grad_mark(sg->g, 1, sg->n, needed);
    for (int j = 0; j < s->carried; j++) {
      Val arg = sg->arg[s->over + j];
      if (arg == NO_VAL || needed[arg] || !needed[scan_output(s, j)]) continue;
      needed[arg] = more = true;
    }
  }
}

static Val new_seed(ScanGrad *sg, Type t) {
  return scan_arg(sg->g, sg->s.inputs + sg->seeds++, t, sg->x.at, 0);
}

/* Arguments that stand for the gradients of the outputs. */
static void plant_seeds(ScanGrad *sg) {
  const Scan *s = &sg->s;
  for (int k = 0; k < scan_results(s); k++) {
    Val y = scan_output(s, k);
    bool carried = k < s->carried;
    if (!sg->inner.needed[y] || (!carried && sg->of_result[k] == NO_VAL)) continue;
    sg->seed[k] = new_seed(sg, value_at(sg->g, y)->type);
  }
  for (int k = 0; k < scan_results(s); k++)
    if (sg->seed[k] != NO_VAL)
      grad_contribute(&sg->inner, &sg->inner.sum[scan_output(s, k)], sg->seed[k]);
}

static void there_and_back(ScanGrad *sg) {
  const Graph *body = sg->s.body;
  sg->g = graph_like(body);
  sg->n = body->values.len;
  Val *map = ARENA_ARRAY(body->arena, Val, sg->n);
  for (Val v = 1; v < sg->n; v++) {
    map[v] = ir_copy(sg->g, body, v, map);
    check(map[v] == v, "a copied body counts otherwise");
  }
  scan_args(sg->g, sg->s.inputs, sg->arg);
  sg->inner = (Grad){.job = sg->b->job, .g = sg->g, .n = sg->n};
  sg->inner.needed = ARENA_ARRAY(body->arena, bool, sg->n);
  sg->inner.sum = ARENA_ARRAY(body->arena, Val, sg->n);
  mark_needed(sg);
  plant_seeds(sg);
  for (Val v = sg->n - 1; v > 0; v--) grad_visit(&sg->inner, v);
}

/* ---------- what the backward loop computes ---------- */

/* The gradient of argument k in one turn; NO_VAL. */
static Val grad_of_arg(const ScanGrad *sg, int k) {
  Val arg = sg->arg[k];
  return arg == NO_VAL || !sg->inner.needed[arg] ? NO_VAL : sg->inner.sum[arg];
}

static Val zeros(Graph *g, Type t, const Value *like) {
  Val z = ir_const(g, 0, t.dtype, like->at, 0);
  if (!t.rank) return z;
  Attr attrs[IR_MAX_ATTRS] = {{.as.dims.len = t.rank}, {.as.ints.len = -1}};
  for (int i = 0; i < t.rank; i++) attrs[0].as.dims.at[i] = t.dim[i];
  return ir_must(g, OP_expand, &z, 1, attrs, like->at, 0);
}

static void carry(ScanGrad *sg, Val seed, Val next, int input) {
  sg->carried[sg->n_carried++] = (BackCarried){.seed = seed, .next = next, .input = input};
}

static void find_roots(ScanGrad *sg) {
  const Scan *s = &sg->s;
  for (int j = 0; j < s->carried; j++) {
    if (sg->seed[j] == NO_VAL) continue;
    Val next = sg->arg[s->over + j] == NO_VAL ? NO_VAL : sg->inner.sum[sg->arg[s->over + j]];
    if (next == NO_VAL) next = zeros(sg->g, value_at(sg->g, sg->seed[j])->type, &sg->x);
    carry(sg, sg->seed[j], next, s->over + j);
  }
  for (int k = s->over + s->carried; k < s->inputs; k++) {
    Val c = grad_of_arg(sg, k);
    if (c == NO_VAL) continue;
    sg->hoisted[k] = grad_hoist(sg, c, HOIST_check) != NO_VAL;
    if (sg->hoisted[k]) {
      grad_hoist(sg, c, HOIST_mark);
      continue;
    }
    Val sum = new_seed(sg, value_at(sg->g, c)->type);
    carry(sg, sum, ir_must(sg->g, OP_add, (Val[]){sum, c}, 2, NULL, sg->x.at, 0), k);
  }
}

/* ---------- what the forward loop keeps ---------- */

/* Of the forward part; results of a loop in the body that its gradient has asked for are, too. */
bool grad_is_forward(const ScanGrad *sg, Val v) {
  const Value *x = value_at(sg->g, v);
  return v < sg->n || (x->op == OP_part && x->in[0] < sg->n);
}

/* Where nothing has to be kept: arguments that are walked or read by all turns, numbers, draws. */
static bool is_free(const ScanGrad *sg, Val v) {
  const Value *x = value_at(sg->g, v);
  if (x->op == OP_arg) return !grad_is_carried(sg, v);
  return op_has(x->op, OPF_source);
}

static bool is_cheap(const ScanGrad *sg, Val v) {
  const Value *x = value_at(sg->g, v);
  bool cheap = op_has(x->op, OPF_cheap) || op_has(x->op, OPF_view);
  return x->op != OP_arg && cheap && (op_has(x->op, OPF_elementwise) || op_has(x->op, OPF_view));
}

static int64_t bytes_of(const ScanGrad *sg, Val v) {
  enum { SAMPLE_BATCH = 61 }; /* sizes are compared at some batch */
  Type t = value_at(sg->g, v)->type;
  return type_elements_at(t, SAMPLE_BATCH) * dtype_bytes(t.dtype);
}

/* Bytes that would have to be kept, beside what is kept already, to compute v again. */
static int64_t bytes_missing(const ScanGrad *sg, Val v, bool *seen) {
  if (seen[v] || sg->saved[v] || is_free(sg, v)) return 0;
  seen[v] = true;
  if (!is_cheap(sg, v)) return bytes_of(sg, v);
  int64_t sum = 0;
  for (int i = 0; i < value_at(sg->g, v)->inputs; i++)
    sum += bytes_missing(sg, value_at(sg->g, v)->in[i], seen);
  return sum;
}

static void keep_leaves(ScanGrad *sg, Val v) {
  if (sg->saved[v] || is_free(sg, v)) return;
  if (!is_cheap(sg, v)) {
    sg->saved[v] = true;
    return;
  }
  for (int i = 0; i < value_at(sg->g, v)->inputs; i++) keep_leaves(sg, value_at(sg->g, v)->in[i]);
}

static void choose_saved(ScanGrad *sg, const bool *read) {
  uint32_t all = sg->g->values.len;
  for (Val v = 1; v < all; v++)
    if (read[v] && !is_free(sg, v) && !is_cheap(sg, v)) sg->saved[v] = true;
  for (Val v = 1; v < all; v++) {
    if (!read[v] || is_free(sg, v) || sg->saved[v]) continue;
    bool *seen = ARENA_ARRAY(sg->g->arena, bool, all);
    if (bytes_missing(sg, v, seen) > bytes_of(sg, v))
      sg->saved[v] = true;
    else
      keep_leaves(sg, v);
  }
}

/* What the backward loop computes, and what it reads of the forward one. */
static void mark_live(ScanGrad *sg) {
  uint32_t all = sg->g->values.len;
  sg->live = ARENA_ARRAY(sg->g->arena, bool, all);
  bool *read = ARENA_ARRAY(sg->g->arena, bool, all);
  for (int i = 0; i < sg->n_carried; i++) sg->live[sg->carried[i].next] = true;
  for (int k = 0; k < sg->s.over; k++)
    if (grad_of_arg(sg, k) != NO_VAL) sg->live[grad_of_arg(sg, k)] = true;
  for (Val v = 1; v < all; v++)
    sg->live[v] = sg->live[v] || (!grad_is_forward(sg, v) && sg->stacked[v]);
  for (Val v = all; v-- > 1;) {
    if (!sg->live[v]) continue;
    if (grad_is_forward(sg, v)) {
      read[v] = true;
      continue;
    }
    for (int i = 0; i < value_at(sg->g, v)->inputs; i++) sg->live[value_at(sg->g, v)->in[i]] = true;
  }
  choose_saved(sg, read);
  for (Val v = sg->n; v-- > 1;) { /* computed again */
    bool stops = sg->saved[v] || value_at(sg->g, v)->op == OP_arg;
    for (int i = 0; sg->live[v] && !stops && i < value_at(sg->g, v)->inputs; i++)
      sg->live[value_at(sg->g, v)->in[i]] = true;
  }
}

/* The forward loop yields what is saved. */
static void extend_forward(ScanGrad *sg) {
  const Graph *from = sg->s.body;
  Graph *body = graph_like(from);
  uint32_t all = sg->g->values.len;
  Attr attrs[IR_MAX_ATTRS];
  for (Val v = 1; v < sg->n; v++) vec_push(body->arena, &body->values, *value_at(sg->g, v));
  for (uint32_t i = 0; i < from->outputs.len; i++)
    vec_push(body->arena, &body->outputs, from->outputs.at[i]);
  int yields = sg->s.yields;
  for (Val v = 1; v < all; v++) {
    if (!sg->saved[v]) continue;
    Val kept = v; /* in the body */
    if (v >= sg->n) {
      vec_push(body->arena, &body->values, *value_at(sg->g, v));
      kept = body->values.len - 1;
    }
    sg->result[v] = -1;
    for (int m = 0; m < sg->s.yields && sg->result[v] < 0; m++)
      if (scan_output(&sg->s, sg->s.carried + m) == v) sg->result[v] = sg->s.carried + m;
    if (sg->result[v] >= 0) continue;
    sg->result[v] = sg->s.carried + yields;
    graph_output(body, OUT_yield, yields++, kept);
  }
  scan_attrs(sg->s.over, sg->s.carried, sg->s.length, sg->s.reverse, body, attrs);
  value_at(sg->b->g, sg->v)->attr =
      arena_copy(body->arena, attrs, sizeof *attrs * (size_t)op_def(OP_scan)->attrs);
}

/* ---------- the backward loop ---------- */

typedef struct Inputs {
  Val input[3 * IR_MAX_INPUTS], of[3 * IR_MAX_INPUTS]; /* outside; the value of g it stands for */
  int n;
} Inputs;

static void add_input(Inputs *in, Val outside, Val of) {
  if (in->n < 3 * IR_MAX_INPUTS) {
    in->input[in->n] = outside;
    in->of[in->n] = of;
  }
  in->n++;
}

static void list_inputs(ScanGrad *sg, Inputs *in) {
  Grad *b = sg->b;
  const Scan *s = &sg->s;
  for (int k = s->carried; k < scan_results(s); k++)
    if (sg->seed[k] != NO_VAL && sg->live[sg->seed[k]])
      add_input(in, sg->of_result[k], sg->seed[k]);
  for (int k = 0; k < s->over; k++)
    if (sg->arg[k] != NO_VAL && sg->live[sg->arg[k]]) add_input(in, sg->x.in[k], sg->arg[k]);
  for (Val v = 1; v < sg->g->values.len; v++)
    if (sg->saved[v] && sg->live[v]) add_input(in, scan_result(b->g, sg->v, sg->result[v]), v);
  sg->back_over = in->n;
  for (int i = 0; i < sg->n_carried; i++) {
    const BackCarried *c = &sg->carried[i];
    int j = c->input - s->over;
    bool sum = j >= s->carried; /* over the turns */
    Val first = sum || sg->of_result[j] == NO_VAL
                    ? zeros(b->g, value_at(sg->g, c->seed)->type, &sg->x)
                    : sg->of_result[j];
    add_input(in, first, c->seed);
  }
  for (int k = s->over + s->carried; k < s->inputs; k++)
    if (sg->arg[k] != NO_VAL && sg->live[sg->arg[k]]) add_input(in, sg->x.in[k], sg->arg[k]);
}

static void yield(ScanGrad *sg, Graph *to, const Val *map, Val v) {
  if (sg->yielded[v] >= 0) return;
  sg->yielded[v] = sg->n_yields;
  graph_output(to, OUT_yield, sg->n_yields++, map[v]);
}

static Graph *backward_body(ScanGrad *sg, const Inputs *in) {
  uint32_t all = sg->g->values.len;
  Graph *to = graph_like(sg->g);
  Val *map = ARENA_ARRAY(to->arena, Val, all);
  for (int k = 0; k < in->n; k++) {
    const Value x = *value_at(sg->g, in->of[k]);
    map[in->of[k]] = scan_arg(to, k, x.type, x.at, x.scope);
  }
  for (Val v = 1; v < all; v++)
    if (sg->live[v] && map[v] == NO_VAL) map[v] = ir_copy(to, sg->g, v, map);
  for (int i = 0; i < sg->n_carried; i++)
    graph_output(to, OUT_carried, i, map[sg->carried[i].next]);
  for (Val v = 0; v < all; v++) sg->yielded[v] = -1;
  for (int k = 0; k < sg->s.over; k++)
    if (grad_of_arg(sg, k) != NO_VAL) yield(sg, to, map, grad_of_arg(sg, k));
  for (Val v = sg->n; v < all; v++)
    if (sg->stacked[v] && !grad_is_seed(sg, v) && !grad_is_forward(sg, v)) yield(sg, to, map, v);
  return to;
}

Val grad_stack(ScanGrad *sg, Val v) {
  const Value *x = value_at(sg->g, v);
  const Scan *s = &sg->s;
  if (v < sg->n && x->op == OP_arg && x->attr[0].as.i < s->over) return sg->x.in[x->attr[0].as.i];
  if (grad_is_forward(sg, v)) return scan_result(sg->b->g, sg->v, sg->result[v]);
  for (int k = s->carried; k < scan_results(s); k++)
    if (sg->seed[k] == v) return sg->of_result[k];
  return scan_result(sg->b->g, sg->back, sg->n_carried + sg->yielded[v]);
}

/* A yielded result whose gradient is given: its stack is there already. */
bool grad_is_seed(const ScanGrad *sg, Val v) {
  for (int k = sg->s.carried; k < scan_results(&sg->s); k++)
    if (sg->seed[k] == v) return true;
  return false;
}

bool grad_is_carried(const ScanGrad *sg, Val v) {
  const Value *x = value_at(sg->g, v);
  int64_t k = v < sg->n && x->op == OP_arg ? x->attr[0].as.i : -1;
  return k >= sg->s.over && k < sg->s.over + sg->s.carried;
}

/* ---------- the whole ---------- */

static void give(ScanGrad *sg, int k, Val c) {
  Grad *b = sg->b;
  Val in = sg->x.in[k];
  if (!b->needed[in]) return;
  grad_contribute(b, &b->sum[in], grad_fit(b, c, value_at(b->g, in)->type, &sg->x));
}

static void contribute_all(ScanGrad *sg) {
  const Scan *s = &sg->s;
  for (int k = s->inputs - 1; k >= s->over + s->carried; k--)
    if (sg->hoisted[k]) give(sg, k, grad_hoist(sg, grad_of_arg(sg, k), HOIST_build));
  for (int i = sg->n_carried - 1; i >= 0; i--)
    give(sg, sg->carried[i].input, scan_result(sg->b->g, sg->back, i));
  for (int k = s->over - 1; k >= 0; k--) {
    Val c = grad_of_arg(sg, k);
    if (c == NO_VAL) continue;
    give(sg, k, scan_result(sg->b->g, sg->back, sg->n_carried + sg->yielded[c]));
  }
}

static bool any_result_grad(const ScanGrad *sg) {
  for (int k = 0; k < scan_results(&sg->s); k++)
    if (sg->of_result[k] != NO_VAL) return true;
  return false;
}

void grad_through_scan(Grad *b, Val v) {
  Arena *a = b->g->arena;
  ScanGrad *sg = ARENA_NEW(a, ScanGrad);
  sg->b = b;
  sg->v = v;
  sg->x = *value_at(b->g, v);
  sg->s = scan_of(&sg->x);
  sg->of_result = ARENA_ARRAY(a, Val, scan_results(&sg->s));
  sg->seed = ARENA_ARRAY(a, Val, scan_results(&sg->s));
  sg->carried = ARENA_ARRAY(a, BackCarried, sg->s.inputs + 1);
  collect_result_grads(sg);
  if (!any_result_grad(sg)) return;
  there_and_back(sg);
  for (int k = 0; k < sg->s.over; k++) { /* in the shape of the argument */
    Val c = grad_of_arg(sg, k);
    if (c != NO_VAL && c < sg->n) /* a value of the forward part */
      sg->inner.sum[sg->arg[k]] = ir_must(sg->g, OP_detach, &c, 1, NULL, sg->x.at, 0);
  }
  sg->stacked = ARENA_ARRAY(a, bool, 2 * sg->g->values.len + 64);
  find_roots(sg);
  uint32_t all = sg->g->values.len;
  sg->saved = ARENA_ARRAY(a, bool, all);
  sg->result = ARENA_ARRAY(a, int, all);
  sg->yielded = ARENA_ARRAY(a, int, all);
  for (Val u = 1; u < all; u++)
    sg->saved[u] = sg->stacked[u] && grad_is_forward(sg, u) &&
                   !(value_at(sg->g, u)->op == OP_arg && !grad_is_carried(sg, u));
  mark_live(sg);
  extend_forward(sg);
  Inputs in = {.n = 0};
  list_inputs(sg, &in);
  if (in.n > IR_MAX_INPUTS) {
    diag_report(DIAG_E0716, sg->x.at,
                "the gradient of a loop that reads %d tensors is not supported yet, up to %d are",
                in.n, IR_MAX_INPUTS);
    return;
  }
  if (!in.n) return;
  Graph *body = backward_body(sg, &in);
  Attr attrs[IR_MAX_ATTRS];
  scan_attrs(sg->back_over, sg->n_carried, sg->s.length, !sg->s.reverse, body, attrs);
  if (body->outputs.len)
    sg->back = ir_must(b->g, OP_scan, in.input, in.n, attrs, sg->x.at, sg->x.scope);
  contribute_all(sg);
}
