/* In: "this gradient is complete", from the emitted backward. Out: all-reduced gradient ranges.
   Holds: buckets are started in their order, on every rank the same, whatever order gradients come
   in; nothing is sent on micro-batches that only accumulate; the first error is kept for finish. */
#include "reducer.h"
#include "buckets.h"
#include "handshake.h"
#include "reducer_state.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t layout_hash(const DdpReducer *r) {
  uint64_t h = 14695981039346656037u;
  for (int b = 0; b < r->n; b++) {
    const uint64_t words[] = {(uint64_t)r->info[b].first, (uint64_t)r->info[b].count,
                              (uint64_t)r->info[b].begin, (uint64_t)r->info[b].end};
    for (size_t i = 0; i < 4; i++) h = (h ^ words[i]) * 1099511628211u;
  }
  return h;
}

static DdpError *build(DdpReducer *r, double cap_mb) {
  const DdpJob *job = r->job;
  size_t tensors = (size_t)job->n_tensors + 1, ready = (size_t)job->n_ready + 1;
  r->info = calloc(ready, sizeof *r->info);
  r->bucket_of = malloc(tensors * sizeof *r->bucket_of);
  r->seen = calloc(tensors, sizeof *r->seen);
  if (!r->info || !r->bucket_of || !r->seen) return ddp_error(DDP_MEMORY, "no memory for buckets");
  r->n = ddp_buckets_cut(job, cap_mb, r->info);
  r->buckets = calloc((size_t)r->n + 1, sizeof *r->buckets);
  if (!r->buckets) return ddp_error(DDP_MEMORY, "no memory for buckets");
  for (int32_t t = 0; t < job->n_tensors; t++) r->bucket_of[t] = -1;
  for (int b = 0; b < r->n; b++) {
    snprintf(r->buckets[b].what, sizeof r->buckets[b].what, "bucket %d", b);
    for (int32_t i = 0; i < r->info[b].count; i++)
      r->bucket_of[job->ready[r->info[b].first + i]] = b;
  }
  return ddp_handshake(r->group, "layout of gradient buckets", layout_hash(r));
}

DdpError *ddp_reducer_open(DdpReducer **out, const DdpJob *job, DdpGroup *group, float *grads,
                           const DdpReducerOptions *options) {
  *out = NULL;
  DdpReducer *r = calloc(1, sizeof *r);
  if (!r) return ddp_error(DDP_MEMORY, "no memory for the reducer");
  r->job = job;
  r->group = group;
  r->grads = grads;
  r->wire = options->wire;
  r->tells = -1;
  DdpError *e = build(r, options->bucket_cap_mb);
  if (!e) e = ddp_reducer_device_open(r);
  if (e)
    ddp_reducer_close(r);
  else
    *out = r;
  return e;
}

int ddp_reducer_buckets(const DdpReducer *r, const DdpBucketInfo **out) {
  *out = r->info;
  return r->n;
}

const float *ddp_reducer_tell_loss(DdpReducer *r, bool on) {
  int b = 0;
  while (on && b < r->n && r->info[b].first + r->info[b].count <= r->job->loss_after) b++;
  r->tells = on && b < r->n ? b : -1;
  return r->tells < 0 ? NULL : r->grads + r->info[b].begin;
}

void ddp_reducer_begin(DdpReducer *r, bool synchronise, int64_t update) {
  ddp_group_at(r->group, update, "backward");
  r->active = synchronise && (ddp_group_world(r->group) > 1 || r->device.on);
  r->device.by_hand = false;
  if (!r->active) return;
  if (r->device.on) /* all that was enqueued before has been waited for */
    memset(r->device.told, 0, (size_t)(r->n + 1) * sizeof *r->device.told);
  r->turn++;
  r->started = 0;
  for (int b = 0; b < r->n; b++) r->buckets[b].pending = r->info[b].count;
}

