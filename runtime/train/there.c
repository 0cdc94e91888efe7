/* Norms and steps of the optimizer on a device with memory of its own. In: gradients, rates. Out: sums of squares
   on the host, new parameters. Optimizers that go element by element step ranges of the arena with several tensors;
   rates, the step's number and clipping are read from the device's memory. */
#include "run.h"
#include <stdlib.h>
#include <string.h>

enum { GROUP_ELEMENTS = 16 }; /* of the arena, that share a number in DdpSegment.groups */

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
    if (r->norm_owner[i] == r->rank)
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
  DDP_TRY(r->reducer && ddp_group_on_device(r->group) ? ddp_reducer_arrive(r->reducer, &r->exposed)
                                                      : run_synchronise(r, t->stream));
  return d->failure();
}

/* ---------- the optimizer ---------- */

static const DdpTensor *ready(const DdpRun *r, int32_t k) {
  return &r->job->tensors[r->job->ready[k]];
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
  t->ranges = calloc((size_t)r->job->n_ready + 1, sizeof *t->ranges);
  if (!t->ranges) return no_memory();
  for (int32_t k = 0; k < r->job->n_ready; k++) {
    const DdpTensor *x = ready(r, k);
    RunRange *last = t->n_ranges ? &t->ranges[t->n_ranges - 1] : NULL;
    bool whole = r->job->optimizers[x->optimizer].whole;
    int64_t n =
        whole ? x->elements : (x->elements + GROUP_ELEMENTS - 1) / GROUP_ELEMENTS * GROUP_ELEMENTS;
    if (last && follows(r, last, x))
      last->end += n;
    else
      t->ranges[t->n_ranges++] = (RunRange){r->job->ready[k], x->offset, x->offset + n};
  }
  return NULL;
}

static DdpError *groups_open(DdpRun *r) {
  RunThere *t = &r->there;
  size_t n = (size_t)(r->param_count / GROUP_ELEMENTS) + 1;
  uint16_t *groups = calloc(n, sizeof *groups);
  void *p = NULL;
  DdpError *error = groups ? NULL : no_memory();
  for (int32_t k = 0; k < r->job->n_ready && !error; k++) {
    const DdpTensor *x = ready(r, k);
    for (int64_t e = x->offset; e < x->offset + x->elements; e += GROUP_ELEMENTS)
      groups[e / GROUP_ELEMENTS] = (uint16_t)x->group;
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
  return NULL;
}

static DdpError *rates_send(DdpRun *r, double factor, float clip) {
  DdpRates *rates = r->there.rates_here;
  rates->step = r->progress.update - r->scale.skipped + 1;
  rates->clip = clip;
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
                  .groups = there->groups + range->begin / GROUP_ELEMENTS,
                  .group = t->group,
                  .scratch = there->scratch};
  for (int32_t i = 0; i < o->states; i++) s.state[i] = r->state[i] + t->state[i];
  o->step(&s);
}

/* The host's copy of the rates is written again after the next update's results, when this one has been read. */
DdpError *run_there_step(DdpRun *r, double factor, float clip) {
  DDP_TRY(rates_send(r, factor, clip));
  for (int32_t i = 0; i < r->there.n_ranges; i++) step_range(r, &r->there.ranges[i]);
  return r->device->failure();
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
          ((size_t)(r->param_count / GROUP_ELEMENTS) + 1) * sizeof *t->groups);
  d->free(DDP_MEMORY_state, t->rates, rates_bytes(r));
  d->free(DDP_MEMORY_block, t->eval, (size_t)t->eval_n * sizeof *t->eval);
  run_pinned_free(r, t->norms_here, most * sizeof *t->norms_here);
  run_pinned_free(r, t->rates_here, rates_bytes(r));
  free(t->norm_ranges);
  free(t->ranges);
}
