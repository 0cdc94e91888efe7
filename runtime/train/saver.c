/* See saver.h. What the thread touches is the copy, the folder and nothing else of the run. */
#include "saver.h"
#include "clock.h"
#include "log.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct RunSaver {
  const DdpJob *job;
  const char *output;
  RunImage image;
  char *copy; /* of the arenas; kept, so that the next save takes no memory */
  int64_t copy_bytes;
  double copying;     /* seconds that the last one took */
  bool refused, busy; /* refused: there was no room for a copy */
  pthread_t thread;
  atomic_bool failed;
  DdpError *error; /* the thread's, until it has ended */
};

static DdpError *no_memory(void) {
  return ddp_error(DDP_MEMORY, "out of memory");
}

/* ---------- one folder ---------- */

static int64_t bytes_of(const RunImage *image) {
  int64_t bytes = 0;
  for (int i = 0; i < image->n_parts; i++) bytes += run_parts_room(&image->parts[i]);
  return bytes;
}

static DdpError *write_folder(RunSaver *s, const char *folder) {
  RunImage *image = &s->image;
  for (int i = 0; i < image->n_parts; i++) {
    DDP_TRY(run_parts_write(&image->parts[i], s->job, folder));
    DDP_TRY(ddp_manifest_add(&image->manifest, folder, run_parts_file(image->parts[i].of)));
  }
  DDP_TRY(run_state_write(image->state, folder));
  DDP_TRY(ddp_manifest_add(&image->manifest, folder, run_state_file));
  return ddp_manifest_write(&image->manifest, folder);
}

static DdpError *write_image(RunSaver *s) {
  int64_t update = s->image.manifest.update;
  char *partial = NULL;
  double begun = ddp_clock();
  DdpError *error = ddp_checkpoint_begin(&partial, s->output, update);
  if (!error) error = write_folder(s, partial);
  if (!error) error = ddp_checkpoint_publish(partial, s->output, update);
  if (error && partial) ddp_error_free(ddp_checkpoint_remove(partial)); /* the first one is told */
  free(partial);
  if (!error) error = ddp_checkpoint_rotate(s->output, &s->image.keep); /* only now */
  if (!error)
    ddp_log(DDP_LOG_debug, "checkpoint-%lld: %.1f MiB copied in %.3f s, written in %.3f s",
            (long long)update, (double)bytes_of(&s->image) / 1048576, s->copying,
            ddp_clock() - begun);
  return error;
}

static void *write_apart(void *saver) {
  RunSaver *s = saver;
  s->error = write_image(s);
  atomic_store(&s->failed, s->error != NULL);
  return NULL;
}

/* ---------- the copy ---------- */

/* Memory for the copy, once for all saves: they are of equal size. */
static bool copy_open(RunSaver *s, int64_t bytes) {
  if (s->copy && s->copy_bytes >= bytes) return true;
  if (s->refused) return false;
  free(s->copy);
  const int64_t reserve = 64 << 20, left = run_room_left();
  bool room = left - reserve > bytes;
  s->copy = room ? aligned_alloc(64, (size_t)(bytes ? bytes : 64)) : NULL;
  s->copy_bytes = s->copy ? bytes : 0;
  s->refused = s->copy == NULL;
  if (s->refused) {
    ddp_log(DDP_LOG_info,
            "no room for a copy of weights and optimizer state (%.1f MiB, %.1f are free): training "
            "waits while checkpoints are written",
            (double)bytes / 1048576, (double)left / 1048576);
  }
  return s->copy != NULL;
}

static DdpError *copy_take(RunSaver *s, const DdpRun *r) {
  char *at = s->copy;
  double begun = ddp_clock();
  for (int i = 0; i < s->image.n_parts; i++) DDP_TRY(run_parts_copy(&s->image.parts[i], r, &at));
  s->copying = ddp_clock() - begun;
  return NULL;
}

/* A copy, if one is wanted or the parts lie where no file is written from. */
static DdpError *copy_perhaps(RunSaver *s, const DdpRun *r, bool *copied) {
  int64_t bytes = bytes_of(&s->image);
  bool apart = false;
  for (int i = 0; i < s->image.n_parts; i++) apart = apart || run_parts_apart(&s->image.parts[i]);
  *copied = (apart || r->set->async_save == 1) && copy_open(s, bytes);
  if (*copied) return copy_take(s, r);
  if (!apart) return NULL;
  return ddp_error(DDP_MEMORY,
                   "no memory on this host for a copy of weights and optimizer state, which lie on "
                   "the device: %.1f MiB",
                   (double)bytes / 1048576);
}

/* ---------- for the run ---------- */

void run_image_close(RunImage *image) {
  for (int i = 0; i < image->n_parts; i++) run_parts_close(&image->parts[i]);
  image->n_parts = 0;
  free(image->state);
  image->state = NULL;
}

static DdpError *saver_open(DdpRun *r) {
  if (r->saver) return NULL;
  r->saver = calloc(1, sizeof *r->saver);
  if (!r->saver) return no_memory();
  r->saver->job = r->job;
  r->saver->output = r->output;
  return NULL;
}

DdpError *run_saver_start(DdpRun *r, const RunImage *image) {
  RunImage own = *image;
  DdpError *error = saver_open(r);
  if (!error) error = run_saver_wait(r);
  if (error) {
    run_image_close(&own);
    return error;
  }
  RunSaver *s = r->saver;
  s->image = own;
  s->image.manifest.settings = s->image.settings;
  bool copied;
  error = copy_perhaps(s, r, &copied);
  if (!error && copied && r->set->async_save == 1)
    s->busy = pthread_create(&s->thread, NULL, write_apart, s) == 0;
  if (s->busy) return NULL;
  if (!error) error = write_image(s);
  run_image_close(&s->image);
  return error;
}

DdpError *run_saver_wait(DdpRun *r) {
  RunSaver *s = r->saver;
  if (!s || !s->busy) return NULL;
  pthread_join(s->thread, NULL);
  s->busy = false;
  run_image_close(&s->image);
  DdpError *error = s->error;
  s->error = NULL;
  atomic_store(&s->failed, false);
  return error;
}

bool run_saver_failed(const DdpRun *r) {
  return r->saver && atomic_load(&r->saver->failed);
}

void run_saver_close(DdpRun *r) {
  if (!r->saver) return;
  ddp_error_free(run_saver_wait(r));
  free(r->saver->copy);
  free(r->saver);
  r->saver = NULL;
}
