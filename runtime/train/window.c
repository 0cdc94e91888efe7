/* One update window: the micro-batches of one rank, forward and backward. In: which micro-batches.
   Out: gradients summed over micro-batches and ranks, this rank's part of the loss. */
#include "run.h"
#include "clock.h"
#include <math.h>
#include <string.h>

typedef struct Window {
  int64_t first, n; /* micro-batches of the epoch */
  int64_t samples;  /* of this rank */
} Window;

static int64_t batch_of(const DdpRun *r, int64_t micro_batch) {
  return ddp_counts_batch(&r->counts, micro_batch);
}

/* Fills the batch buffers and the samples' positions and rows. */
static DdpError *window_gather(DdpRun *r, const Window *w, int64_t micro_batch, int64_t *batch) {
  int64_t n = batch_of(r, micro_batch), start = micro_batch * r->job->train_batch;
  int64_t before = w->first * r->job->train_batch * r->world; /* places of the epoch */
  *batch = n;
  if (r->there.held == micro_batch) return NULL;
  DDP_TRY(run_batch_next(r));
  DDP_TRY(ddp_dataset_gather(r->data, "train", r->sampler.index + start, n, r->batch->fields));
  for (int64_t i = 0; i < n; i++) {
    /* Place in the update's global batch, which does not depend on the number of ranks. */
    r->batch->sample[i] = ddp_shards_place(&r->counts.shards, r->rank, start + i) - before;
    r->batch->row[i] = ddp_dataset_row(r->data, "train", r->sampler.index[start + i]);
  }
  if (r->device->apart) r->there.held = micro_batch;
  return run_batch_send(r);
}

/* While a device computes this window's last micro-batch, the first one of the next window is gathered. */
static DdpError *gather_ahead(DdpRun *r, const Window *w) {
  Window next = {.first = w->first + w->n};
  int64_t batch;
  if (!r->device->apart || next.first >= r->counts.micro_batches) return NULL;
  return window_gather(r, &next, next.first, &batch);
}

static DdpStep window_step(DdpRun *r, const Window *w, int64_t batch) {
  DdpStep step;
  run_still_step(r, batch, w->samples * r->world, &step);
  step.loss_scale = r->scale.scale;
  step.update = r->progress.update;
  step.epoch = r->progress.epoch;
  step.sums = r->sums_there;
  step.reducer = r->reducer;
  step.trace = r->trace;
  return step;
}

/* What was counted on this rank becomes what the loss is divided by: the sum over ranks; or, so that the
   sum of the ranks' parts is the mean of their losses, as often as there are ranks. */
static DdpError *over_ranks(DdpRun *r, double *counted) {
  int32_t n = r->job->n_counts;
  if (r->set->average_tokens_across_devices == 0) {
    for (int32_t k = 0; k < n; k++) counted[k] *= r->world;
    return NULL;
  }
  return r->world > 1 ? ddp_group_sum(r->group, counted, n, "the counts of the loss") : NULL;
}

/* What this micro-batch adds to them. */
static DdpError *count(DdpRun *r, const DdpStep *step, double *part) {
  const DdpDevice *d = r->device;
  size_t bytes = (size_t)r->job->n_counts * sizeof *part;
  if (!d->apart) {
    memset(part, 0, bytes);
    r->job->window_counts(step, part);
    return NULL;
  }
  DDP_TRY(d->clear(r->there.counts, bytes, step->stream));
  DDP_TRY(run_scalars(r, step));
  r->job->window_counts(step, r->there.counts);
  DDP_TRY(d->to_host(part, r->there.counts, bytes, step->stream));
  DDP_TRY(run_synchronise(r, step->stream));
  return d->failure();
}

/* Denominators of the loss over all micro-batches and ranks, before the first backward. */
static DdpError *window_counts(DdpRun *r, const Window *w) {
  const DdpJob *job = r->job;
  bool ask = false;
  double *part = r->agreement, *total = r->denominators;
  for (int32_t k = 0; k < job->n_counts; k++) {
    total[k] = job->count_per_sample[k] * (double)(w->samples * r->world);
    ask = ask || isnan(job->count_per_sample[k]);
  }
  if (ask && job->window_counts) {
    double *all = part + job->n_counts;
    memset(all, 0, (size_t)job->n_counts * sizeof *all);
    for (int64_t m = w->first; m < w->first + w->n; m++) {
      int64_t batch;
      DDP_TRY(window_gather(r, w, m, &batch));
      DdpStep step = window_step(r, w, batch);
      DDP_TRY(count(r, &step, part));
      for (int32_t k = 0; k < job->n_counts; k++) all[k] += part[k];
    }
    DDP_TRY(over_ranks(r, all));
    for (int32_t k = 0; k < job->n_counts; k++) {
      if (isnan(total[k])) total[k] = all[k];
    }
  }
  for (int32_t k = 0; k < job->n_counts; k++) {
    if (total[k] == 0) total[k] = 1; /* nothing is counted: the loss is 0, not 0 / 0 */
  }
  return NULL;
}