static void start_complete(DdpReducer *r, const DdpStep *step) {
  while (r->started < r->n && r->buckets[r->started].pending == 0 && !r->error) {
    Bucket *b = &r->buckets[r->started];
    const DdpBucketInfo *i = &r->info[r->started];
    if (r->device.on) {
      r->error = ddp_reducer_device_bucket(r, r->started++, step);
      continue;
    }
    if (r->started == r->tells && !isfinite(step->sums[0])) r->grads[i->begin] = NAN;
    r->error = ddp_group_all_reduce_start(r->group, r->grads + i->begin, i->end - i->begin, r->wire,
                                          b->what, &b->work);
    r->started++;
  }
}

void ddp_grad_ready(DdpStep *step, int32_t tensor) {
  DdpReducer *r = step->reducer;
  if (!r || !r->active || r->error) return;
  int32_t bucket = r->bucket_of[tensor];
  if (bucket < 0) return;
  if (r->seen[tensor] == r->turn) {
    r->error = ddp_error(DDP_FAILED, "gradient of %s became ready twice (internal fault)",
                         r->job->tensors[tensor].name);
    return;
  }
  r->seen[tensor] = r->turn;
  if (--r->buckets[bucket].pending == 0)
    start_complete(r, step);
  else if (r->started > 0 && !r->device.on)
    r->error = ddp_group_progress(r->group);
}

static DdpError *all_sum(DdpReducer *r, float *out, const float *in, int64_t n) {
  if (n > r->sums_n) {
    free(r->sums);
    r->sums = malloc((size_t)n * sizeof *r->sums);
    r->sums_n = r->sums ? n : 0;
  }
  if (!r->sums) return ddp_error(DDP_MEMORY, "no memory for a sum over ranks");
  for (int64_t i = 0; i < n; i++) r->sums[i] = (double)in[i];
  DDP_TRY(ddp_group_sum(r->group, r->sums, (int)n, "a sum over ranks in the model"));
  for (int64_t i = 0; i < n; i++) out[i] = (float)r->sums[i];
  return NULL;
}

bool ddp_reducer_sums(const DdpReducer *r) {
  return r->sums_n > 0;
}

void ddp_all_sum(DdpStep *step, float *out, const float *in, int64_t n) {
  DdpReducer *r = step->reducer;
  if (r && r->device.on) {
    if (n > r->sums_n) r->sums_n = n;
    if (!r->error) r->error = ddp_reducer_device_sum(r, out, in, n);
    return;
  }
  if (out != in) memcpy(out, in, (size_t)n * sizeof *out);
  if (r && !r->error) r->error = all_sum(r, out, in, n);
}

static DdpError *unready(const DdpReducer *r) {
  for (int32_t i = 0; i < r->job->n_ready; i++) {
    int32_t t = r->job->ready[i];
    if (r->seen[t] != r->turn)
      return ddp_error(DDP_FAILED, "gradient of %s did not become ready (internal fault)",
                       r->job->tensors[t].name);
  }
  return ddp_error(DDP_FAILED, "a gradient bucket was not started (internal fault)");
}

DdpError *ddp_reducer_finish(DdpReducer *r, DdpBucketDone *done, void *self,
                             double *exposed_seconds) {
  DdpError *e = r->error;
  r->error = NULL;
  if (!r->active) return e;
  r->active = false;
  if (!e && r->started < r->n) e = unready(r);
  if (r->device.on) return e; /* ddp_reducer_arrive waits */
  for (int b = 0; b < r->started; b++) {
    double before = ddp_group_spent(r->group);
    if (!e) e = ddp_group_wait(r->group, r->buckets[b].work);
    r->buckets[b].work = NULL; /* after an error the group takes back what is left */
    if (exposed_seconds) *exposed_seconds += ddp_group_spent(r->group) - before;
    if (!e && done) e = done(self, &r->info[b]);
  }
  return e;
}

void ddp_reducer_close(DdpReducer *r) {
  if (!r) return;
  ddp_error_free(r->error);
  ddp_reducer_device_close(r);
  free(r->info);
  free(r->buckets);
  free(r->bucket_of);
  free(r->seen);
  free(r->sums);
  free(r);
}
