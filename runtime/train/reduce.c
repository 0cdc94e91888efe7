/* How the gradients of an update travel between ranks, and what happens as they arrive. In: settings, a
   backward pass that is over. Out: sums of all ranks in the gradient arena; where nothing needs all of
   them first, a step of the optimizer for each bucket as soon as it is there. Holds: the same bits as steps
   after all sums. Steps wait for the end of backward, which reads the weights and the memory of
   activations; what has arrived by then fills the time in which the last buckets travel. Devices do it by themselves
   (there.c). */
#include "run.h"
#include <string.h>

static DdpDType type_of(const char *word) {
  return strncmp(word, "bf", 2) == 0            ? DDP_bf16
         : word[0] == 'f' && strstr(word, "16") ? DDP_f16
                                                : DDP_f32;
}

/* comm_hook and allreduce_dtype are two names of one thing; the hook wins over float32, the default. */
static DdpError *wire_of(DdpRun *r, DdpDType *out) {
  const char *hook = r->set->comm_hook, *type = r->set->allreduce_dtype;
  *out = type_of(type);
  if (!hook) return NULL;
  if (*out == DDP_f32) *out = type_of(hook);
  if (*out == type_of(hook)) return NULL;
  r->quiet = r->rank != 0;
  return ddp_error(DDP_USAGE,
                   "comm_hook = %s and allreduce_dtype = %s name two types for gradients on the "
                   "wire; keep one of the two",
                   hook, type);
}

DdpError *run_reducer_open(DdpRun *r) {
  DdpReducerOptions options = {.bucket_cap_mb = 0};
  DDP_TRY(wire_of(r, &options.wire));
  /* nothing travels, nothing is rounded */
  if (r->world == 1 && !ddp_group_on_device(r->group)) return NULL;
  if (r->set->ddp_bucket_cap_mb != DDP_NONE_INT)
    options.bucket_cap_mb = (double)r->set->ddp_bucket_cap_mb;
  DDP_TRY(ddp_reducer_open(&r->reducer, r->job, r->group, r->grads, &options));
  r->steps_early = !run_steps_late(r);
  if (r->device->apart) return run_there_buckets(r);
  /* Of a loss that is not finite everybody learns before the first step: the weights stay as they were
     and show which row of the data it comes from. */
  (void)ddp_reducer_tell_loss(r->reducer, r->steps_early && strcmp(r->set->on_nan, "stop") == 0);
  return NULL;
}

/* ---------- when the optimizer steps ---------- */

const char *run_steps_late(const DdpRun *r) {
  if (r->world == 1) return "one rank";
  if (r->device->apart && !ddp_group_on_device(r->group)) return "a device";
  if (r->set->max_grad_norm > 0) return "max_grad_norm";
  if (r->scale.on) return "the loss scale of fp16";
  if (strcmp(r->set->on_nan, "skip") == 0) return "on_nan = skip";
  if (run_debugs(r, "underflow_overflow")) return "debug = underflow_overflow";
  /* Whoever has a bad loss must say so with the first bucket. */
  if (strcmp(r->set->on_nan, "stop") != 0) return NULL;
  const DdpBucketInfo *info;
  bool told = ddp_reducer_buckets(r->reducer, &info) > 0 && info[0].count > r->job->loss_after;
  return told ? NULL : "on_nan = stop";
}

/* A gradient that is not finite must end the run before it reaches the weights: from that tensor on nothing
   is stepped, on every rank, since all have the same sums. */
static bool hold(DdpRun *r, int32_t tensor) {
  const DdpTensor *t = &r->job->tensors[tensor];
  if (strcmp(r->set->on_nan, "stop") == 0 && r->bad_tensor < 0 &&
      !ddp_scale_finite(r->grads + t->offset, t->elements))
    r->bad_tensor = tensor;
  return r->bad_tensor >= 0;
}

static DdpError *step_bucket(void *self, const DdpBucketInfo *bucket) {
  DdpRun *r = self;
  ddp_timing_lap(&r->timing, DDP_PART_communication);
  for (int32_t k = bucket->first; k < bucket->first + bucket->count; k++) {
    if (hold(r, r->job->ready[k])) break;
    run_step_tensor(r, r->job->ready[k], r->factor);
    DDP_TRY(ddp_group_progress(r->group)); /* others may wait for this rank's part of a later one */
  }
  ddp_timing_lap(&r->timing, DDP_PART_optimizer);
  return NULL;
}

DdpError *run_reduce(DdpRun *r) {
  r->bad_tensor = -1;
  if (!r->reducer) return NULL;
  ddp_group_at(r->group, r->progress.update, "all-reduce of gradients");
  r->factor = run_rate_factor(r, r->progress.update - r->scale.skipped);
  DdpError *error =
      ddp_reducer_finish(r->reducer, r->steps_early ? step_bucket : NULL, r, &r->exposed);
  ddp_timing_lap(&r->timing, DDP_PART_communication);
  return error;
}
