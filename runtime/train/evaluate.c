/* Exact evaluation: every sample of the split once, whatever the number of ranks. In: the model. Out:
   metric values, the same bits for any number of ranks: batches have fixed bounds and their sums are
   added in the order of the batches. */
#include "run.h"
#include "clock.h"
#include <stdlib.h>
#include <string.h>

typedef struct Evaluation {
  int64_t samples, batches, rounds; /* rounds: batches of the busiest rank */
  int n;                            /* sums of one batch */
} Evaluation;

void run_still_step(DdpRun *r, int64_t n, int64_t samples, DdpStep *step) {
  *step = (DdpStep){.batch = n,
                    .fields = r->batch->there.fields,
                    .sample = r->batch->there.sample,
                    .row = r->batch->there.row,
                    .params = r->params,
                    .frozen = r->frozen,
                    .grads = r->grads,
                    .buffers = r->buffers,
                    .block = r->block,
                    .counts = r->denominators,
                    .share = (double)n / (double)samples,
                    .seed = (uint64_t)r->set->seed,
                    .update = DDP_NO_UPDATE,
                    .epoch = DDP_NO_UPDATE,
                    .settings = r->set,
                    .stream = r->there.stream,
                    .scalars = r->batch->there.scalars,
                    .scratch = r->there.scratch};
}

DdpError *run_eval_step(DdpRun *r, const char *split, int64_t first, int64_t n, int64_t samples,
                        DdpStep *step) {
  DDP_TRY(run_batch_next(r));
  for (int64_t i = 0; i < n; i++) {
    r->eval_index[i] = r->batch->sample[i] = first + i;
    r->batch->row[i] = ddp_dataset_row(r->data, split, first + i);
  }
  DDP_TRY(ddp_dataset_gather(r->data, split, r->eval_index, n, r->batch->fields));
  DDP_TRY(run_batch_send(r));
  run_still_step(r, n, samples, step);
  return NULL;
}

/* On a device its sums go to their place there, all of them at the same address: a pass that is replayed adds
   where it added before. */
static DdpError *one_batch(DdpRun *r, const Evaluation *e, int64_t round) {
  int64_t start = (round * r->world + r->rank) * r->job->eval_batch, n = e->samples - start;
  const DdpDevice *d = r->device;
  size_t bytes = (size_t)e->n * sizeof(double);
  DdpStep step;
  if (n > r->job->eval_batch) n = r->job->eval_batch;
  DDP_TRY(run_eval_step(r, r->job->eval_split, start, n, e->samples, &step));
  step.sums = d->apart ? r->sums_there : r->eval_mine + round * e->n;
  if (d->apart) DDP_TRY(d->clear(r->sums_there, bytes, r->there.stream));
  DDP_TRY(run_pass(r, r->job->evaluate, &step));
  return d->apart ? d->copy(r->there.eval + round * e->n, r->sums_there, bytes, r->there.stream)
                  : NULL;
}

/* The sums of this rank's batches so far. */
static DdpError *fetch(DdpRun *r, const Evaluation *e, int64_t rounds) {
  const DdpDevice *d = r->device;
  if (!d->apart) return NULL;
  size_t bytes = (size_t)(rounds * e->n) * sizeof(double);
  DDP_TRY(d->to_host(r->eval_mine, r->there.eval, bytes, r->there.stream));
  DDP_TRY(run_synchronise(r, r->there.stream));
  return d->failure();
}

/* [rounds][n] and [world][rounds][n] sums, each rank's with its votes to stop behind them; the same sizes
   every time. */
static DdpError *sums_open(DdpRun *r, const Evaluation *e) {
  size_t n = (size_t)(e->rounds * e->n) + RUN_STOPS;
  if (r->eval_mine) return NULL;
  r->eval_mine = malloc((n + 1) * sizeof(double));
  r->eval_all = malloc((n * (size_t)r->world + 1) * sizeof(double));
  if (!r->eval_index)
    r->eval_index = malloc((size_t)(r->job->eval_batch + 1) * sizeof *r->eval_index);
  if (!r->eval_mine || !r->eval_all || !r->eval_index)
    return ddp_error(DDP_MEMORY, "out of memory");
  if (!r->device->apart) return NULL;
  void *p = NULL;
  DDP_TRY(r->device->alloc(DDP_MEMORY_block, n * sizeof(double), &p));
  r->there.eval = p;
  r->there.eval_n = (int64_t)n;
  return NULL;
}

/* Votes of all ranks, each behind its sums. */
static int stop_of_all(const DdpRun *r, int64_t block) {
  double votes[RUN_STOPS] = {0};
  for (int q = 0; q < r->world; q++) {
    const double *theirs = r->eval_all + (q + 1) * block - RUN_STOPS;
    for (int k = 0; k < RUN_STOPS; k++) votes[k] += theirs[k];
  }
  return run_stop_of(votes);
}

static DdpError *evaluate(DdpRun *r, const Evaluation *e, double *metrics) {
  int64_t block = e->rounds * e->n + RUN_STOPS, bytes = block * (int64_t)sizeof(double);
  DDP_TRY(sums_open(r, e));
  memset(r->eval_mine, 0, (size_t)bytes);
  int stop = 0;
  int64_t done = 0;
  for (int64_t k = 0; k < e->rounds && !(stop = ddp_group_stop_asked(r->group)); k++) {
    if (k * r->world + r->rank >= e->batches) continue;
    DDP_TRY(one_batch(r, e, k));
    done = k + 1;
  }
  DDP_TRY(fetch(r, e, done));
  if (stop) r->eval_mine[block - RUN_STOPS + stop - 1] = 1;
  if (r->world > 1) {
    DDP_TRY(ddp_group_all_gather(r->group, r->eval_mine, r->eval_all, bytes,
                                 "the sums of the evaluation"));
  } else {
    memcpy(r->eval_all, r->eval_mine, (size_t)bytes);
  }
  stop = stop_of_all(r, block);
  if (stop) {
    r->stop = stop;
    return NULL;
  }
  memset(r->sums, 0, (size_t)e->n * sizeof(double));
  for (int64_t b = 0; b < e->batches; b++) {
    const double *part = r->eval_all + (b % r->world) * block + b / r->world * e->n;
    for (int i = 0; i < e->n; i++) r->sums[i] += part[i];
  }
  r->job->metric_values(r->sums, metrics);
  return NULL;
}

DdpError *run_evaluate(DdpRun *r, double *metrics, double *seconds, int64_t *samples,
                       int64_t *steps) {
  double begin = ddp_clock();
  ddp_group_at(r->group, r->progress.update, "evaluation");
  DDP_TRY(run_broadcast_buffers(r));
  DDP_TRY(run_check_buffers(r));
  Evaluation e = {.samples = ddp_dataset_rows(r->data, r->job->eval_split), .n = r->job->n_sums};
  e.batches = (e.samples + r->job->eval_batch - 1) / r->job->eval_batch;
  e.rounds = (e.batches + r->world - 1) / r->world;
  run_ema_swap(r);
  DdpError *error = evaluate(r, &e, metrics);
  run_ema_swap(r);
  *seconds = ddp_clock() - begin;
  *samples = e.samples;
  *steps = e.rounds;
  return error;
}
