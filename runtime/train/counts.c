/* Counts of updates (semantics of the Trainer). In: samples, ranks, batch, accumulation, epochs. Out:
   all counts, or why there is nothing to do. */
#include "counts.h"
#include <math.h>
#include <stddef.h>

static int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b > 0);
}

DdpError *ddp_counts_make(DdpCounts *out, const DdpCountsInput *in) {
  const DdpShards *s = &in->shards;
  DdpCounts c = {.shards = *s, .accumulation = in->accumulation};
  c.per_rank = ddp_shards_count(s);
  c.micro_batches = s->drop_last ? c.per_rank / s->batch : ceil_div(c.per_rank, s->batch);
  c.updates = ceil_div(c.micro_batches, in->accumulation);
  if (c.updates == 0) {
    return ddp_error(
        DDP_DATA,
        "nothing to train on: %lld samples over %d rank%s are %lld each, fewer than one "
        "batch of %lld, and dataloader_drop_last leaves the rest out",
        (long long)s->samples, s->world, s->world == 1 ? "" : "s", (long long)c.per_rank,
        (long long)s->batch);
  }
  if (in->max_steps > 0) {
    c.total = in->max_steps;
    c.epochs = ceil_div(c.total, c.updates);
  } else {
    double total = ceil(in->epochs * (double)c.updates);
    if (total >= 0x1p62)
      return ddp_error(DDP_USAGE, "num_train_epochs = %g is too large", in->epochs);
    c.total = (int64_t)total;
    c.epochs = (int64_t)ceil(in->epochs);
  }
  int64_t last = s->drop_last ? s->batch : c.per_rank - (c.micro_batches - 1) * s->batch;
  if (in->single_at && last == 1 && c.total >= c.updates) {
    return ddp_error(
        DDP_DATA,
        "the last batch of an epoch is one sample (%lld samples over %d rank%s are %lld each, in "
        "batches of %lld), and %s divides by zero there: batch norm needs 2. Another "
        "per_device_train_batch_size, another number of ranks or --dataloader_drop_last avoids it",
        (long long)s->samples, s->world, s->world == 1 ? "" : "s", (long long)c.per_rank,
        (long long)s->batch, in->single_at);
  }
  c.planned = c.total;
  double warmup = in->warmup >= 1 ? floor(in->warmup) : ceil((double)c.total * in->warmup);
  if (warmup > (double)c.total) {
    return ddp_error(DDP_USAGE, "warmup_steps = %g is longer than the run of %lld updates",
                     in->warmup, (long long)c.total);
  }
  c.warmup = (int64_t)warmup;
  *out = c;
  return NULL;
}

int64_t ddp_counts_interval(double value, int64_t total) {
  double n = value < 1 ? ceil((double)total * value) : value;
  return n < 1 ? 1 : n > 0x1p62 ? INT64_MAX : (int64_t)n;
}

int64_t ddp_counts_window(const DdpCounts *c, int64_t window) {
  int64_t rest = c->micro_batches - window * c->accumulation;
  return rest < c->accumulation ? rest : c->accumulation;
}

int64_t ddp_counts_batch(const DdpCounts *c, int64_t micro_batch) {
  int64_t rest = c->per_rank - micro_batch * c->shards.batch;
  return rest < c->shards.batch ? rest : c->shards.batch;
}

int64_t ddp_counts_place(const DdpCounts *c, int64_t windows) {
  int64_t micro_batches = windows < c->updates ? windows * c->accumulation : c->micro_batches;
  int64_t places = micro_batches * c->shards.batch * c->shards.world;
  return places < c->shards.samples ? places : c->shards.samples;
}

DdpError *ddp_counts_windows(const DdpCounts *c, int64_t place, int64_t *windows) {
  int64_t window = c->accumulation * c->shards.batch * c->shards.world;
  *windows = place / window;
  if (place >= ddp_counts_place(c, c->updates)) {
    *windows = c->updates;
    return NULL;
  }
  if (place % window == 0) return NULL;
  return ddp_error(
      DDP_USAGE,
      "the other run stands behind sample %lld of its epoch, and an update of this one "
      "takes %lld samples (%d ranks of %lld, times %lld micro-batches): none begins "
      "there. Choose --gradient_accumulation_steps so that they do",
      (long long)place, (long long)window, c->shards.world, (long long)c->shards.batch,
      (long long)c->accumulation);
}
