/* The training loop: epochs, windows, and what happens after an update in the Trainer's order: log,
   evaluate, save. In: a run that is set up. Out: a trained model, saved; or why it ended. */
#include "report.h"
#include "run.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Loop {
  DdpRun *r;
  int64_t log_every, eval_every, save_every; /* updates; 0: not by steps */
  bool log_epochs, eval_epochs, save_epochs;
  double running, all; /* losses since the last line, of all updates */
  int64_t running_n;
  int64_t logged_at, evaluated_at, saved_at;
  double epoch;
  double *metrics;
  bool full; /* the last update had the whole global batch */
} Loop;

static bool is(const char *value, const char *word) {
  return value && strcmp(value, word) == 0;
}

static DdpError *loop_open(Loop *l, DdpRun *r) {
  const DdpSettings *s = r->set;
  int64_t total = r->counts.total;
  double eval_steps = isnan(s->eval_steps) ? s->logging_steps : s->eval_steps;
  *l = (Loop){.r = r, .logged_at = -1, .evaluated_at = -1, .saved_at = -1};
  if (is(s->logging_strategy, "steps")) l->log_every = ddp_counts_interval(s->logging_steps, total);
  if (is(s->eval_strategy, "steps")) l->eval_every = ddp_counts_interval(eval_steps, total);
  if (is(s->save_strategy, "steps")) l->save_every = ddp_counts_interval(s->save_steps, total);
  l->log_epochs = is(s->logging_strategy, "epoch");
  l->eval_epochs = is(s->eval_strategy, "epoch");
  l->save_epochs = is(s->save_strategy, "epoch");
  l->metrics = calloc((size_t)r->job->n_metrics + 1, sizeof *l->metrics);
  return l->metrics ? NULL : ddp_error(DDP_MEMORY, "out of memory");
}

static DdpError *do_log(Loop *l) {
  DdpRun *r = l->r;
  if (l->logged_at == r->update || l->running_n == 0) return NULL;
  DdpError *error = report_train(r->report, r, l->running / (double)l->running_n, l->epoch);
  l->running = 0;
  l->running_n = 0;
  l->logged_at = r->update;
  return error;
}

static DdpError *do_evaluate(Loop *l) {
  DdpRun *r = l->r;
  double seconds = 0;
  int64_t samples = 0, steps = 0;
  if (l->evaluated_at == r->update) return NULL;
  l->evaluated_at = r->update;
  DDP_TRY(run_evaluate(r, l->metrics, &seconds, &samples, &steps));
  if (r->measured && r->update > 0) ddp_measured_step(r->measured, l->metrics[r->measured_metric]);
  return report_eval(r->report, r, l->metrics, l->epoch, seconds, samples, steps);
}

static DdpError *do_save(Loop *l) {
  DdpRun *r = l->r;
  char *folder = NULL;
  if (l->saved_at == r->update) return NULL;
  l->saved_at = r->update;
  if (asprintf(&folder, "%s/checkpoint-%lld", r->output, (long long)r->update) < 0) {
    return ddp_error(DDP_MEMORY, "out of memory");
  }
  DdpError *error = run_save(r, folder);
  free(folder);
  return error;
}

static bool due(int64_t every, int64_t update) {
  return every > 0 && update % every == 0;
}

static bool logs(const Loop *l, int64_t update) {
  return due(l->log_every, update) || (update == 1 && l->r->set->logging_first_step == 1);
}

/* The gradient norm is logged, and weights are not evaluated or saved after gradients that were not
   finite. `last`: of the epoch. */
static bool norm_is_read(const Loop *l, int64_t update, bool last) {
  return last || update == l->r->counts.total || logs(l, update) || due(l->eval_every, update) ||
         due(l->save_every, update);
}

static DdpError *after_update(Loop *l) {
  DdpRun *r = l->r;
  bool last = r->update == r->counts.total;
  if (logs(l, r->update)) DDP_TRY(do_log(l));
  ddp_timing_end(&r->timing, DDP_PART_log, l->full);
  if (due(l->eval_every, r->update) || (last && l->eval_every)) DDP_TRY(do_evaluate(l));
  if (due(l->save_every, r->update) || (last && l->save_every)) DDP_TRY(do_save(l));
  return NULL;
}

static DdpError *after_epoch(Loop *l) {
  if (l->log_epochs) DDP_TRY(do_log(l));
  if (l->eval_epochs) DDP_TRY(do_evaluate(l));
  if (l->save_epochs) DDP_TRY(do_save(l));
  return NULL;
}

/* A loss that is not a number must not hide the others in the log (logging_nan_inf_filter). */
static void count_loss(Loop *l, double loss) {
  if (!isfinite(loss) && l->r->set->logging_nan_inf_filter == 1) {
    loss = l->running_n ? l->running / (double)l->running_n : 0;
  }
  l->running += loss;
  l->running_n++;
  l->all += loss;
}

static DdpError *stopped(Loop *l, int signal) {
  DdpRun *r = l->r;
  const char *name = signal == SIGINT ? "SIGINT" : "SIGTERM";
  DDP_TRY(report_end(r->report, r, l->all / (double)r->update, l->epoch, name));
  /* The report has told people already. */
  r->quiet = r->rank != 0 || strcmp(r->set->log_format, "jsonl") != 0;
  return ddp_error(DDP_STOPPED, "stopped by %s after update %lld of %lld", name,
                   (long long)r->update, (long long)r->counts.total);
}

static DdpError *one_update(Loop *l, int64_t epoch, int64_t window) {
  DdpRun *r = l->r;
  int64_t first = window * r->counts.accumulation, n = ddp_counts_window(&r->counts, window);
  double loss = 0;
  DdpWindowResult result = {0};
  int64_t seen = r->samples_seen;
  ddp_timing_begin(&r->timing);
  r->want_norm =
      r->set->max_grad_norm > 0 || norm_is_read(l, r->update + 1, window + 1 == r->counts.updates);
  DDP_TRY(run_window(r, first, n, &loss));
  DDP_TRY(run_update(r, loss, &result));
  l->epoch = (double)epoch + (double)(first + n) / (double)r->counts.micro_batches;
  l->full = r->samples_seen - seen == r->job->train_batch * r->counts.accumulation * r->world;
  count_loss(l, result.loss);
  report_progress(r->report, r, result.loss);
  DDP_TRY(after_update(l));
  return result.stop && r->update < r->counts.total ? stopped(l, result.stop) : NULL;
}

static DdpError *train(Loop *l) {
  DdpRun *r = l->r;
  if (r->set->eval_on_start == 1 && r->job->evaluate) DDP_TRY(do_evaluate(l));
  for (int64_t epoch = 0; epoch < r->counts.epochs && r->update < r->counts.total; epoch++) {
    ddp_sampler_epoch(&r->sampler, epoch);
    r->epoch = epoch;
    for (int64_t w = 0; w < r->counts.updates && r->update < r->counts.total; w++) {
      DDP_TRY(one_update(l, epoch, w));
    }
    DDP_TRY(after_epoch(l));
  }
  DDP_TRY(run_save(r, r->output));
  return report_end(r->report, r, l->all / (double)r->update, l->epoch, NULL);
}

DdpError *run_train(DdpRun *r) {
  Loop l;
  DdpError *error = loop_open(&l, r);
  run_signals_training(true);
  if (!error) error = train(&l);
  run_signals_training(false);
  free(l.metrics);
  return error ? error : run_sample(r);
}
