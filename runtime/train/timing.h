/* Where the time of updates goes: exact sums per part, minimum and median of whole updates in fixed
   memory. Evaluation and saving are no part of an update. */
#ifndef DDP_TRAIN_TIMING_H
#define DDP_TRAIN_TIMING_H
#include "trace.h"
#include <stdbool.h>
#include <stdint.h>

typedef enum DdpPart {
#define DDP_PARTS(X) X(data) X(forward_backward) X(communication) X(norm) X(optimizer) X(log)
#define X(name)      DDP_PART_##name,
  DDP_PARTS(X)
#undef X
      DDP_PARTS_COUNT
} DdpPart;

enum { DDP_TIMING_STEPS = 128, DDP_TIMING_BINS = 40 * DDP_TIMING_STEPS }; /* per factor of two */

typedef struct DdpTiming {
  double part[DDP_PARTS_COUNT]; /* seconds, of all updates */
  double begun, mark, whole;
  int64_t updates;
  /* updates with a full batch: fastest one, and all by the logarithm of their time */
  double least;
  int64_t full, bins[DDP_TIMING_BINS];
  double exposed; /* seconds of the updates that were collectives: sums made here, and waits */
  int64_t exposed_n;
  DdpTrace *trace; /* gets every part; NULL: none */
} DdpTiming;

void ddp_timing_begin(DdpTiming *t); /* an update begins */
/* What was done since the last call is this part's. */
void ddp_timing_lap(DdpTiming *t, DdpPart part);
/* A lap, and the update is over. full: it had as many samples as an update can have. */
void ddp_timing_end(DdpTiming *t, DdpPart part, bool full);
/* Of one update. */
void ddp_timing_exposed(DdpTiming *t, double seconds);
/* Seconds, within 0.3 %; 0 before the first full update. */
double ddp_timing_median(const DdpTiming *t);
const char *ddp_timing_part_name(DdpPart part);
#endif
