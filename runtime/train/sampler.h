/* Which samples a rank reads, in which order: PyTorch's DistributedSampler, bit for bit. */
#ifndef DDP_TRAIN_SAMPLER_H
#define DDP_TRAIN_SAMPLER_H
#include "ddp/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct DdpSampler {
  int64_t samples; /* of the split */
  int world, rank;
  bool shuffle, drop_last;
  uint64_t seed;
  int64_t count;  /* of this rank in an epoch: the same on every rank */
  int64_t *index; /* [count], of the current epoch */
  int64_t *order; /* [samples], scratch */
} DdpSampler;

/* Samples of one rank in an epoch: ceil(samples / world), or floor with drop_last. */
int64_t ddp_sampler_count(int64_t samples, int world, bool drop_last);
DdpError *ddp_sampler_open(DdpSampler *s, int64_t samples, int world, int rank, bool shuffle,
                           bool drop_last, uint64_t seed);
/* Fills index: generator seeded with seed + epoch; the tail is padded from the head of the order. */
void ddp_sampler_epoch(DdpSampler *s, int64_t epoch);
void ddp_sampler_close(DdpSampler *s);
#endif
