/* See scale.h. */
#include "scale.h"
#include "multiversion.h"
#include <float.h>
#include <math.h>
#include <stddef.h>

void ddp_scale_open(DdpScale *s, bool on) {
  *s = (DdpScale){.on = on, .scale = on ? DDP_SCALE_FIRST : 1.0};
}

DDP_MULTIVERSION void ddp_scale_undo(const DdpScale *s, float *g, int64_t n) {
  const float factor = (float)(1.0 / s->scale);
  for (int64_t i = 0; i < n; i++) g[i] *= factor;
}

DDP_MULTIVERSION bool ddp_scale_finite(const float *g, int64_t n) {
  int bad = 0;
  for (int64_t i = 0; i < n; i++) bad |= !(fabsf(g[i]) <= FLT_MAX);
  return !bad;
}

DdpError *ddp_scale_update(DdpScale *s, bool skipped, int64_t update) {
  if (!skipped) {
    s->in_a_row = 0;
    if (!s->on || ++s->good < DDP_SCALE_GROWTH_INTERVAL) return NULL;
    if (isfinite((float)(s->scale * 2))) s->scale *= 2;
    s->good = 0;
    return NULL;
  }
  s->good = 0;
  s->skipped++;
  s->in_a_row++;
  if (s->on) s->scale = s->scale / 2 < DDP_SCALE_FLOOR ? DDP_SCALE_FLOOR : s->scale / 2;
  if (s->in_a_row < DDP_SCALE_MOST_SKIPS) return NULL;
  if (!s->on) {
    return ddp_error(
        DDP_NUMERIC,
        "update %lld: the loss or the gradients were not finite for %lld updates in a row, "
        "all of them skipped (on_nan = skip). A smaller --learning_rate may help",
        (long long)update, (long long)s->in_a_row);
  }
  return ddp_error(
      DDP_NUMERIC,
      "update %lld: the gradients were not finite in float16 for %lld updates in a row, "
      "down to a loss scale of %g; nothing was saved from them. A smaller "
      "--learning_rate may help, or `bf16 = true`, which has the range of float32",
      (long long)update, (long long)s->in_a_row, s->scale);
}
