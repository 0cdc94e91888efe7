/* Cutting the gradient arena into buckets; internal to the reducer and its tests. */
#ifndef DDP_DDP_BUCKETS_H
#define DDP_DDP_BUCKETS_H
#include "reducer.h"

/* out: room for job->n_ready buckets. Returns how many. Ranges do not overlap. */
int ddp_buckets_cut(const DdpJob *job, double cap_mb, DdpBucketInfo *out);
#endif
