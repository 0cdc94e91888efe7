/* Norms and steps of the optimizer on a device with memory of its own. In: gradients, rates. Out: sums of squares
   on the host, new parameters. Optimizers that go element by element step ranges of the arena with several tensors;
   rates, the step's number and clipping are read from the device's memory. Where the device can find out by itself
   whether to step and how much to clip, the steps follow backward on its stream, captured with it: the host learns of
   loss and norm when all is done. A loss or norm that is not finite then holds the steps (DdpRates.hold). */
#include "run.h"
#include <stdlib.h>
#include <string.h>

static DdpError *no_memory(void) {
  return ddp_error(DDP_MEMORY, "out of memory");
}

/* ---------- norms ---------- */

static DdpError *norms_open(DdpRun *r) {
  const DdpJob *job = r->job;
  RunThere *t = &r->there;
  size_t most = (size_t)job->n_ready + 1;
  void *p = NULL;
  t->norm_ranges = calloc(most, sizeof *t->norm_ranges);
  if (!t->norm_ranges) return no_memory();
  for (int32_t i = 0; i < job->n_tensors; i++) {
    const DdpTensor *x = &job->tensors[i];
    /* what all ranks must know at once each of them computes */
    if (t->steps ? r->norm_owner[i] >= 0 : r->norm_owner[i] == r->rank)
      t->norm_ranges[t->n_norms++] = (DdpRange){x->offset, x->offset + x->elements};
  }
  DDP_TRY(r->device->alloc(DDP_MEMORY_grads, most * sizeof *t->norms, &p));
  t->norms = p;
  DDP_TRY(run_pinned(r, most * sizeof *t->norms_here, &p));
  t->norms_here = p;
  return NULL;
}

DdpError *run_there_results(DdpRun *r, bool norms) {
  const DdpDevice *d = r->device;
  RunThere *t = &r->there;
  if (norms) {
    r->job->target->arena.square_sums(r->grads, t->norm_ranges, t->n_norms, t->norms, t->scratch,
                                      t->stream);
    DDP_TRY(d->to_host(t->norms_here, t->norms, (size_t)t->n_norms * sizeof(double), t->stream));
  }
  DDP_TRY(d->to_host(r->sums, r->sums_there, sizeof *r->sums, t->stream));
  if (t->steps) DDP_TRY(d->to_host(t->settled, t->rates, sizeof *t->settled, t->stream));
  DDP_TRY(r->reducer && ddp_group_on_device(r->group) ? ddp_reducer_arrive(r->reducer, &r->exposed)
                                                      : run_synchronise(r, t->stream));
  return d->failure();
}

/* ---------- the optimizer ---------- */

static const DdpTensor *ready(const DdpRun *r, int32_t k) {
  return &r->job->tensors[r->job->ready[k]];
}

/* Does a bucket that is stepped by itself begin with the k-th gradient? */
static bool begins_bucket(const DdpRun *r, int32_t k) {
  const DdpBucketInfo *info;
  int n = r->steps_early ? ddp_reducer_buckets(r->reducer, &info) : 0;
  for (int b = 0; b < n; b++)
    if (info[b].first == k) return true;
  return false;
}

/* Does `next` follow `t` in all arenas, for one step over both? */
static bool follows(const DdpRun *r, const RunRange *range, const DdpTensor *next) {
  const DdpTensor *t = &r->job->tensors[range->tensor];
  const DdpOptimizer *o = &r->job->optimizers[t->optimizer];
  bool same = next->optimizer == t->optimizer && !o->whole && next->offset == range->end;
  for (int32_t i = 0; i < o->states && same; i++)
    same = next->state[i] - next->offset == t->state[i] - t->offset;
  return same;
}

/* Tensors lie in the arena in the order in which their gradients become ready, each on a multiple of 16 elements;
   what is between them is zero, and is stepped too. */
static DdpError *ranges_open(DdpRun *r) {
  RunThere *t = &r->there;
  free(t->ranges);
  t->n_ranges = 0;
  t->ranges = calloc((size_t)r->job->n_ready + 1, sizeof *t->ranges);
  if (!t->ranges) return no_memory();
  for (int32_t k = 0; k < r->job->n_ready; k++) {
    const DdpTensor *x = ready(r, k);
    RunRange *last = t->n_ranges ? &t->ranges[t->n_ranges - 1] : NULL;
    bool whole = r->job->optimizers[x->optimizer].whole;
    int64_t n =
        whole ? x->elements
              : (x->elements + DDP_GROUP_ELEMENTS - 1) / DDP_GROUP_ELEMENTS * DDP_GROUP_ELEMENTS;
    if (last && !begins_bucket(r, k) && follows(r, last, x))
      last->end += n;
    else
      t->ranges[t->n_ranges++] = (RunRange){r->job->ready[k], x->offset, x->offset + n};
  }
  return NULL;
}

