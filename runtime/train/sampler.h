/* Which samples a rank reads, in which order. An epoch has one order of all samples, and the ranks share
   its places 0, 1, 2 ... among them: one by one, as PyTorch's DistributedSampler, or in whole batches, as
   Accelerate's BatchSamplerShard; both bit for bit.

   Either way the first m micro-batches of all ranks together take the first m * batch * world places, so
   where a run stands in an epoch is a number of places (ddp_counts_place), whatever the number of ranks
   and the sharding. Only which rank reads a place differs, and how the end of the epoch is filled up. */
#ifndef DDP_TRAIN_SAMPLER_H
#define DDP_TRAIN_SAMPLER_H
#include "ddp/status.h"
#include <stdbool.h>
#include <stdint.h>

/* How samples are shared. */
typedef struct DdpShards {
  int64_t samples; /* of the split */
  int world;
  int64_t batch;  /* of one rank */
  bool drop_last; /* the end is left out; else it is filled up from the head of the order */
  bool batches;   /* whole batches in turn (sharding = accelerate), instead of samples */
} DdpShards;

typedef struct DdpSampler {
  DdpShards shards;
  int rank;
  bool shuffle;
  uint64_t seed;
  int64_t count;  /* of this rank in an epoch: the same on every rank */
  int64_t *index; /* [count], of the current epoch */
  int64_t *order; /* [samples], scratch */
} DdpSampler;

/* Samples of one rank in an epoch: ceil(samples / world), floor with drop_last; with whole batches a
   multiple of the batch, but for one rank's last batch, which stays short as in a plain DataLoader. */
int64_t ddp_shards_count(const DdpShards *s);
/* Place in the epoch's order of sample k of a rank; from `samples` on it stands for the head again. */
int64_t ddp_shards_place(const DdpShards *s, int rank, int64_t k);
DdpError *ddp_sampler_open(DdpSampler *s, const DdpShards *shards, int rank, bool shuffle,
                           uint64_t seed);
/* Fills index: generator seeded with seed + epoch. */
void ddp_sampler_epoch(DdpSampler *s, int64_t epoch);
void ddp_sampler_close(DdpSampler *s);
#endif
