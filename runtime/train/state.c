/* trainer_state.json and what is kept beside it. In: a run between two updates. Out: the Trainer's own account
   of it, and of the checkpoints those that save_total_limit leaves. Rank 0 alone. */
#include "file.h"
#include "history.h"
#include "log.h"
#include "manifest.h"
#include "run.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char run_state_file[] = "trainer_state.json";

/* A best checkpoint that is gone is forgotten, its metric is not. */
static DdpError *check_best(DdpRun *r) {
  const char *folder = ddp_history_best(r->history);
  DdpError *error = folder ? ddp_checkpoint_verify(folder, false, NULL) : NULL;
  if (!error) return NULL;
  ddp_log(DDP_LOG_warning, "the best checkpoint so far is not there any more: %s", error->message);
  ddp_error_free(error);
  return ddp_history_set_best(r->history, NULL);
}

/* checkpoint-N beside the folder that was resumed from, if it is complete; else NULL. */
static char *beside(const char *resumed, int64_t update) {
  size_t n = strlen(resumed);
  while (n > 1 && resumed[n - 1] == '/') n--;
  while (n > 0 && resumed[n - 1] != '/') n--;
  char *output = strndup(resumed, n), *folder = output ? ddp_checkpoint_path(output, update) : NULL;
  free(output);
  if (folder && ddp_checkpoint_complete(folder)) return folder;
  free(folder);
  return NULL;
}

/* With another metric or direction than before, the best one so far is another one. Rank 0's is what counts. */
static DdpError *seek_best(DdpRun *r, const char *resumed) {
  DdpProgress *p = &r->progress;
  char key[120];
  double best = 0;
  int64_t at = -1;
  if (!r->seeks_best || !resumed) return NULL;
  snprintf(key, sizeof key, "eval_%s", r->job->metrics[r->metric]);
  DDP_TRY(ddp_history_seek(r->history, key, run_best_greater(r), &best, &at));
  if (at == p->best_at) return NULL;
  char *folder = at >= 0 ? beside(resumed, at) : NULL;
  p->best = best;
  p->best_at = at;
  if (at >= 0)
    ddp_log(DDP_LOG_warning,
            "by %s as it is judged now, the best evaluation so far is that of update %lld%s", key,
            (long long)at, folder ? "" : ", which was not saved");
  DdpError *error = ddp_history_set_best(r->history, folder);
  free(folder);
  return error;
}

DdpError *run_state_open(DdpRun *r) {
  const char *folder = run_resume_folder(r);
  if (r->rank != 0) return NULL;
  DDP_TRY(ddp_history_open(&r->history));
  char *path = folder ? ddp_file_join(folder, run_state_file) : NULL;
  if (folder && !path) return ddp_error(DDP_MEMORY, "out of memory");
  DdpError *error = path ? ddp_history_read(r->history, path) : NULL;
  free(path);
  if (!error) error = check_best(r);
  return error ? error : seek_best(r, folder);
}

static int64_t steps(const DdpRun *r, double every) {
  int64_t n = isnan(every) ? 0 : ddp_counts_interval(every, r->counts.total);
  return n > 0 ? n : 500; /* what TrainerState has where nothing was set */
}

DdpError *run_state_text(DdpRun *r, char **text) {
  const DdpSettings *s = r->set;
  const DdpProgress *at = &r->progress;
  bool by_steps = strcmp(s->eval_strategy, "steps") == 0;
  double eval_steps = isnan(s->eval_steps) && by_steps ? s->logging_steps : s->eval_steps;
  DdpTrainerState state = {.epoch = at->fraction,
                           .global_step = at->update,
                           .max_steps = r->counts.total,
                           .num_train_epochs =
                               (r->counts.total + r->counts.updates - 1) / r->counts.updates,
                           .logging_steps = steps(r, s->logging_steps),
                           .eval_steps = steps(r, eval_steps),
                           .save_steps = steps(r, s->save_steps),
                           .saved_at = at->saved_at,
                           .train_batch_size = r->job->train_batch,
                           .num_input_tokens_seen = at->tokens_seen,
                           .best_metric = at->best_at >= 0 ? at->best : (double)NAN,
                           .best_global_step = -1};
  if (strcmp(s->save_strategy, "no") != 0) state.best_global_step = at->best_at;
  return ddp_history_text(r->history, &state, text);
}

DdpError *run_state_write(const char *text, const char *folder) {
  char *path = ddp_file_join(folder, run_state_file);
  DdpFile *f = NULL;
  DdpError *error = path ? ddp_file_create(&f, path) : ddp_error(DDP_MEMORY, "out of memory");
  if (!error) error = ddp_file_write(f, text, strlen(text));
  error = ddp_file_end(f, error);
  free(path);
  return error;
}

/* ---------- what is kept ---------- */

/* The number of the best checkpoint if it lies in this run's folder; -1. */
static int64_t best_here(const DdpRun *r) {
  const char *best = r->history ? ddp_history_best(r->history) : NULL;
  return best ? ddp_checkpoint_number(r->output, best) : -1;
}

DdpKeep run_state_keep(const DdpRun *r, int64_t newest) {
  int64_t limit = r->set->save_total_limit;
  return (DdpKeep){
      .limit = limit == DDP_NONE_INT ? 0 : limit, .newest = newest, .best = best_here(r)};
}

/* With room for one checkpoint the newest one was kept to resume from; now the best one is. */
static DdpError *leave_best(const DdpRun *r) {
  DdpKeep keep = run_state_keep(r, r->progress.saved_at);
  if (r->rank != 0) keep.best = r->progress.best_at; /* a copy of rank 0's folder */
  if (keep.limit != 1 || keep.best < 0) return NULL;
  char *folder = ddp_checkpoint_path(r->output, keep.best);
  if (!folder) return ddp_error(DDP_MEMORY, "out of memory");
  bool there = ddp_checkpoint_complete(folder);
  free(folder);
  keep.newest = keep.best;
  return there ? ddp_checkpoint_rotate(r->output, &keep) : NULL;
}

DdpError *run_state_end(DdpRun *r) {
  char *text = NULL;
  if (!r->writes) return NULL;
  DdpError *error = r->rank == 0 ? run_state_text(r, &text) : NULL;
  if (!error && text) error = run_state_write(text, r->output);
  free(text);
  return error ? error : leave_best(r);
}
