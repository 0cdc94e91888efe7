/* The training loop: epochs, windows, and what happens after an update in the Trainer's order: log,
   evaluate, save. In: a run that is set up. Out: a trained model, saved; or why it ended. */
#include "clock.h"
#include "report.h"
#include "run.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Loop {
  DdpRun *r;
  int64_t log_every, eval_every, save_every; /* updates; 0: not by steps */
  bool log_epochs, eval_epochs, save_epochs;
  bool save_best; /* an evaluation that is the best so far is saved */
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
  *l = (Loop){.r = r};
  if (is(s->logging_strategy, "steps")) l->log_every = ddp_counts_interval(s->logging_steps, total);
  if (is(s->eval_strategy, "steps")) l->eval_every = ddp_counts_interval(eval_steps, total);
  if (is(s->save_strategy, "steps")) l->save_every = ddp_counts_interval(s->save_steps, total);
  l->log_epochs = is(s->logging_strategy, "epoch");
  l->eval_epochs = is(s->eval_strategy, "epoch");
  l->save_epochs = is(s->save_strategy, "epoch");
  /* What is to be loaded at the end must be there, also where no save is due after that evaluation. */
  l->save_best = is(s->save_strategy, "best") || s->load_best_model_at_end == 1;
  l->metrics = calloc((size_t)r->job->n_metrics + 1, sizeof *l->metrics);
  return l->metrics ? NULL : ddp_error(DDP_MEMORY, "out of memory");
}

static DdpError *do_log(Loop *l) {
  DdpRun *r = l->r;
  DdpProgress *at = &r->progress;
  if (at->logged_at == at->update || at->running_n == 0) return NULL;
  DdpError *error = report_train(r->report, r, at->running / (double)at->running_n, at->fraction);
  at->running = 0;
  at->running_n = 0;
  at->logged_at = at->update;
  return error;
}

static DdpError *do_save(Loop *l) {
  DdpProgress *at = &l->r->progress;
  if (at->saved_at == at->update) return NULL;
  at->saved_at = at->update; /* before, since the checkpoint says so too */
  double begun = ddp_clock();
  DdpError *error = run_checkpoint(l->r);
  ddp_trace_span(l->r->trace, "checkpoint", begun, ddp_clock());
  return error;
}

/* All ranks are here. The checkpoint comes first: what is promised stands before it is told. It is none of
   save_strategy's, whose own one of this update may still be due for the run that goes on. */
static DdpError *stopped(Loop *l) {
  DdpRun *r = l->r;
  DdpProgress *at = &r->progress;
  const char *name = run_stop_name(r->stop);
  if (at->update > 0) {
    DDP_TRY(run_check_weights(r));
    if (at->saved_at != at->update) DDP_TRY(run_checkpoint(r));
    DDP_TRY(run_checkpoint_wait(r));
  }
  DDP_TRY(report_end(r->report, r, at->update ? at->all / (double)at->update : NAN, at->fraction,
                     name));
  /* The report has told people already. */
  r->quiet = r->rank != 0 || strcmp(r->set->log_format, "jsonl") != 0;
  r->together = true;
  return ddp_error(DDP_STOPPED, "stopped by %s after update %lld of %lld", name,
                   (long long)at->update, (long long)r->counts.total);
}

static DdpError *do_evaluate(Loop *l) {
  DdpRun *r = l->r;
  DdpProgress *at = &r->progress;
  double seconds = 0;
  int64_t samples = 0, steps = 0;
  if (at->evaluated_at == at->update) return NULL;
  if (run_stop_soon(r->stop)) return stopped(l); /* whoever goes on from here evaluates then */
  double begun = ddp_clock();
  DDP_TRY(run_evaluate(r, l->metrics, &seconds, &samples, &steps));
  ddp_trace_span(r->trace, "evaluation", begun, ddp_clock());
  if (run_stop_soon(r->stop)) return stopped(l);
  at->evaluated_at = at->update;
  DDP_TRY(report_eval(r->report, r, l->metrics, at->fraction, seconds, samples, steps));
  if (at->update == 0) return NULL; /* eval_on_start */
  bool better = false;
  if (r->measured) ddp_measured_step(r->measured, l->metrics[r->metric]);
  DDP_TRY(run_best_see(r, l->metrics, &better));
  return better && l->save_best ? do_save(l) : NULL;
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
  DdpProgress *at = &r->progress;
  bool last = at->update == r->counts.total;
  bool evaluates = due(l->eval_every, at->update) || (last && l->eval_every);
  if (evaluates && r->set->eval_delay <= (double)at->update) DDP_TRY(do_evaluate(l));
  if (due(l->save_every, at->update) || (last && l->save_every)) DDP_TRY(do_save(l));
  return NULL;
}

