/* The emitted functions. On CPUs a call; on a device what changes from step to step goes to its memory first,
   and a pass that it has enqueued before is replayed. */
#include "run.h"
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

DdpError *run_scalars(DdpRun *r, const DdpStep *step) {
  DdpScalars *s = r->batch->scalars;
  *s = (DdpScalars){.seed = step->seed,
                    .update = step->update,
                    .epoch = step->epoch,
                    .share = step->share,
                    .loss_scale = step->loss_scale};
  memcpy(s->counts, step->counts, (size_t)r->job->n_counts * sizeof *s->counts);
  return r->device->to_device((void *)(uintptr_t)step->scalars, s, sizeof *s, step->stream);
}

/* All that a pass takes from the step itself: arguments of its kernels, and where they read and write. */
static uint64_t key_of(const DdpRun *r, void (*pass)(DdpStep *), const DdpStep *step) {
  const struct Key {
    void (*pass)(DdpStep *);
    const void *params, *batch, *sums;
    int64_t n, accumulate;
  } key = {pass, step->params, r->batch, step->sums, step->batch, step->accumulate};
  return XXH3_64bits(&key, sizeof key);
}

DdpError *run_pass(DdpRun *r, void (*pass)(DdpStep *step), DdpStep *step) {
  const DdpDevice *d = r->device;
  if (!d->apart) {
    pass(step);
    return NULL;
  }
  DDP_TRY(run_scalars(r, step));
  pass = ddp_reducer_pass_of(step->reducer, pass);
  bool replays = d->replay && !step->trace && !step->results;
  if (replays) DDP_TRY(d->replay(key_of(r, pass, step), pass, step));
  if (!replays) pass(step);
  if (step->reducer) ddp_reducer_passed(step->reducer);
  return d->failure();
}
