/* ema_decay: a running average of the trained weights. In: the weights after each step. Out: the average that
   evaluations, the best model and the weights at the end are taken from; training goes on with the weights
   themselves. The same arithmetic as torch's AveragedModel with get_ema_multi_avg_fn: the first update
   is copied, then lerp(average, weight, 1 - decay). */
#include "run.h"
#include <math.h>
#include <string.h>

static DdpError *copy_weights(DdpRun *r) {
  return r->device->copy(r->ema, r->params, (size_t)r->param_count * sizeof(float),
                         r->there.stream);
}

DdpError *run_ema_open(DdpRun *r) {
  void *p = NULL;
  if (isnan(r->set->ema_decay)) return NULL;
  DDP_TRY(r->device->alloc(DDP_MEMORY_state, (size_t)r->param_count * sizeof(float), &p));
  r->ema = p;
  return copy_weights(r);
}

static inline __attribute__((always_inline)) void lerp(float *average, const float *p, int64_t n,
                                                       float weight) {
  if (fabsf(weight) < 0.5f) {
    for (int64_t i = 0; i < n; i++) average[i] = fmaf(weight, p[i] - average[i], average[i]);
  } else {
    for (int64_t i = 0; i < n; i++) average[i] = fmaf(weight - 1.0f, p[i] - average[i], p[i]);
  }
}

/* The same bits: fmaf is fused everywhere, but a call where the processor has no instruction for it. */
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void lerp_fma(float *average, const float *p, int64_t n,
                                                         float weight) {
  lerp(average, p, n, weight);
}
#endif

static void lerp_any(float *average, const float *p, int64_t n, float weight) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
    lerp_fma(average, p, n, weight);
    return;
  }
#endif
  lerp(average, p, n, weight);
}

DdpError *run_ema_update(DdpRun *r) {
  if (!r->ema) return NULL;
  if (r->progress.averaged++ == 0) return copy_weights(r);
  if (r->device->apart)
    r->job->target->arena.average(r->ema, r->params, r->param_count, r->set->ema_decay,
                                  r->there.stream);
  else
    lerp_any(r->ema, r->params, r->param_count, (float)(1.0 - r->set->ema_decay));
  return r->device->failure();
}

void run_ema_swap(DdpRun *r) {
  if (!r->ema) return;
  float *weights = r->params;
  r->params = r->ema;
  r->ema = weights;
}
