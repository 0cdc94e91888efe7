/* pass_counts, after folding: denominators of the loss that do not depend on data. In: Job.counts. Out:
   Job.count_per_sample[k] where denominator k is a constant times B; its output is gone from the graph,
   so that nothing has to be counted or sent. Job.single_at: where a batch of one sample would divide by
   zero. */
#include "ops.h"
#include "passes.h"
#include <math.h>

static void mark_data(const Graph *g, bool *data) {
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    bool made_up = x->op == OP_const || x->op == OP_dimval || x->op == OP_arange;
    data[v] = op_has(x->op, OPF_source) && !made_up;
    for (int i = 0; i < x->inputs; i++) data[v] = data[v] || data[x->in[i]];
  }
}

static void no_source(void *self, const Graph *g, Val v, double *out) { /* not looked at */
  int64_t n = type_elements_at(value_at(g, v)->type, *(const int64_t *)self);
  for (int64_t i = 0; i < n; i++) out[i] = NAN;
}

static double value_for(const Graph *g, Val v, int64_t batch) {
  Arena *a = arena_new();
  Interp how = {.batch = batch, .source = no_source, .self = &batch};
  double x = interp_run(a, g, &how)[v][0];
  arena_free(a);
  return x;
}

/* One less than a multiple of the batch, and 0 for a batch of one sample. */
static bool is_zero_alone(const Graph *g, Val v) {
  const Value *x = value_at(g, v);
  for (; x->op == OP_cast || x->op == OP_expand || x->op == OP_reshape;) x = value_at(g, x->in[0]);
  return x->op == OP_dimval && x->attr[0].as.dims.at[0].per_batch > 0 &&
         dim_at(x->attr[0].as.dims.at[0], 1) == 0;
}

/* Where training divides by such a number: the variance of batch norm. */
static void find_single(Job *job) {
  const Graph *g = job->train;
  for (Val v = 1; g && v < g->values.len; v++)
    if (value_at(g, v)->op == OP_div && is_zero_alone(g, value_at(g, v)->in[1])) {
      job->single_at = value_at(g, v)->at;
      return;
    }
}

void pass_counts(Job *job) {
  find_single(job);
  Graph *g = job->counts;
  if (!g) return;
  bool *data = ARENA_ARRAY(job->arena, bool, g->values.len + 1);
  mark_data(g, data);
  while (job->count_per_sample.len < (uint32_t)job->train_counts)
    vec_push(job->arena, &job->count_per_sample, NAN);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    Output o = g->outputs.at[i];
    double each = data[o.value] ? NAN : value_for(g, o.value, 1);
    bool linear = o.kind == OUT_sum && isfinite(each) && value_for(g, o.value, 2) == 2 * each &&
                  value_for(g, o.value, 7) == 7 * each;
    if (linear)
      job->count_per_sample.at[o.index] = each;
    else
      g->outputs.at[kept++] = o;
  }
  g->outputs.len = kept;
}
