/* Loss scaling for float16, as torch.amp.GradScaler: gradients are computed times a power of two, so that
   small ones do not vanish. An update whose gradients are not finite is skipped and halves the scale;
   2000 good ones double it. The same values on every rank, since all see the same flags. Updates that
   on_nan = skip leaves out are counted here too, with a scale that stays 1. */
#ifndef DDP_TRAIN_SCALE_H
#define DDP_TRAIN_SCALE_H
#include "ddp/status.h"
#include <stdbool.h>
#include <stdint.h>

/* DDP_SCALE_FLOOR: it never falls below. DDP_SCALE_MOST_SKIPS in a row end the run: enough to come from
   2^24 down to the floor. */
#define DDP_SCALE_FIRST 65536.0
#define DDP_SCALE_FLOOR 1.0
enum { DDP_SCALE_GROWTH_INTERVAL = 2000, DDP_SCALE_MOST_SKIPS = 24 };

/* What a checkpoint needs to go on. Off: scale 1, never changed; skipped updates are counted. */
typedef struct DdpScale {
  bool on;
  double scale;
  int64_t good;    /* updates since the last change */
  int64_t skipped; /* in the whole run */
  int64_t in_a_row;
} DdpScale;

void ddp_scale_open(DdpScale *s, bool on);
/* Divides n gradients by the scale. */
void ddp_scale_undo(const DdpScale *s, float *g, int64_t n);
bool ddp_scale_finite(const float *g, int64_t n);
/* After an update: `skipped` because its loss or gradients were not finite. An error when there were too
   many in a row. */
DdpError *ddp_scale_update(DdpScale *s, bool skipped, int64_t update);

#endif
