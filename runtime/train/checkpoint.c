/* Checkpoints. In: a run between two updates. Out: model.safetensors, or a folder with everything that the rest
   of the run depends on, its manifest last, under its name only when it is whole. Rank 0 writes while the
   others wait. */
#include "changes.h"
#include "file.h"
#include "log.h"
#include "manifest.h"
#include "parts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static DdpError *write_parts(DdpRun *r, RunPartsOf of, const char *folder) {
  RunParts parts;
  char *path = ddp_file_join(folder, run_parts_file(of));
  DdpError *error = run_parts_open(&parts, r, of);
  if (!error && !path) error = ddp_error(DDP_MEMORY, "out of memory");
  if (!error) error = run_parts_write(&parts, r->job, path);
  if (!error) ddp_log(DDP_LOG_debug, "saved %s", path);
  run_parts_close(&parts);
  free(path);
  return error;
}

static DdpError *save_here(DdpRun *r, const char *folder) {
  DDP_TRY(ddp_file_make_folder(folder));
  DdpError *error = write_parts(r, RUN_PARTS_model, folder);
  if (error) rmdir(folder); /* if nothing else is in it */
  return error;
}

/* What is saved is the same on all ranks. */
static DdpError *save_begin(DdpRun *r) {
  ddp_group_at(r->group, r->progress.update, "saving");
  DDP_TRY(run_broadcast_buffers(r));
  return run_check_buffers(r);
}

DdpError *run_save(DdpRun *r, const char *folder) {
  DDP_TRY(save_begin(r));
  DdpError *error = r->rank == 0 ? save_here(r, folder) : NULL;
  return run_agree(r, error, "saving weights");
}

/* ---------- complete checkpoints ---------- */

static void describe(DdpManifest *m, const DdpRun *r, DdpManifestSetting *settings) {
  *m = (DdpManifest){.format = DDP_CHECKPOINT_FORMAT,
                     .update = r->progress.update,
                     .total = r->counts.total,
                     .epoch = r->progress.epoch,
                     .window = r->progress.window,
                     .world = r->world,
                     .batch = r->job->train_batch,
                     .accumulation = r->counts.accumulation,
                     .samples = r->sampler.shards.samples,
                     .updates_per_epoch = r->counts.updates,
                     .complete_state = r->set->save_only_model != 1,
                     .spec_hash = r->job->spec_hash,
                     .plan_hash = r->job->plan_hash,
                     .data_hash = r->data_hash,
                     .job = r->job->name,
                     .compiler = r->job->compiler,
                     .settings = settings};
  for (int i = 0; i < DDP_KEY_COUNT; i++) {
    if (!run_changes_matter(r, (DdpKey)i)) continue;
    settings[m->n_settings++] = (DdpManifestSetting){ddp_setting_rows[i].name, r->config->value[i]};
  }
}

static DdpError *write_folder(DdpRun *r, const char *folder) {
  DdpManifestSetting settings[DDP_KEY_COUNT];
  DdpManifest m;
  describe(&m, r, settings);
  for (int of = 0; of < RUN_PARTS_COUNT; of++) {
    if (of != RUN_PARTS_model && !m.complete_state) continue;
    DDP_TRY(write_parts(r, (RunPartsOf)of, folder));
    DDP_TRY(ddp_manifest_add(&m, folder, run_parts_file((RunPartsOf)of)));
  }
  return ddp_manifest_write(&m, folder);
}

static DdpError *checkpoint_here(DdpRun *r) {
  char *partial = NULL;
  DdpError *error = ddp_checkpoint_begin(&partial, r->output, r->progress.update);
  if (!error) error = write_folder(r, partial);
  if (!error) error = ddp_checkpoint_publish(partial, r->output, r->progress.update);
  if (error && partial) ddp_error_free(ddp_checkpoint_remove(partial)); /* the first one is told */
  free(partial);
  return error;
}

DdpError *run_checkpoint(DdpRun *r) {
  r->progress.saved_at = r->progress.update;
  DDP_TRY(save_begin(r));
  DdpError *error = r->rank == 0 ? checkpoint_here(r) : NULL;
  return run_agree(r, error, "saving a checkpoint");
}
