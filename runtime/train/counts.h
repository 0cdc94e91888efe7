/* How many micro-batches, updates and epochs a run has: the one place where that is decided. Loop,
   schedule, warm-up, intervals and the remaining time all read it. */
#ifndef DDP_TRAIN_COUNTS_H
#define DDP_TRAIN_COUNTS_H
#include "ddp/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct DdpCountsInput {
  int64_t samples; /* of the training split */
  int world;
  int64_t batch, accumulation;
  bool drop_last;
  double epochs;
  int64_t max_steps;     /* > 0: overrides epochs */
  double warmup;         /* >= 1: updates; below: fraction of all */
  const char *single_at; /* what divides by zero in a micro-batch of one sample; NULL: nothing */
} DdpCountsInput;

typedef struct DdpCounts {
  int64_t per_rank;      /* samples of a rank in an epoch, padding included */
  int64_t micro_batches; /* of a rank in an epoch; the last may be short */
  int64_t accumulation;
  int64_t updates; /* in an epoch; the last window may be short */
  int64_t total;   /* updates of the run */
  int64_t epochs;  /* begun */
  int64_t warmup;  /* updates */
} DdpCounts;

/* Errors: nothing to train on, warm-up longer than the run. */
DdpError *ddp_counts_make(DdpCounts *out, const DdpCountsInput *in);
/* Interval given as updates or as a fraction of all of them. At least 1. */
int64_t ddp_counts_interval(double value, int64_t total);
/* Micro-batches of window w of an epoch; samples of micro-batch m. */
int64_t ddp_counts_window(const DdpCounts *c, int64_t window);
int64_t ddp_counts_batch(const DdpCounts *c, int64_t batch, int64_t micro_batch);
#endif
