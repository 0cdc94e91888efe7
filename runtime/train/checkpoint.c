/* Checkpoints. In: a run between two updates. Out: model.safetensors, or all that the rest of
   the run depends on, handed to the saver. Rank 0 writes. */
#include "changes.h"
#include "file.h"
#include "log.h"
#include "parts.h"
#include "saver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static DdpError *save_here(DdpRun *r, const char *folder) {
  RunParts parts;
  DDP_TRY(ddp_file_make_folder(folder));
  DdpError *error = run_parts_open(&parts, r, RUN_PARTS_model);
  if (!error) error = run_parts_fetch(&parts, r);
  if (!error) error = run_parts_write(&parts, r->job, folder);
  run_parts_close(&parts);
  if (!error) ddp_log(DDP_LOG_debug, "saved %s/%s", folder, run_parts_file(RUN_PARTS_model));
  if (error) rmdir(folder); /* if nothing else is in it */
  return error;
}

/* What is saved are rank 0's buffers, and they are the same on all ranks unless those keep their
   own. */
static DdpError *save_begin(DdpRun *r) {
  ddp_group_at(r->group, r->progress.update, "saving");
  if (run_own_buffers(r))
    return run_agree(r, r->rank == 0 ? run_check_buffers(r) : NULL, "looking at buffers");
  DDP_TRY(run_broadcast_buffers(r));
  return run_check_buffers(r);
}

/* With buffers of their own the ranks save rank 0's all the same. Returns this rank's, to be put
   back. */
static char *buffers_of_first(DdpRun *r) {
  char *mine = r->buffers;
  if (r->rank != 0 && run_own_buffers(r)) r->buffers = r->own_buffers;
  return mine;
}

DdpError *run_save(DdpRun *r, const char *folder) {
  DDP_TRY(save_begin(r));
  if (run_copies(r) && run_own_buffers(r)) DDP_TRY(run_own_buffers_gather(r));
  DdpError *error = NULL;
  if (r->writes) {
    char *mine = buffers_of_first(r);
    error = save_here(r, folder);
    r->buffers = mine;
  }
  return run_agree(r, error, "saving weights");
}

/* ---------- complete checkpoints ---------- */

static void describe(const DdpRun *r, RunImage *image) {
  DdpManifest *m = &image->manifest;
  *m = (DdpManifest){.format = DDP_CHECKPOINT_FORMAT,
                     .update = r->progress.update,
                     .total = r->counts.total,
                     .planned = r->counts.planned,
                     .epoch = r->progress.epoch,
                     .place = ddp_counts_place(&r->counts, r->progress.window),
                     .world = r->world,
                     .batch = r->job->train_batch,
                     .accumulation = r->counts.accumulation,
                     .accumulation_set = r->set->gradient_accumulation_steps,
                     .samples = r->sampler.shards.samples,
                     .updates_per_epoch = r->counts.updates,
                     .complete_state = r->set->save_only_model != 1,
                     .spec_hash = r->job->spec_hash,
                     .plan_hash = r->job->plan_hash,
                     .data_hash = r->data_hash,
                     .job = r->job->name,
                     .compiler = r->job->compiler};
  for (int i = 0; i < DDP_KEY_COUNT; i++) {
    if (!run_changes_matter(r, (DdpKey)i)) continue;
    image->settings[m->n_settings++] =
        (DdpManifestSetting){ddp_setting_rows[i].name, r->config->value[i]};
  }
}

static DdpError *image_open(DdpRun *r, RunImage *image) {
  describe(r, image);
  for (int of = 0; of < RUN_PARTS_COUNT; of++) {
    bool asked = image->manifest.complete_state || run_parts_weights((RunPartsOf)of);
    if (!asked || !run_parts_has(r, (RunPartsOf)of)) continue;
    DDP_TRY(run_parts_open(&image->parts[image->n_parts++], r, (RunPartsOf)of));
  }
  return NULL;
}

/* What rank 0 alone knows. */
static DdpError *image_tell(DdpRun *r, RunImage *image) {
  DDP_TRY(run_saver_wait(r)); /* which one is the best is seen from those that are written */
  DDP_TRY(run_best_note(r));
  image->keep = run_state_keep(r, r->progress.update);
  return run_state_text(r, &image->state);
}

static DdpError *checkpoint_here(DdpRun *r, RunImage *image) {
  char *mine = buffers_of_first(r);
  DdpError *error = image_open(r, image);
  r->buffers = mine;
  if (!error) return run_saver_start(r, image);
  run_image_close(image);
  return error;
}

DdpError *run_checkpoint(DdpRun *r) {
  DDP_TRY(save_begin(r));
  if (run_own_buffers(r)) DDP_TRY(run_own_buffers_gather(r));
  RunImage image = {.n_parts = 0};
  DdpError *error = r->rank == 0 ? image_tell(r, &image) : NULL;
  if (run_copies(r)) {
    DDP_TRY(run_agree(r, error, "saving a checkpoint"));
    error = run_nodes_state(r, &image.state, &image.keep);
  }
  if (r->writes && !error)
    error = checkpoint_here(r, &image);
  else
    run_image_close(&image);
  return run_agree(r, error, "saving a checkpoint");
}

DdpError *run_checkpoint_wait(DdpRun *r) {
  ddp_group_at(r->group, r->progress.update, "saving");
  return run_agree(r, r->writes ? run_saver_wait(r) : NULL, "saving a checkpoint");
}
