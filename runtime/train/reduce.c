/* How the gradients of an update travel between ranks. In: settings. Out: the reducer, or what in them
   contradicts itself. */
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
  if (r->world == 1) return NULL; /* nothing travels, nothing is rounded */
  if (r->set->ddp_bucket_cap_mb != DDP_NONE_INT)
    options.bucket_cap_mb = (double)r->set->ddp_bucket_cap_mb;
  return ddp_reducer_open(&r->reducer, r->job, r->group, r->grads, &options);
}
