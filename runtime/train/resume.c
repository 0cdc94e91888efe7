/* Going on from a checkpoint. In: resume_from_checkpoint, a folder. Out: a run that stands where
   the one stood that wrote it, on every rank; or what is wrong with the folder, what differs
   between the runs, and what can be done. Rank 0 alone reads. */
#include "changes.h"
#include "file.h"
#include "log.h"
#include "manifest.h"
#include "parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct RunResume {
  char *folder;         /* rank 0, like the manifest */
  DdpManifest manifest; /* of the folder */
  struct Told {         /* what every rank must know of it */
    int64_t found, accumulation;
    int64_t place, planned, global_batch, updates_per_epoch;
  } told;
};

static bool is(const char *value, const char *word) {
  return strcmp(value, word) == 0;
}

static DdpError *no_memory(void) {
  return ddp_error(DDP_MEMORY, "out of memory");
}

/* Appends what can be done. */
static DdpError *with_advice(DdpError *error, const char *advice) {
  DdpError *longer = ddp_error(error->klass, "%s; %s", error->message, advice);
  ddp_error_free(error);
  return longer;
}

/* ---------- which one ---------- */

static DdpError *find_newest(DdpRun *r, RunResume *resume) {
  char *skipped = NULL;
  DdpError *error = ddp_checkpoint_newest(r->output, true, &resume->folder, &skipped);
  if (skipped) ddp_log(DDP_LOG_warning, "resume: not used:%s", skipped);
  free(skipped);
  if (!error && !resume->folder)
    ddp_log(DDP_LOG_info, "resume: no complete checkpoint in '%s'; starting from the beginning",
            r->output);
  return error;
}

/* The folder that holds the checkpoints, given instead of one of them. */
static DdpError *name_one_below(const char *path, DdpError *error) {
  char *folder = NULL, *skipped = NULL;
  ddp_error_free(ddp_checkpoint_newest(path, false, &folder, &skipped));
  if (folder) {
    DdpError *better = ddp_error(
        DDP_DATA, "'%s' is no checkpoint, but holds some; the newest is '%s'", path, folder);
    ddp_error_free(error);
    error = better;
  }
  free(folder);
  free(skipped);
  return error;
}

static DdpError *find_named(const char *path, RunResume *resume) {
  DdpError *error = ddp_checkpoint_verify(path, true, NULL);
  if (error && error->klass == DDP_DATA) {
    error = name_one_below(path, error);
    return with_advice(error, "`--resume_from_checkpoint true` takes the newest complete one of "
                              "output_dir, --init-from FILE.safetensors only weights");
  }
  if (!error && !(resume->folder = strdup(path))) error = no_memory();
  return error;
}

static DdpError *check_whole(const RunResume *resume) {
  if (resume->manifest.complete_state) return NULL;
  return ddp_error(DDP_DATA,
                   "'%s' holds weights only (save_only_model) and cannot be resumed from; "
                   "`--init-from %s/model.safetensors` starts a new run from them",
                   resume->folder, resume->folder);
}

/* Rank 0. resume->folder stays NULL when there is nothing to go on from. */
static DdpError *find(DdpRun *r, RunResume *resume) {
  const char *path = r->set->resume_from_checkpoint;
  bool newest = is(path, "true") || is(path, "True");
  if (!newest && r->config->init_from) {
    return ddp_error(DDP_USAGE, "--init_from and --resume_from_checkpoint: the weights come from "
                                "one of them; leave the other out");
  }
  DDP_TRY(newest ? find_newest(r, resume) : find_named(path, resume));
  if (!resume->folder) return NULL;
  DDP_TRY(ddp_manifest_read(&resume->manifest, resume->folder));
  DDP_TRY(check_whole(resume));
  DDP_TRY(run_changes(r, &resume->manifest, resume->folder, &resume->told.accumulation));
  const DdpManifest *m = &resume->manifest;
  resume->told.found = 1;
  resume->told.place = m->place;
  resume->told.planned = m->planned;
  resume->told.global_batch = m->world * m->batch * m->accumulation;
  resume->told.updates_per_epoch = m->updates_per_epoch;
  return NULL;
}

/* Not asked to go on, and there would be something to go on from. */
static void say_there_is_one(const DdpRun *r) {
  char *folder = NULL, *skipped = NULL;
  ddp_error_free(ddp_checkpoint_newest(r->output, false, &folder, &skipped));
  if (folder)
    ddp_log(
        DDP_LOG_info,
        "starting from the beginning, and '%s' is there: `--resume_from_checkpoint true` goes on "
        "from it",
        folder);
  free(folder);
  free(skipped);
}

DdpError *run_resume_find(DdpRun *r) {
  const char *path = r->set->resume_from_checkpoint;
  bool asked = path && !is(path, "false") && !is(path, "False");
  if (!asked && r->rank == 0) say_there_is_one(r);
  if (!asked && r->world == 1) return NULL;
  RunResume *resume = calloc(1, sizeof *resume);
  if (!resume) return no_memory();
  r->resume = resume;
  DDP_TRY(run_agree(r, r->rank == 0 && asked ? find(r, resume) : NULL, "looking for a checkpoint"));
  if (r->world > 1)
    DDP_TRY(ddp_group_broadcast(r->group, &resume->told, (int64_t)sizeof resume->told, 0,
                                "the checkpoint"));
  if (!resume->told.found) run_resume_close(r);
  return NULL;
}

DdpError *run_resume_check(DdpRun *r) {
  if (!r->resume) return NULL;
  DdpError *error =
      r->rank == 0 ? run_changes_data(r, &r->resume->manifest, r->resume->folder) : NULL;
  return run_agree(r, error, "comparing the data with the checkpoint");
}

