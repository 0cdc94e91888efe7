/* Means of the training loss over the whole update (language.md, "Batch means").
   In: Job.train with the loss as value 0. Out: OUT_loss, this micro-batch's part of the update's loss:
   the parts of all micro-batches and ranks add up to it, and so do their gradients. Quotients of batch
   sums that enter linearly get denominators `count k`, which the runtime sums over the update before
   the first backward (Job.counts); every other term counts by its share of the samples. */
#include "batch.h"
#include "diag.h"
#include "metrics.h"
#include "passes.h"
#include <math.h>

typedef struct Means {
  Job *job;
  Graph *g;
  Batch batch;
  Val *counts_map; /* train value -> value of Job.counts */
  uint32_t mapped;
  VEC(Val) counted;   /* denominators of the training graph; k = place */
  VEC(Val) count_val; /* OP_count of each */
} Means;

static Val add(Means *m, OpKind op, Val like, int n, const Val *in) {
  const Value *x = value_at(m->g, like);
  return ir_must(m->g, op, in, n, value_at(m->g, like)->op == op ? x->attr : NULL, x->at, x->scope);
}

/* ---------- denominators ---------- */

/* Copies v, which depends on data alone, into Job.counts. */
static Val to_counts(Means *m, Val v) {
  if (v < m->mapped && m->counts_map[v] != NO_VAL) return m->counts_map[v];
  const Value x = *value_at(m->g, v);
  for (int i = 0; i < x.inputs; i++) to_counts(m, x.in[i]);
  return m->counts_map[v] = ir_copy(m->job->counts, m->g, v, m->counts_map);
}

static Val count_of(Means *m, Val v) {
  for (uint32_t k = 0; k < m->counted.len; k++) {
    if (m->counted.at[k] == v) return m->count_val.at[k];
  }
  const Value x = *value_at(m->g, v);
  int32_t k = (int32_t)m->counted.len;
  Attr attr = {.as.i = k};
  Val count = ir_must(m->g, OP_count, NULL, 0, &attr, x.at, x.scope);
  graph_output(m->job->counts, OUT_sum, k, to_counts(m, v));
  vec_push(m->job->arena, &m->counted, v);
  vec_push(m->job->arena, &m->count_val, count);
  return count;
}

/* Can v be written over counts? It may hold batch sums of data, and rank-0 functions of them. */
static bool countable(Means *m, Val v) {
  v = batch_scalar(m->g, v);
  if (v == NO_VAL || (batch_flags(&m->batch, v) & (BATCH_param | BATCH_state))) return false;
  if (batch_constant(&m->batch, v)) return true;
  if (batch_is_sum(&m->batch, v)) return !(batch_flags(&m->batch, v) & BATCH_mixed);
  const Value *x = value_at(m->g, v);
  if (!op_has(x->op, OPF_elementwise)) return false;
  for (int i = 0; i < x->inputs; i++) {
    if (!countable(m, x->in[i])) return false;
  }
  return true;
}

static Val over_counts(Means *m, Val v) {
  v = batch_scalar(m->g, v);
  if (batch_constant(&m->batch, v)) return v;
  if (batch_is_sum(&m->batch, v)) return count_of(m, v);
  const Value x = *value_at(m->g, v);
  Val in[IR_MAX_INPUTS];
  for (int i = 0; i < x.inputs; i++) in[i] = over_counts(m, x.in[i]);
  /* A cast to an integer would cut nothing: counts are whole numbers already. */
  if (x.op == OP_cast) return in[0];
  return ir_must(m->g, x.op, in, x.inputs, x.attr, x.at, x.scope);
}

/* ---------- terms ---------- */

/* Linear in batch sums, with factors that are the same in every micro-batch. */
static bool is_additive(Means *m, Val v) {
  if (batch_has_dim(value_at(m->g, v)->type)) return false;
  if (batch_is_sum(&m->batch, v)) return true;
  const Value *x = value_at(m->g, v);
  if (op_is_linear(m->g, x)) {
    for (int i = 0; i < x->inputs; i++) {
      if (!is_additive(m, x->in[i])) return false;
    }
    return true;
  }
  bool product = x->op == OP_mul, quotient = x->op == OP_div;
  if (product && batch_constant(&m->batch, x->in[0])) return is_additive(m, x->in[1]);
  return (product || quotient) && is_additive(m, x->in[0]) && batch_constant(&m->batch, x->in[1]);
}

