/* Cuts the evaluation at its batch sums. In: Job.eval with the loss as value 0 and metric i as value
   1 + i. Out: OUT_sum accumulators in Job.eval, which the runtime adds up over the split, and
   Job.finish, where metric i (0 is the loss) is a function of host "sum.K" in double. So exp(loss) is
   the perplexity of the split. What is no function of sums over samples is E0903 or
   E0904; in a job without an evaluation split such a job simply has no evaluation. */
#include "metrics.h"
#include "batch.h"
#include "diag.h"
#include "die.h"
#include "passes.h"

typedef struct Cut {
  Job *job;
  Graph *g, *finish;
  Batch batch;
  VEC(Val) sums;  /* accumulators, as values of g */
  VEC(Val) hosts; /* the same in finish */
  VEC(Val) memo;  /* by value of g */
  const char *what;
  Span at;
  bool failed; /* something is no function of sums over samples */
} Cut;

static Val number(Cut *c, Val v);

static Val accumulator(Cut *c, Val v) {
  for (uint32_t i = 0; i < c->sums.len; i++) {
    if (c->sums.at[i] == v) return c->hosts.at[i];
  }
  Attr attrs[2] = {{.as.text = NULL}, {.as.i = DT_f64}};
  attrs[0].as.text = text_intern(arena_printf(c->job->arena, "sum.%u", c->sums.len));
  Val host = ir_must(c->finish, OP_host, NULL, 0, attrs, value_at(c->g, v)->at, 0);
  vec_push(c->job->arena, &c->sums, v);
  vec_push(c->job->arena, &c->hosts, host);
  return host;
}

/* Without a split there is nothing to evaluate, and in-batch losses are fine. */
static bool fail_silently(Cut *c) {
  c->failed = true;
  return !c->job->eval_split;
}

static Val fail_mixed(Cut *c, Val v) {
  if (fail_silently(c)) return NO_VAL;
  diag_report(DIAG_E0903, c->at,
              "%s averages over a batch inside another average, and cannot be written as sums over "
              "the split",
              c->what);
  diag_note(value_at(c->g, v)->at, "the samples are added up here");
  return NO_VAL;
}

static Val fail_other(Cut *c, Val v) {
  if (fail_silently(c)) return NO_VAL;
  diag_report(DIAG_E0904, c->at, "%s cannot be accumulated over the split", c->what);
  diag_note(value_at(c->g, v)->at, "`%s` is no sum over samples",
            op_def(value_at(c->g, v)->op)->name);
  return NO_VAL;
}

/* sum(t / d) with one number d is sum(t) / d. NO_VAL when v has not that form. */
static Val pull_factor(Cut *c, Val v, bool *failed) {
  const Value x = *value_at(c->g, v);
  if (x.op != OP_sum) return NO_VAL;
  const Value in = *value_at(c->g, x.in[0]);
  if (in.op != OP_mul && in.op != OP_div) return NO_VAL;
  for (int k = 1; k >= (in.op == OP_div ? 1 : 0); k--) {
    Val factor = batch_scalar(c->g, in.in[k]), rest = in.in[1 - k];
    Type t = value_at(c->g, rest)->type;
    t.dtype = in.type.dtype;
    if (factor == NO_VAL || !(batch_flags(&c->batch, factor) & BATCH_data)) continue;
    if (!type_equal(t, in.type)) continue;
    Val sum = ir_must(c->g, OP_sum, &rest, 1, x.attr, x.at, x.scope);
    Val a = number(c, sum), b = number(c, factor);
    *failed = a == NO_VAL || b == NO_VAL;
    if (*failed) return NO_VAL;
    return ir_must(c->finish, in.op, (Val[]){a, b}, 2, NULL, x.at, 0);
  }
  return NO_VAL;
}

static Val number_of_sum(Cut *c, Val v) {
  bool failed = false;
  Val pulled = pull_factor(c, v, &failed);
  if (pulled != NO_VAL || failed) return pulled;
  if (batch_flags(&c->batch, v) & BATCH_mixed) return fail_mixed(c, v);
  return accumulator(c, v);
}

/* Linear in batch sums: can be accumulated as it stands. */
static bool is_linear(Cut *c, Val v) {
  const Value *x = value_at(c->g, v);
  if (batch_has_dim(x->type)) return false;
  if (batch_is_sum(&c->batch, v)) return !(batch_flags(&c->batch, v) & BATCH_mixed);
  if (op_is_linear(c->g, x)) {
    for (int i = 0; i < x->inputs; i++) {
      if (!is_linear(c, x->in[i])) return false;
    }
    return true;
  }
  return (x->op == OP_mul || x->op == OP_div) && is_linear(c, x->in[0]) &&
         batch_constant(&c->batch, x->in[1]);
}