int64_t run_resume_accumulation(const DdpRun *r) {
  return r->resume ? r->resume->told.accumulation : r->set->gradient_accumulation_steps;
}

const char *run_resume_folder(const DdpRun *r) {
  return r->resume ? r->resume->folder : NULL;
}

void run_resume_close(DdpRun *r) {
  if (!r->resume) return;
  ddp_manifest_free(&r->resume->manifest);
  free(r->resume->folder);
  free(r->resume);
  r->resume = NULL;
}

/* ---------- loading ---------- */

static DdpError *load_model(DdpRun *r, const char *path) {
  DDP_TRY(run_check_fit(r->job, path));
  return run_load(r, path);
}

static DdpError *load_file(DdpRun *r, RunParts *parts) {
  const char *advice =
      "the checkpoint is of another job; `--init-from FILE.safetensors` starts a new "
      "run from its weights";
  char *path = ddp_file_join(r->resume->folder, run_parts_file(parts->of));
  if (!path) return no_memory();
  bool changed = parts->of == RUN_PARTS_scheduler && run_changes_allowed(r);
  bool begins = parts->of == RUN_PARTS_ema && run_changes_allowed(r) && access(path, F_OK) != 0;
  if (begins) { /* an average that was not asked for then: from here on */
    free(path);
    return NULL;
  }
  DdpError *error =
      parts->of == RUN_PARTS_model ? load_model(r, path) : run_parts_read(parts, path, changed);
  free(path);
  return error && error->klass == DDP_DATA ? with_advice(error, advice) : error;
}

static DdpError *load_and_send(DdpRun *r, RunPartsOf of) {
  RunParts parts;
  if (of == RUN_PARTS_scheduler) DDP_TRY(run_own_buffers_open(r)); /* behind the model's */
  DdpError *error = run_parts_open(&parts, r, of);
  if (!error && r->rank == 0) error = load_file(r, &parts);
  error = run_agree(r, error, "loading the checkpoint");
  if (!error && of == RUN_PARTS_scheduler)
    error = run_parts_broadcast(&parts, r, "counters of the checkpoint");
  run_parts_close(&parts);
  return error;
}

static DdpError *send_states(DdpRun *r) {
  int64_t average = r->ema ? r->param_count * (int64_t)sizeof(float) : 0;
  DDP_TRY(run_broadcast(r, r->ema, average, "the average of the weights"));
  for (int i = 0; i < DDP_MAX_STATES; i++) {
    int64_t bytes = r->state_count[i] * (int64_t)sizeof(float);
    DDP_TRY(run_broadcast(r, r->state[i], bytes, "optimizer state"));
  }
  return NULL;
}

/* ---------- where it goes on ---------- */

/* Updates that are left, the way data are counted: max_steps is a number of updates,
   num_train_epochs means passes over the data, however many updates they have become. */
static int64_t total_from_here(const DdpRun *r) {
  const DdpProgress *at = &r->progress;
  if (r->set->max_steps > 0) return r->counts.planned;
  int64_t left = r->counts.planned - at->epoch * r->counts.updates - at->window;
  return at->update + (left > 0 ? left : 0);
}

/* The checkpoint's counters are in place; its position in the epoch becomes one of this run. */
static DdpError *take_place(DdpRun *r) {
  const struct Told *then = &r->resume->told;
  DdpProgress *at = &r->progress;
  int64_t global = r->job->train_batch * r->counts.accumulation * r->world;
  bool same = then->global_batch == global && then->updates_per_epoch == r->counts.updates;
  if (r->set->ignore_data_skip == 1) {
    bool ended = then->place >= ddp_counts_place(&r->counts, r->counts.updates);
    at->window = ended ? r->counts.updates : 0;
  } else if (!same) {
    DDP_TRY(ddp_counts_windows(&r->counts, then->place, &at->window));
  }
  if (same && then->planned == r->counts.planned) return NULL;
  int64_t before = r->counts.total;
  r->counts.total = total_from_here(r);
  if (r->rank == 0) {
    ddp_log(
        DDP_LOG_warning,
        "resume: the run has %lld updates now, %lld before; the schedule goes on at update %lld "
        "of them, the data at update %lld of %lld of epoch %lld",
        (long long)r->counts.total, (long long)before, (long long)at->update + 1,
        (long long)at->window + 1, (long long)r->counts.updates, (long long)at->epoch + 1);
  }
  return NULL;
}

static DdpError *load_all(DdpRun *r) {
  for (int of = 0; of < RUN_PARTS_COUNT; of++) {
    if (run_parts_has(r, (RunPartsOf)of)) DDP_TRY(load_and_send(r, (RunPartsOf)of));
  }
  DDP_TRY(run_broadcast_model(r));
  return send_states(r);
}

DdpError *run_resume_load(DdpRun *r) {
  if (!r->resume) return NULL;
  DDP_TRY(run_agree(r, run_model_here(r, true), "taking memory for the checkpoint"));
  DDP_TRY(run_model_there(r, load_all(r)));
  DDP_TRY(run_own_buffers_take(r));
  DdpError *error = take_place(r);
  if (error) {
    r->quiet = r->rank != 0;
    return with_advice(error, "or begin the epoch anew: --ignore_data_skip");
  }
  if (r->rank == 0)
    ddp_log(DDP_LOG_info, "resumed from %s: update %lld of %lld, epoch %.4g", r->resume->folder,
            (long long)r->progress.update, (long long)r->counts.total, r->progress.fraction);
  return NULL;
}
