/* The best evaluation of a run. In: the metrics of each evaluation. Out: the update with the best one, the
   same on every rank, since rank 0 decides and tells the others; at the end its weights, if they are asked
   for. Rank 0 alone looks at the folders of checkpoints. */
#include "run.h"
#include "history.h"
#include "file.h"
#include "log.h"
#include "manifest.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *value, const char *word) {
  return value && strcmp(value, word) == 0;
}

/* What metric_for_best_model names, with or without `eval_`; unset: the loss. */
static DdpError *find_metric(DdpRun *r) {
  const char *name = r->set->metric_for_best_model;
  char all[400] = "";
  if (!name) return NULL; /* metric 0 */
  if (!strncmp(name, "eval_", 5)) name += 5;
  for (int32_t i = 0; i < r->job->n_metrics; i++) {
    size_t used = strlen(all);
    if (!strcmp(r->job->metrics[i], name)) {
      r->metric = i;
      return NULL;
    }
    snprintf(all + used, sizeof all - used, " %s", r->job->metrics[i]);
  }
  r->quiet = r->rank != 0;
  return ddp_error(DDP_USAGE, "metric_for_best_model = %s: the job has only:%s",
                   r->set->metric_for_best_model, all);
}

DdpError *run_best_open(DdpRun *r) {
  const DdpSettings *s = r->set;
  if (!r->job->evaluate) return NULL;
  r->seeks_best = s->metric_for_best_model || s->load_best_model_at_end == 1 || r->job->measured;
  DDP_TRY(find_metric(r));
  if (!r->seeks_best || s->prediction_loss_only != 1 || r->metric == 0) return NULL;
  r->quiet = r->rank != 0;
  return ddp_error(
      DDP_USAGE,
      "metric_for_best_model = %s: with prediction_loss_only evaluations have the loss "
      "only; leave one of the two out",
      s->metric_for_best_model);
}

/* greater_is_better; unset: unless the name ends in "loss", as in the Trainer. */
bool run_best_greater(const DdpRun *r) {
  const char *name = r->set->metric_for_best_model ? r->set->metric_for_best_model : "loss";
  size_t n = strlen(name);
  if (r->set->greater_is_better >= 0) return r->set->greater_is_better == 1;
  return n < 4 || strcmp(name + n - 4, "loss") != 0;
}

DdpError *run_best_see(DdpRun *r, const double *metrics, bool *better) {
  typedef struct Told {
    double best;
    int64_t at, better;
  } Told;
  DdpProgress *p = &r->progress;
  *better = false;
  if (!r->seeks_best) return NULL;
  double now = metrics[r->metric];
  bool up = run_best_greater(r);
  double before = p->best_at >= 0 ? p->best : up ? -INFINITY : INFINITY;
  Told told = {.best = p->best, .at = p->best_at};
  if (up ? now > before : now < before) { /* never where it is no number */
    told = (Told){.best = now, .at = p->update, .better = 1};
  }
  if (r->world > 1)
    DDP_TRY(ddp_group_broadcast(r->group, &told, (int64_t)sizeof told, 0, "the best evaluation"));
  p->best = told.best;
  p->best_at = told.at;
  *better = told.better == 1;
  return NULL;
}

/* Rank 0. */
static DdpError *load_here(DdpRun *r) {
  const char *folder = r->history ? ddp_history_best(r->history) : NULL;
  if (!folder) {
    char why[80] = "no evaluation gave a number";
    if (r->progress.best_at >= 0)
      snprintf(why, sizeof why, "the checkpoint of the best evaluation (update %lld) is gone",
               (long long)r->progress.best_at);
    ddp_log(DDP_LOG_warning, "load_best_model_at_end: %s; the weights of the last update stay",
            why);
    return NULL;
  }
  DDP_TRY(ddp_checkpoint_verify(folder, true, NULL));
  char *path = ddp_file_join(folder, r->ema ? "ema.safetensors" : "model.safetensors");
  if (!path) return ddp_error(DDP_MEMORY, "out of memory");
  DdpError *error = run_load(r, path);
  free(path);
  if (!error)
    ddp_log(DDP_LOG_info, "loaded the best model: %s (%s%s = %.6g)", folder,
            strncmp(r->job->metrics[r->metric], "eval_", 5) ? "eval_" : "",
            r->job->metrics[r->metric], r->progress.best);
  return error;
}

DdpError *run_best_load(DdpRun *r) {
  if (r->set->load_best_model_at_end != 1) return NULL;
  ddp_group_at(r->group, r->progress.update, "loading the best model");
  DDP_TRY(run_agree(r, run_model_here(r, false), "taking memory for the best model"));
  DdpError *error = run_agree(r, r->rank == 0 ? load_here(r) : NULL, "loading the best model");
  return run_model_there(r, error ? error : run_broadcast_model(r));
}

/* ---------- which checkpoint is the best one ---------- */

DdpError *run_best_note(DdpRun *r) {
  const DdpProgress *p = &r->progress;
  if (p->best_at < 0 || !r->history || is(r->set->save_strategy, "no")) return NULL;
  char *folder = ddp_checkpoint_path(r->output, p->best_at);
  if (!folder) return ddp_error(DDP_MEMORY, "out of memory");
  DdpError *error = NULL;
  if (p->best_at == p->update || ddp_checkpoint_complete(folder))
    error = ddp_history_set_best(r->history, folder); /* else an earlier one stays the best */
  free(folder);
  return error;
}