static DdpError *groups_open(DdpRun *r) {
  RunThere *t = &r->there;
  size_t n = (size_t)(r->param_count / DDP_GROUP_ELEMENTS) + 1;
  uint16_t *groups = calloc(n, sizeof *groups);
  void *p = NULL;
  DdpError *error = groups ? NULL : no_memory();
  for (int32_t k = 0; k < r->job->n_ready && !error; k++) {
    const DdpTensor *x = ready(r, k);
    for (int64_t e = x->offset; e < x->offset + x->elements; e += DDP_GROUP_ELEMENTS)
      groups[e / DDP_GROUP_ELEMENTS] = (uint16_t)x->group;
  }
  if (!error) error = r->device->alloc(DDP_MEMORY_state, n * sizeof *groups, &p);
  t->groups = p;
  if (!error) error = r->device->to_device(t->groups, groups, n * sizeof *groups, t->stream);
  if (!error) error = run_synchronise(r, t->stream);
  free(groups);
  return error;
}

static size_t rates_bytes(const DdpRun *r) {
  return sizeof(DdpRates) + (size_t)r->job->n_groups * sizeof(DdpRate);
}

static DdpError *rates_open(DdpRun *r) {
  void *p = NULL;
  DDP_TRY(r->device->alloc(DDP_MEMORY_state, rates_bytes(r), &p));
  r->there.rates = p;
  DDP_TRY(run_pinned(r, rates_bytes(r), &p));
  r->there.rates_here = p;
  DDP_TRY(run_pinned(r, sizeof *r->there.settled, &p));
  r->there.settled = p;
  return NULL;
}

static DdpError *rates_send(DdpRun *r, double factor, float clip) {
  DdpRates *rates = r->there.rates_here;
  rates->step = r->progress.update - r->scale.skipped + 1;
  rates->clip = clip;
  rates->hold = 0;
  for (int32_t i = 0; i < r->job->n_groups; i++)
    rates->rate[i] = (DdpRate){run_rate(r, i) * factor, run_weight_decay(r, i)};
  return r->device->to_device(r->there.rates, rates, rates_bytes(r), r->there.stream);
}

static void step_range(DdpRun *r, const RunRange *range) {
  const RunThere *there = &r->there;
  const DdpTensor *t = &r->job->tensors[range->tensor];
  const DdpOptimizer *o = &r->job->optimizers[t->optimizer];
  DdpSegment s = {.p = r->params + range->begin,
                  .g = r->grads + range->begin,
                  .n = range->end - range->begin,
                  .block = r->block,
                  .settings = r->set,
                  .stream = there->stream,
                  .rates = there->rates,
                  .groups = there->groups + range->begin / DDP_GROUP_ELEMENTS,
                  .group = t->group,
                  .scratch = there->scratch};
  for (int32_t i = 0; i < o->states; i++) s.state[i] = r->state[i] + t->state[i];
  o->step(&s);
}

/* The host's copy of the rates is written again when the results of this update have come, and it has been read. */
DdpError *run_there_step(DdpRun *r, double factor, float clip) {
  DDP_TRY(rates_send(r, factor, clip));
  for (int32_t i = 0; i < r->there.n_ranges; i++) step_range(r, &r->there.ranges[i]);
  return r->device->failure();
}

/* ---------- steps behind backward ---------- */

bool run_steps_there(const DdpRun *r) {
  if (!r->device->apart || (r->world > 1 && !ddp_group_on_device(r->group))) return false;
  return !run_may_skip(r) && !run_debugs(r, "underflow_overflow");
}

static void settle(const DdpRun *r, bool norm) {
  const RunThere *t = &r->there;
  const DdpArenaKernels *k = &r->job->target->arena;
  if (norm) k->square_sums(r->grads, t->norm_ranges, t->n_norms, t->norms, t->scratch, t->stream);
  const DdpSettle s = {.rates = t->rates,
                       .squares = norm ? t->norms : NULL,
                       .n = t->n_norms,
                       .max_norm = r->set->max_grad_norm,
                       .holds = strcmp(r->set->on_nan, "stop") == 0,
                       .loss = r->world == 1 ? r->sums_there : NULL,
                       .told = t->told};
  k->settle(&s, t->stream);
}