/* Before the micro-batch that sends gradients a window can still be given up, as if it had not begun: with a
   signal the ranks need not finish an update that takes long. Once in a window of an update that does; a
   rank that was asked to end comes here without its other micro-batches, unless they hold sums over ranks. */
static DdpError *give_up(DdpRun *r) {
  double votes[RUN_STOPS] = {0};
  int asked = ddp_group_stop_asked(r->group);
  if (asked) votes[asked - 1] = 1;
  DDP_TRY(ddp_group_sum(r->group, votes, RUN_STOPS, "whether to stop"));
  r->stop = run_stop_of(votes);
  if (!r->stop || !r->kept_buffers) return NULL;
  return r->device->copy(r->buffers, r->kept_buffers, (size_t)r->buffer_bytes, r->there.stream);
}

static bool gives_up_here(const DdpRun *r, const Window *w, int64_t micro_batch) {
  if (w->n == 1 || (r->world > 1 && !r->slow)) return false;
  if (micro_batch == w->first + w->n - 1) return true;
  return ddp_group_stop_asked(r->group) && !(r->reducer && ddp_reducer_sums(r->reducer));
}

DdpError *run_window(DdpRun *r, int64_t first, int64_t n) {
  Window w = {.first = first, .n = n};
  r->window_begun = ddp_clock();
  r->window_first = first;
  r->window_n = n;
  for (int64_t m = first; m < first + n; m++) w.samples += batch_of(r, m);
  ddp_group_at(r->group, r->progress.update, "counting");
  DDP_TRY(window_counts(r, &w));
  if (r->set->ddp_broadcast_buffers != 0) DDP_TRY(run_broadcast_buffers(r));
  if (r->kept_buffers)
    DDP_TRY(r->device->copy(r->kept_buffers, r->buffers, (size_t)r->buffer_bytes, r->there.stream));
  DDP_TRY(r->device->clear(r->sums_there, sizeof *r->sums, r->there.stream));
  r->tokens = 0;
  ddp_group_at(r->group, r->progress.update, "forward and backward");
  for (int64_t m = first; m < first + n; m++) {
    int64_t batch;
    if (gives_up_here(r, &w, m)) {
      DDP_TRY(give_up(r));
      if (r->stop) return NULL;
    }
    DDP_TRY(window_gather(r, &w, m, &batch));
    DdpStep step = window_step(r, &w, batch);
    ddp_timing_lap(&r->timing, DDP_PART_data);
    step.accumulate = m > first;
    r->tokens += run_seen_count(r, batch);
    if (r->reducer) ddp_reducer_begin(r->reducer, m == first + n - 1, r->progress.update);
    ddp_trace_mark(r->trace);
    bool steps = r->there.steps && m == first + n - 1;
    DDP_TRY(steps ? run_there_update(r, &step) : run_pass(r, r->job->forward_backward, &step));
    ddp_timing_lap(&r->timing, DDP_PART_forward_backward);
  }
  r->progress.samples_seen += w.samples * r->world;
  DDP_TRY(run_reduce(r));
  return gather_ahead(r, &w);
}

static DdpError *finite_alone(DdpRun *r, int64_t index, bool *finite) {
  const DdpDevice *d = r->device;
  size_t bytes = (size_t)r->job->n_sums * sizeof *r->sums;
  DDP_TRY(run_batch_next(r));
  DDP_TRY(ddp_dataset_gather(r->data, "train", &index, 1, r->batch->fields));
  DDP_TRY(run_batch_send(r));
  Window w = {.samples = 1};
  DdpStep step = window_step(r, &w, 1);
  DDP_TRY(d->clear(r->sums_there, bytes, step.stream));
  DDP_TRY(run_pass(r, r->job->evaluate, &step));
  DDP_TRY(d->to_host(r->sums, r->sums_there, bytes, step.stream));
  DDP_TRY(run_synchronise(r, step.stream));
  *finite = true;
  for (int32_t k = 0; k < r->job->n_sums; k++) *finite = *finite && isfinite(r->sums[k]);
  return NULL;
}

int64_t run_bad_row(DdpRun *r) {
  int64_t first = r->window_first * r->job->train_batch;
  int64_t end = (r->window_first + r->window_n) * r->job->train_batch;
  if (!r->job->evaluate) return -1;
  if (end > r->counts.per_rank) end = r->counts.per_rank;
  for (int64_t k = first; k < end; k++) {
    int64_t index = r->sampler.index[k];
    bool finite = true;
    /* The loss has been reported; an error of this look at it would hide it. */
    ddp_error_free(finite_alone(r, index, &finite));
    if (!finite) return ddp_dataset_row(r->data, "train", index);
  }
  return -1;
}
