/* Reverse mode on Job.train. In: OUT_loss over params, inputs and the rest. Out: OUT_grad for every
   trained parameter that the loss reaches. Rules are texts of the op table; the values of a rule stand
   in the scope of the op they belong to. Values are visited from the last to the first, and the right
   input of an op before the left one, so that gradients of late layers, and of weights before those of
   activations, come first. A trained parameter without a gradient is E0613, a missing rule E0616. */
#include "diag.h"
#include "die.h"
#include "extern.h"
#include "heap.h"
#include "grad.h"
#include "ops.h"
#include "passes.h"
#include "sema.h"
#include "ungraded.h"

static bool is_text(const char *rule, const char *special) {
  return !strcmp(rule, special);
}

bool grad_passes(const Value *x, int i) {
  if (x->op == OP_scan) return true; /* its body says */
  if (x->op == OP_extern) return sema_external_grad(x, i) != EXTERNAL_GRAD_none;
  const char *rule = op_def(x->op)->grad[i];
  return !is_text(rule, GRAD_NONE) && !is_text(rule, GRAD_ZERO);
}

static int32_t owner(const Job *job, int32_t leaf) {
  while (job->leaves.at[leaf].tied_to >= 0) leaf = job->leaves.at[leaf].tied_to;
  return leaf;
}

/* The dtype of a loop is that of its first result; others may be floats. */
static void mark_one(const Graph *g, Val v, bool *needed) {
  const Value *x = value_at(g, v);
  for (int i = 0; i < x->inputs; i++) needed[v] |= needed[x->in[i]] && grad_passes(x, i);
  if (dtype_category(x->type.dtype) != 'f' && x->op != OP_scan) needed[v] = false;
}

void grad_mark(const Graph *g, Val first, uint32_t n, bool *needed) {
  for (Val v = first; v < n; v++) mark_one(g, v, needed);
}

static void find_needed(Grad *b) {
  for (Val v = 1; v < b->n; v++) {
    const Value *x = value_at(b->g, v);
    if (x->op == OP_param) {
      int32_t leaf = owner(b->job, (int32_t)x->attr[0].as.i);
      b->needed[v] = b->job->leaves.at[leaf].trained;
    }
    mark_one(b->g, v, b->needed);
  }
}

/* ---------- shapes ---------- */

static Val emit(Grad *b, OpKind op, Val in, const Attr *attrs, const Value *like) {
  return ir_must(b->g, op, &in, 1, attrs, like->at, like->scope);
}

/* A rule gives a shape that broadcasts from or to the input's: sum or expand it to that. */
Val grad_fit(Grad *b, Val c, Type want, const Value *like) {
  Type have = value_at(b->g, c)->type;
  if (have.rank > want.rank) {
    Attr attrs[2] = {{.as.ints.len = have.rank - want.rank}, {.as.i = 0}};
    for (int i = 0; i < have.rank - want.rank; i++) attrs[0].as.ints.at[i] = i;
    c = emit(b, OP_sum, c, attrs, like);
    have = value_at(b->g, c)->type;
  }
  Attr axes[2] = {{.as.ints.len = 0}, {.as.i = 1}};
  int offset = want.rank - have.rank;
  for (int i = 0; i < have.rank; i++) {
    bool wide = !dim_equal(have.dim[i], want.dim[i + offset]) && dim_is(want.dim[i + offset], 1);
    if (wide) axes[0].as.ints.at[axes[0].as.ints.len++] = i;
  }
  if (axes[0].as.ints.len) {
    c = emit(b, OP_sum, c, axes, like);
    have = value_at(b->g, c)->type;
  }
  bool same = have.rank == want.rank;
  for (int i = 0; same && i < want.rank; i++) same = dim_equal(have.dim[i], want.dim[i]);
  if (!same) {
    Attr attrs[2] = {{.as.dims.len = want.rank}, {.as.ints.len = -1}};
    for (int i = 0; i < want.rank; i++) attrs[0].as.dims.at[i] = want.dim[i];
    c = emit(b, OP_expand, c, attrs, like);
  }
  if (value_at(b->g, c)->type.dtype == want.dtype) return c;
  Attr dtype = {.as.i = (int64_t)want.dtype};
  return emit(b, OP_cast, c, &dtype, like);
}

/* ---------- one value ---------- */

void grad_contribute(Grad *b, Val *to, Val c) {
  if (*to == NO_VAL) {
    *to = c;
    return;
  }
  const Value x = *value_at(b->g, c);
  *to = ir_must(b->g, OP_add, (Val[]){*to, c}, 2, NULL, x.at, x.scope);
}

static void missing(Grad *b, const Value *x, int i) {
  (void)b;
  diag_report(DIAG_E0616, x->at, "`%s` has no gradient rule for its input %d", op_def(x->op)->name,
              i + 1);
  diag_help("`detach` the input if no gradient is meant to flow there");
}

/* ---------- operators of C headers ---------- */
/* The gradient that the header names. */
static void through_named(Grad *b, Val v, int i, Val g) {
  const Value x = *value_at(b->g, v);
  const Graph *made = sema_external_gradient(&x, i);
  if (!made) return;
  Val in[IR_MAX_INPUTS + 2];
  memcpy(in, x.in, sizeof x.in);
  in[x.inputs] = v;
  in[x.inputs + 1] = g;
  Val c = external_inline(b->g, made, in, x.at, x.scope);
  grad_contribute(b, &b->sum[x.in[i]], grad_fit(b, c, value_at(b->g, x.in[i])->type, &x));
}

/* The body of an operator is computed again, and then backwards. Copies of the inputs keep apart what
   comes from the body and what the header names. */