/* The same for every batch, but not a plain number: averaged by the number of samples. */
static Val weighted(Cut *c, Val v) {
  const Value x = *value_at(c->g, v);
  Attr attr = {.as.dims = {.len = 1, .at = {{1, 0}}}};
  Val b = ir_must(c->g, OP_dimval, NULL, 0, &attr, x.at, x.scope);
  Val product = ir_must(c->g, OP_mul, (Val[]){v, b}, 2, NULL, x.at, x.scope);
  Val sum = accumulator(c, product), samples = accumulator(c, b);
  return ir_must(c->finish, OP_div, (Val[]){sum, samples}, 2, NULL, x.at, 0);
}

static Val number_of_op(Cut *c, Val v) {
  const Value x = *value_at(c->g, v);
  Val in[IR_MAX_INPUTS];
  for (int i = 0; i < x.inputs; i++) {
    in[i] = number(c, x.in[i]);
    if (in[i] == NO_VAL) return NO_VAL;
  }
  if (x.op == OP_detach) return in[0];
  if (x.op == OP_cast && dtype_category(x.type.dtype) != 'b') return in[0];
  return ir_must(c->finish, x.op, in, x.inputs, x.attr, x.at, 0);
}

static Val number_new(Cut *c, Val v) {
  double k = 0;
  const Value *x = value_at(c->g, v);
  if (ir_is_const(c->g, v, &k)) return ir_const(c->finish, k, DT_f64, x->at, 0);
  if (x->op == OP_host) {
    Attr attrs[2] = {x->attr[0], {.as.i = DT_f64}};
    return ir_must(c->finish, OP_host, NULL, 0, attrs, x->at, 0);
  }
  if (batch_is_sum(&c->batch, v)) return number_of_sum(c, v);
  uint8_t flags = batch_flags(&c->batch, v);
  bool data = flags & BATCH_data;
  if (op_has(x->op, OPF_elementwise) && (data || !flags)) return number_of_op(c, v);
  if (!data) return weighted(c, v);
  if (is_linear(c, v)) return accumulator(c, v);
  if (x->op == OP_sum) {
    bool failed = false;
    Val pulled = pull_factor(c, v, &failed);
    if (pulled != NO_VAL || failed) return pulled;
  }
  return flags & BATCH_mixed ? fail_mixed(c, v) : fail_other(c, v);
}

/* The number that v is, over the whole split, as a value of finish. */
static Val number(Cut *c, Val v) {
  Val scalar = batch_scalar(c->g, v);
  if (scalar == NO_VAL) return fail_other(c, v);
  while (c->memo.len <= scalar) vec_push(c->job->arena, &c->memo, NO_VAL);
  if (c->memo.at[scalar] != NO_VAL) return c->memo.at[scalar];
  Val made = number_new(c, scalar);
  while (c->memo.len <= scalar) vec_push(c->job->arena, &c->memo, NO_VAL);
  c->memo.at[scalar] = made;
  return made;
}

static Val as_f64(Graph *g, Val v) {
  const Value x = *value_at(g, v);
  Attr attr = {.as.i = DT_f64};
  return x.type.dtype == DT_f64 ? v : ir_must(g, OP_cast, &v, 1, &attr, x.at, 0);
}

void metrics_cut(Job *job) {
  Graph *g = job->eval = pass_cse(pass_fold(job->eval, job));
  indices_check(job, g);
  Cut c = {.job = job, .g = g, .batch = batch_begin(job->arena, g)};
  c.finish = job->finish = graph_new(job->arena, "finish", false);
  uint32_t n = g->outputs.len;
  Output *outputs = arena_copy(job->arena, g->outputs.at, sizeof(Output) * n);
  g->outputs.len = 0;
  for (uint32_t i = 0; i < n; i++) {
    const Output *o = &outputs[i];
    if (o->kind != OUT_value) continue;
    bool loss = o->index == 0;
    const Metric *m = loss ? NULL : &job->metrics.at[o->index - 1];
    c.what = loss ? "`loss`" : arena_printf(job->arena, "metric `%s`", m->name);
    c.at = loss ? value_at(g, o->value)->at : m->at;
    Val v = number(&c, o->value);
    if (v == NO_VAL) continue;
    graph_output(c.finish, OUT_metric, o->index, as_f64(c.finish, v));
  }
  if (c.failed && !job->eval_split) {
    job->eval = job->finish = NULL;
    job->eval_sums = 0;
    return;
  }
  for (uint32_t k = 0; k < c.sums.len; k++) graph_output(g, OUT_sum, (int32_t)k, c.sums.at[k]);
  job->eval_sums = (int32_t)c.sums.len;
  ir_verify(g, "means");
  ir_verify(c.finish, "means");
}