static DdpError *after_epoch(Loop *l) {
  if (l->log_epochs) DDP_TRY(do_log(l));
  if (l->eval_epochs && l->r->set->eval_delay <= l->r->progress.fraction) DDP_TRY(do_evaluate(l));
  if (l->save_epochs) DDP_TRY(do_save(l));
  return NULL;
}

/* A loss that is not a number must not hide the others in the log (logging_nan_inf_filter). */
static void count_loss(Loop *l, double loss) {
  DdpProgress *at = &l->r->progress;
  if (!isfinite(loss) && l->r->set->logging_nan_inf_filter == 1) {
    loss = at->running_n ? at->running / (double)at->running_n : 0;
  }
  at->running += loss;
  at->running_n++;
  at->all += loss;
}

static DdpError *one_update(Loop *l) {
  DdpRun *r = l->r;
  DdpProgress *at = &r->progress;
  int64_t first = at->window * r->counts.accumulation,
          n = ddp_counts_window(&r->counts, at->window);
  DdpWindowResult result = {0};
  int64_t seen = at->samples_seen;
  double spent = ddp_group_spent(r->group);
  ddp_trace_update(r->trace, at->update);
  ddp_timing_begin(&r->timing);
  r->want_norm = r->set->max_grad_norm > 0 || run_skips(r) || run_debugs(r, "underflow_overflow") ||
                 norm_is_read(l, at->update + 1, at->window + 1 == r->counts.updates);
  DDP_TRY(run_window(r, first, n));
  if (r->stop) { /* the norm of this update says nothing about the weights */
    r->want_norm = false;
    return stopped(l);
  }
  DDP_TRY(run_update(r, &result));
  if (result.save_failed) return run_checkpoint_wait(r);
  ddp_timing_exposed(&r->timing, ddp_group_spent(r->group) - spent);
  if (due(r->set->check_ranks, at->update)) DDP_TRY(run_compare_ranks(r));
  at->window++;
  at->fraction = (double)at->epoch + (double)(first + n) / (double)r->counts.micro_batches;
  l->full = at->samples_seen - seen == r->job->train_batch * r->counts.accumulation * r->world;
  count_loss(l, result.loss);
  report_progress(r->report, r, result.loss);
  if (logs(l, at->update)) DDP_TRY(do_log(l));
  ddp_timing_end(&r->timing, DDP_PART_log, l->full);
  DDP_TRY(after_update(l));
  return r->stop && at->update < r->counts.total ? stopped(l) : NULL;
}

/* Goes on from where the run stands: after a resume inside an epoch, or in the middle of what follows its last
   update or the end of an epoch; a stop leaves the evaluation to the run that goes on. */
static DdpError *train(Loop *l) {
  DdpRun *r = l->r;
  DdpProgress *at = &r->progress;
  if (at->update == 0 && r->set->eval_on_start == 1 && r->job->evaluate) DDP_TRY(do_evaluate(l));
  if (at->update > 0) DDP_TRY(after_update(l)); /* its line of the log came before any stop */
  if (r->config->stop_at && at->update >= r->config->stop_at && at->update < r->counts.total) {
    r->stop = RUN_STOPS;
    return stopped(l);
  }
  for (;; at->epoch++, at->window = 0) {
    ddp_sampler_epoch(&r->sampler, at->epoch);
    r->there.held = -1;
    while (at->window < r->counts.updates && at->update < r->counts.total) DDP_TRY(one_update(l));
    DDP_TRY(after_epoch(l));
    if (at->update >= r->counts.total) break;
  }
  DDP_TRY(run_checkpoint_wait(r));
  run_ema_swap(r); /* for good */
  DDP_TRY(run_best_load(r));
  DDP_TRY(run_save(r, r->output));
  DDP_TRY(report_end(r->report, r, at->all / (double)at->update, at->fraction, NULL));
  return run_agree(r, run_state_end(r), "saving trainer_state.json");
}

DdpError *run_train(DdpRun *r) {
  Loop l;
  DdpError *error = loop_open(&l, r);
  run_signals_training();
  if (!error) error = train(&l);
  free(l.metrics);
  return error ? error : run_sample(r);
}
