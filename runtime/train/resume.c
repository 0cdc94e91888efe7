/* Going on from a checkpoint. In: resume_from_checkpoint, a folder. Out: a run that stands where the one stood
   that wrote it, on every rank; or what is wrong with the folder, what differs between the runs, and what can be
   done. Rank 0 alone reads. */
#include "changes.h"
#include "file.h"
#include "log.h"
#include "manifest.h"
#include "parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct RunResume {
  char *folder;         /* rank 0, like the manifest */
  DdpManifest manifest; /* of the folder */
  int64_t accumulation;
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

static DdpError *find_named(const char *path, RunResume *resume) {
  DdpError *error = ddp_checkpoint_verify(path, true, NULL);
  if (error && error->klass == DDP_DATA) {
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
  return run_changes(r, &resume->manifest, resume->folder, &resume->accumulation);
}

DdpError *run_resume_find(DdpRun *r) {
  const char *path = r->set->resume_from_checkpoint;
  if (!path || is(path, "false") || is(path, "False")) return NULL;
  RunResume *resume = calloc(1, sizeof *resume);
  if (!resume) return no_memory();
  r->resume = resume;
  DDP_TRY(run_agree(r, r->rank == 0 ? find(r, resume) : NULL, "looking for a checkpoint"));
  int64_t told[2] = {resume->folder != NULL, resume->accumulation};
  if (r->world > 1)
    DDP_TRY(ddp_group_broadcast(r->group, told, (int64_t)sizeof told, 0, "the checkpoint"));
  resume->accumulation = told[1];
  if (!told[0]) run_resume_close(r);
  return NULL;
}

DdpError *run_resume_check(DdpRun *r) {
  if (!r->resume) return NULL;
  DdpError *error =
      r->rank == 0 ? run_changes_data(r, &r->resume->manifest, r->resume->folder) : NULL;
  return run_agree(r, error, "comparing the data with the checkpoint");
}

int64_t run_resume_accumulation(const DdpRun *r) {
  return r->resume ? r->resume->accumulation : r->set->gradient_accumulation_steps;
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
  DdpError *error =
      parts->of == RUN_PARTS_model ? load_model(r, path) : run_parts_read(parts, path, changed);
  free(path);
  return error && error->klass == DDP_DATA ? with_advice(error, advice) : error;
}

static DdpError *load_and_send(DdpRun *r, RunPartsOf of) {
  RunParts parts;
  DdpError *error = run_parts_open(&parts, r, of);
  if (!error && r->rank == 0) error = load_file(r, &parts);
  error = run_agree(r, error, "loading the checkpoint");
  if (!error && of == RUN_PARTS_scheduler)
    error = run_parts_broadcast(&parts, r, "counters of the checkpoint");
  run_parts_close(&parts);
  return error;
}

static DdpError *send_states(DdpRun *r) {
  for (int i = 0; i < DDP_MAX_STATES && r->world > 1; i++) {
    int64_t bytes = r->state_count[i] * (int64_t)sizeof(float);
    if (bytes) DDP_TRY(ddp_group_broadcast(r->group, r->state[i], bytes, 0, "optimizer state"));
  }
  return NULL;
}

DdpError *run_resume_load(DdpRun *r) {
  if (!r->resume) return NULL;
  for (int of = 0; of < RUN_PARTS_COUNT; of++) DDP_TRY(load_and_send(r, (RunPartsOf)of));
  DDP_TRY(run_broadcast_model(r));
  DDP_TRY(send_states(r));
  if (r->rank == 0)
    ddp_log(DDP_LOG_info, "resumed from %s: update %lld of %lld, epoch %.4g", r->resume->folder,
            (long long)r->progress.update, (long long)r->counts.total, r->progress.fraction);
  return NULL;
}