static Val shared(Means *m, Val v) {
  const Value x = *value_at(m->g, v);
  Val share = ir_must(m->g, OP_share, NULL, 0, NULL, x.at, x.scope);
  return ir_must(m->g, OP_mul, (Val[]){share, v}, 2, NULL, x.at, x.scope);
}

static Val part(Means *m, Val v);

static Val part_of_each(Means *m, Val v) {
  const Value x = *value_at(m->g, v);
  Val in[IR_MAX_INPUTS];
  for (int i = 0; i < x.inputs; i++) in[i] = part(m, x.in[i]);
  return ir_must(m->g, x.op, in, x.inputs, x.attr, x.at, x.scope);
}

/* A factor that is the same in every micro-batch stays outside. */
static Val part_of_product(Means *m, Val v) {
  const Value x = *value_at(m->g, v);
  int constant = batch_constant(&m->batch, x.in[1])                     ? 1
                 : x.op == OP_mul && batch_constant(&m->batch, x.in[0]) ? 0
                                                                        : -1;
  if (constant >= 0) {
    Val in[2] = {x.in[0], x.in[1]};
    in[1 - constant] = part(m, x.in[1 - constant]);
    return add(m, x.op, v, 2, in);
  }
  if (x.op == OP_div && is_additive(m, x.in[0]) && countable(m, x.in[1])) {
    return add(m, x.op, v, 2, (Val[]){x.in[0], over_counts(m, x.in[1])});
  }
  return shared(m, v);
}

/* This micro-batch's part of v: the parts add up to v of the whole update. */
static Val part(Means *m, Val v) {
  const Value x = *value_at(m->g, v);
  if (batch_has_dim(x.type) || batch_constant(&m->batch, v)) return shared(m, v);
  if (x.op == OP_mul || x.op == OP_div) return part_of_product(m, v);
  bool cut = x.op == OP_sum && batch_has_dim(value_at(m->g, x.in[0])->type);
  if (cut || !op_is_linear(m->g, &x) || dtype_category(x.type.dtype) != 'f') return shared(m, v);
  return part_of_each(m, v);
}

/* ---------- counts ---------- */

/* The c of a count that is c * B whatever the data, else NAN: its values at three batches tell. */
static double per_sample(const Graph *counts, Val v) {
  Graph *g = graph_like(counts);
  Val *map = ARENA_ARRAY(g->arena, Val, v + 1);
  bool *read = ARENA_ARRAY(g->arena, bool, v + 1);
  double at[4];
  read[v] = true;
  for (Val i = v; i > 0; i--) {
    const Value *x = value_at(counts, i);
    for (int k = 0; read[i] && k < x->inputs; k++) read[x->in[k]] = true;
    if (read[i] && !op_def(x->op)->interpret) return NAN; /* data */
  }
  for (Val i = 1; i <= v; i++) {
    if (read[i]) map[i] = ir_copy(g, counts, i, map);
  }
  for (int64_t b = 1; b <= 3; b++)
    at[b] = interp_run(g->arena, g, &(Interp){.batch = b})[map[v]][0];
  return at[2] == 2 * at[1] && at[3] == 3 * at[1] ? at[1] : NAN;
}

static void finish_counts(Job *job, int32_t n) {
  job->counts = pass_dce(pass_cse(pass_fold(job->counts, job)));
  job->train_counts = n;
  job->count_per_sample.len = 0;
  for (int32_t k = 0; k < n; k++) {
    double c = NAN;
    for (uint32_t i = 0; i < job->counts->outputs.len; i++) {
      const Output *o = &job->counts->outputs.at[i];
      if (o->kind == OUT_sum && o->index == k) c = per_sample(job->counts, o->value);
    }
    vec_push(job->arena, &job->count_per_sample, c);
  }
  ir_verify(job->counts, "means");
}

static void train_means(Job *job) {
  Graph *g = job->train = pass_cse(pass_fold(job->train, job));
  indices_check(job, g);
  Means m = {.job = job, .g = g, .batch = batch_begin(job->arena, g)};
  m.mapped = g->values.len;
  m.counts_map = ARENA_ARRAY(job->arena, Val, m.mapped);
  job->counts = graph_new(job->arena, "counts", true);
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    Output *o = &g->outputs.at[i];
    if (o->kind != OUT_value || o->index != 0) continue;
    Val loss = part(&m, o->value);
    *(&g->outputs.at[i]) = (Output){.kind = OUT_loss, .index = 0, .value = loss};
  }
  finish_counts(job, (int32_t)m.counted.len);
  ir_verify(g, "means");
}

void pass_means(Job *job) {
  train_means(job);
  metrics_cut(job);
}
