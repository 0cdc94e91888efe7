/* torch.utils.data.DistributedSampler and Accelerate's BatchSamplerShard (even_batches). In: how samples
   are shared, rank, seed, epoch. Out: this rank's indices. */
#include "sampler.h"
#include "rng.h"
#include <stdlib.h>
#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b > 0);
}

int64_t ddp_shards_count(const DdpShards *s) {
  if (s->batches && (s->world > 1 || s->drop_last)) {
    int64_t batches = s->drop_last
                          ? s->samples / s->batch / s->world
                          : ceil_div(ceil_div(s->samples, s->batch), s->world); /* of a rank */
    return batches * s->batch;
  }
  return s->drop_last ? s->samples / s->world : ceil_div(s->samples, s->world);
}

int64_t ddp_shards_place(const DdpShards *s, int rank, int64_t k) {
  if (!s->batches) return k * s->world + rank;
  return (k / s->batch * s->world + rank) * s->batch + k % s->batch;
}

DdpError *ddp_sampler_open(DdpSampler *s, const DdpShards *shards, int rank, bool shuffle,
                           uint64_t seed) {
  *s = (DdpSampler){.shards = *shards,
                    .rank = rank,
                    .shuffle = shuffle,
                    .seed = seed,
                    .count = ddp_shards_count(shards)};
  s->index = malloc((size_t)(s->count + 1) * sizeof *s->index);
  s->order = malloc((size_t)(shards->samples + 1) * sizeof *s->order);
  if (s->index && s->order) return NULL;
  ddp_sampler_close(s);
  return ddp_error(DDP_MEMORY, "out of memory for the order of %lld samples",
                   (long long)shards->samples);
}

void ddp_sampler_epoch(DdpSampler *s, int64_t epoch) {
  int64_t n = s->shards.samples;
  if (s->shuffle) {
    DdpRng g;
    ddp_rng_seed(&g, s->seed + (uint64_t)epoch);
    ddp_rng_randperm(&g, s->order, n);
  } else {
    for (int64_t i = 0; i < n; i++) s->order[i] = i;
  }
  for (int64_t k = 0; k < s->count; k++)
    s->index[k] = s->order[ddp_shards_place(&s->shards, s->rank, k) % n];
}

void ddp_sampler_close(DdpSampler *s) {
  free(s->index);
  free(s->order);
  s->index = s->order = NULL;
}
