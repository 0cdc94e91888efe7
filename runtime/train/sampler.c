/* torch.utils.data.DistributedSampler. In: number of samples, world, rank, seed, epoch. Out: this
   rank's indices. The k-th sample of rank r stands at place k * world + r of the epoch, so that any
   number of ranks reads the same global batches. */
#include "sampler.h"
#include "rng.h"
#include <stdlib.h>
#include <string.h>

int64_t ddp_sampler_count(int64_t samples, int world, bool drop_last) {
  return drop_last ? samples / world : (samples + world - 1) / world;
}

DdpError *ddp_sampler_open(DdpSampler *s, int64_t samples, int world, int rank, bool shuffle,
                           bool drop_last, uint64_t seed) {
  *s = (DdpSampler){.samples = samples,
                    .world = world,
                    .rank = rank,
                    .shuffle = shuffle,
                    .drop_last = drop_last,
                    .seed = seed,
                    .count = ddp_sampler_count(samples, world, drop_last)};
  s->index = malloc((size_t)(s->count + 1) * sizeof *s->index);
  s->order = malloc((size_t)(samples + 1) * sizeof *s->order);
  if (s->index && s->order) return NULL;
  ddp_sampler_close(s);
  return ddp_error(DDP_MEMORY, "out of memory for the order of %lld samples", (long long)samples);
}

void ddp_sampler_epoch(DdpSampler *s, int64_t epoch) {
  if (s->shuffle) {
    DdpRng g;
    ddp_rng_seed(&g, s->seed + (uint64_t)epoch);
    ddp_rng_randperm(&g, s->order, s->samples);
  } else {
    for (int64_t i = 0; i < s->samples; i++) s->order[i] = i;
  }
  for (int64_t k = 0; k < s->count; k++) {
    int64_t place = k * s->world + s->rank;
    s->index[k] = s->order[place % s->samples]; /* beyond the end: from the head again */
  }
}

void ddp_sampler_close(DdpSampler *s) {
  free(s->index);
  free(s->order);
  s->index = s->order = NULL;
}
