/* Orders of epochs. In: lines "samples world batch drop_last batches shuffle seed epoch". Out: for each,
   the indices of all ranks, rank after rank, on one line. */
#include "sampler.h"
#include <inttypes.h>
#include <stdio.h>

int main(void) {
  long long samples, batch, seed, epoch;
  int world, drop, batches, shuffle;
  while (scanf("%lld %d %lld %d %d %d %lld %lld", &samples, &world, &batch, &drop, &batches,
               &shuffle, &seed, &epoch) == 8) {
    DdpShards shards = {samples, world, batch, drop != 0, batches != 0};
    for (int rank = 0; rank < world; rank++) {
      DdpSampler s;
      if (ddp_sampler_open(&s, &shards, rank, shuffle != 0, (uint64_t)seed)) return 1;
      ddp_sampler_epoch(&s, epoch);
      for (int64_t k = 0; k < s.count; k++) printf("%" PRId64 " ", s.index[k]);
      ddp_sampler_close(&s);
    }
    puts("");
  }
  return 0;
}