/* Each bucket as soon as its sum is there, while later ones travel. The first one tells of a bad loss. */
static DdpError *step_buckets(DdpRun *r) {
  const DdpBucketInfo *info;
  int n = ddp_reducer_buckets(r->reducer, &info), k = 0;
  for (int b = 0; b < n; b++) {
    DDP_TRY(ddp_reducer_await(r->reducer, b));
    if (b == 0) settle(r, false);
    for (; k < r->there.n_ranges && r->there.ranges[k].begin < info[b].end; k++)
      step_range(r, &r->there.ranges[k]);
  }
  return ddp_reducer_join(r->reducer);
}

static DdpError *step_all(DdpRun *r, bool norm) {
  if (r->reducer) DDP_TRY(ddp_reducer_join(r->reducer));
  settle(r, norm);
  for (int32_t i = 0; i < r->there.n_ranges; i++) step_range(r, &r->there.ranges[i]);
  return NULL;
}

/* A pass knows its step alone; behind it stands whose step it is. */
typedef struct UpdateStep {
  DdpStep step;
  DdpRun *r;
} UpdateStep;

static void pass_and_step(DdpStep *step, bool norm) {
  DdpRun *r = ((UpdateStep *)(void *)step)->r;
  r->job->forward_backward(step);
  DdpError *e = r->reducer ? ddp_reducer_over(r->reducer) : NULL;
  if (!e) e = r->steps_early && !norm ? step_buckets(r) : step_all(r, norm);
  r->there.error = ddp_error_first(r->there.error, e);
}
static void update_with_norm(DdpStep *step) {
  pass_and_step(step, true);
}
static void update_alone(DdpStep *step) {
  pass_and_step(step, false);
}

DdpError *run_there_update(DdpRun *r, DdpStep *step) {
  UpdateStep whole = {*step, r};
  DDP_TRY(rates_send(r, run_rate_factor(r, r->progress.update), 1));
  DdpError *e = run_pass(r, r->want_norm ? update_with_norm : update_alone, &whole.step);
  e = ddp_error_first(e, r->there.error);
  r->there.error = NULL;
  return e;
}

DdpError *run_there_buckets(DdpRun *r) {
  if (!r->there.steps) return NULL;
  bool stops = strcmp(r->set->on_nan, "stop") == 0;
  r->there.told = ddp_reducer_tell_loss(r->reducer, stops);
  ddp_reducer_marks(r->reducer, r->steps_early);
  if (stops && !r->there.told)
    return ddp_error(DDP_FAILED, "no gradient is complete behind the loss (internal fault)");
  return ranges_open(r);
}

/* ---------- for the run ---------- */

DdpError *run_there_open(DdpRun *r) {
  const DdpJob *job = r->job;
  RunThere *t = &r->there;
  void *p = NULL;
  if (!r->device->apart) return NULL;
  if (job->n_counts > DDP_MAX_COUNTS)
    return ddp_error(DDP_FAILED, "the loss has %d denominators; a device takes %d", job->n_counts,
                     DDP_MAX_COUNTS);
  DDP_TRY(r->device->alloc(DDP_MEMORY_block, (size_t)job->target->scratch, &p));
  t->scratch = p;
  t->steps = run_steps_there(r);
  DDP_TRY(r->device->alloc(DDP_MEMORY_block, (size_t)(job->n_counts + 1) * sizeof(double), &p));
  t->counts = p;
  DDP_TRY(norms_open(r));
  DDP_TRY(ranges_open(r));
  DDP_TRY(groups_open(r));
  return rates_open(r);
}

void run_there_close(DdpRun *r) {
  const DdpDevice *d = r->device;
  const DdpJob *job = r->job;
  RunThere *t = &r->there;
  size_t most = (size_t)job->n_ready + 1;
  if (!d->apart) return;
  d->free(DDP_MEMORY_block, t->scratch, (size_t)job->target->scratch);
  d->free(DDP_MEMORY_block, t->counts, (size_t)(job->n_counts + 1) * sizeof(double));
  d->free(DDP_MEMORY_grads, t->norms, most * sizeof *t->norms);
  d->free(DDP_MEMORY_state, t->groups,
          ((size_t)(r->param_count / DDP_GROUP_ELEMENTS) + 1) * sizeof *t->groups);
  d->free(DDP_MEMORY_state, t->rates, rates_bytes(r));
  d->free(DDP_MEMORY_block, t->eval, (size_t)t->eval_n * sizeof *t->eval);
  run_pinned_free(r, t->norms_here, most * sizeof *t->norms_here);
  run_pinned_free(r, t->rates_here, rates_bytes(r));
  run_pinned_free(r, t->settled, sizeof *t->settled);
  free(t->norm_ranges);
  free(t->ranges);
}