static void through_body(Grad *b, Val v, const bool *wanted, Val g) {
  const Value x = *value_at(b->g, v);
  Val in[IR_MAX_INPUTS], first = b->g->values.len;
  for (int i = 0; i < x.inputs; i++) in[i] = emit(b, OP_detach, x.in[i], NULL, &x);
  Val root = external_inline(b->g, external_of(&x)->meaning, in, x.at, x.scope);
  Grad inner = *b;
  inner.n = b->g->values.len;
  inner.needed = ARENA_ARRAY(b->job->arena, bool, inner.n);
  inner.sum = ARENA_ARRAY(b->job->arena, Val, inner.n);
  for (int i = 0; i < x.inputs; i++) inner.needed[in[i]] = wanted[i];
  grad_mark(b->g, first + (Val)x.inputs, inner.n, inner.needed);
  inner.sum[root] = g;
  for (Val k = inner.n - 1; k >= first + x.inputs; k--) grad_visit(&inner, k);
  for (int i = x.inputs - 1; i >= 0; i--) {
    if (!wanted[i] || inner.sum[in[i]] == NO_VAL) continue;
    Val c = grad_fit(b, inner.sum[in[i]], value_at(b->g, x.in[i])->type, &x);
    grad_contribute(b, &b->sum[x.in[i]], c);
  }
}

static void visit_external(Grad *b, Val v, Val g) {
  const Value x = *value_at(b->g, v);
  bool body[IR_MAX_INPUTS] = {false}, any = false;
  for (int i = x.inputs - 1; i >= 0; i--) {
    if (!b->needed[x.in[i]]) continue;
    ExternalGrad from = sema_external_grad(&x, i);
    if (from == EXTERNAL_GRAD_named) through_named(b, v, i, g);
    if (from == EXTERNAL_GRAD_missing) sema_external_missing(&x, i);
    body[i] = from == EXTERNAL_GRAD_body;
    any = any || body[i];
  }
  if (any) through_body(b, v, body, g);
}

void grad_visit(Grad *b, Val v) {
  Val g = b->sum[v];
  const Value x = *value_at(b->g, v);
  if (!b->needed[v]) return;
  if (x.op == OP_part && value_at(b->g, x.in[0])->op == OP_scan) return; /* it asks for them */
  if (x.op == OP_scan) {
    grad_through_scan(b, v);
    return;
  }
  if (g == NO_VAL) return;
  if (x.op == OP_param) {
    grad_contribute(b, &b->leaf[owner(b->job, (int32_t)x.attr[0].as.i)], g);
    return;
  }
  if (x.op == OP_extern) {
    visit_external(b, v, g);
    return;
  }
  for (int i = x.inputs - 1; i >= 0; i--) {
    if (!b->needed[x.in[i]] || !grad_passes(&x, i)) continue;
    const char *rule = op_def(x.op)->grad[i];
    if (is_text(rule, GRAD_MISSING)) {
      missing(b, &x, i);
      continue;
    }
    Val c = sema_eval_rule(b->g, rule, v, g, x.scope);
    if (c == NO_VAL) diag_flush(stderr, false); /* what the rule said */
    check(c != NO_VAL, "gradient rule of %s, input %d: %s", op_def(x.op)->name, i, rule);
    grad_contribute(b, &b->sum[x.in[i]], grad_fit(b, c, value_at(b->g, x.in[i])->type, &x));
  }
}

/* ---------- the whole ---------- */

static Val find_loss(const Graph *g) {
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    if (g->outputs.at[i].kind == OUT_loss) return g->outputs.at[i].value;
  }
  die("the training graph has no loss");
}

/* The gradient of the loss: 1, or what a run in fp16 scales all gradients with. */
static Val seed(const Job *job, Graph *g, const Value *loss) {
  if (!job_setting_is(job, "fp16", "true"))
    return ir_const(g, 1.0, loss->type.dtype, loss->at, loss->scope);
  Attr attrs[2] = {{.as.text = text_intern("loss_scale")}, {.as.i = (int64_t)DT_f32}};
  return ir_must(g, OP_host, NULL, 0, attrs, loss->at, loss->scope);
}

/* Gradients as outputs, in the order in which they become complete. */
static void add_outputs(Grad *b) {
  const Job *job = b->job;
  uint32_t n = job->leaves.len;
  Heap order = {.arena = job->arena};
  for (uint32_t i = 0; i < n; i++)
    if (b->leaf[i] != NO_VAL) heap_push(&order, (uint64_t)b->leaf[i] << 32 | i);
  while (order.len) {
    int32_t next = (int32_t)(heap_pop(&order) & UINT32_MAX);
    graph_output(b->g, OUT_grad, next, b->leaf[next]);
  }
}

void pass_grad(Job *job) {
  Graph *g = job->train;
  Grad b = {.job = job, .g = g, .n = g->values.len};
  b.needed = ARENA_ARRAY(job->arena, bool, b.n);
  b.sum = ARENA_ARRAY(job->arena, Val, b.n);
  b.leaf = ARENA_ARRAY(job->arena, Val, job->leaves.len + 1);
  find_needed(&b);
  Val loss = find_loss(g);
  const Value top = *value_at(g, loss);
  b.sum[loss] = seed(job, g, &top);
  unsigned before = diag_errors();
  for (Val v = b.n - 1; v > 0; v--) grad_visit(&b, v);
  if (diag_errors() == before) /* else it is told already why a gradient lacks */
    ungraded_settle(job, b.n, b.leaf, grad_passes);
  add_outputs(&b);
  ir_verify(g, "grad");
}
