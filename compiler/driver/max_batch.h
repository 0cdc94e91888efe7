/* The largest batch that fits. */
#ifndef DRIVER_MAX_BATCH_H
#define DRIVER_MAX_BATCH_H
#include "command.h"

typedef struct MaxBatch {
  int64_t memory;     /* of one rank */
  int64_t batch;      /* 0: not even one sample fits; -1: errors were printed */
  int64_t bytes;      /* of a rank at this batch; with batch = 0 at 1 */
  int64_t next_bytes; /* with one sample more */
} MaxBatch;

MaxBatch max_batch_find(const Run *r, const char *path, int64_t memory);
/* Of this machine, or its control group. */
int64_t machine_memory(void);
#endif
