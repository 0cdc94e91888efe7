/* How many micro-batches, updates and epochs a run has: the one place where that is decided. Loop,
   schedule, warm-up, intervals and the remaining time all read it. */
#ifndef DDP_TRAIN_COUNTS_H
#define DDP_TRAIN_COUNTS_H
#include "sampler.h"

typedef struct DdpCountsInput {
  DdpShards shards; /* of the training split */
  int64_t accumulation;
  double epochs;
  int64_t max_steps;     /* > 0: overrides epochs */
  double warmup;         /* >= 1: updates; below: fraction of all */
  const char *single_at; /* what divides by zero in a micro-batch of one sample; NULL: nothing */
} DdpCountsInput;

typedef struct DdpCounts {
  DdpShards shards;
  int64_t per_rank;      /* samples of a rank in an epoch, padding included */
  int64_t micro_batches; /* of a rank in an epoch; the last may be short */
  int64_t accumulation;
  int64_t updates; /* in an epoch; the last window may be short */
  int64_t total;   /* updates of the run */
  int64_t planned; /* as settings and data say; total differs once a resume has changed the batch */
  int64_t epochs;  /* begun */
  int64_t warmup;  /* updates */
} DdpCounts;

/* Errors: nothing to train on, warm-up longer than the run. */
DdpError *ddp_counts_make(DdpCounts *out, const DdpCountsInput *in);
/* Interval given as updates or as a fraction of all of them. At least 1. */
int64_t ddp_counts_interval(double value, int64_t total);
/* Micro-batches of window w of an epoch; samples of micro-batch m. */
int64_t ddp_counts_window(const DdpCounts *c, int64_t window);
int64_t ddp_counts_batch(const DdpCounts *c, int64_t micro_batch);
/* Where a run stands in an epoch that has finished `windows` windows: places of the epoch's order that
   all ranks together have taken (sampler.h). Those of the last window count as far as they exist. */
int64_t ddp_counts_place(const DdpCounts *c, int64_t windows);
/* The other way round, for a run that goes on from another one with, perhaps, other ranks, batches or
   accumulation: the windows of this run that end at that place; all of them for the end of the epoch.
   Error: no window ends there, so that samples would be read twice or not at all. */
DdpError *ddp_counts_windows(const DdpCounts *c, int64_t place, int64_t *windows);
#endif
