/* In: the order in which gradients become ready, a size limit. Out: buckets, each one range of the
   arena. PyTorch's rule: a tensor is added, and the bucket is closed when it has reached the
   limit; without a limit of the user's the first one is 1 MiB, so that communication starts early,
   the others 25 MiB. */
#include "buckets.h"

static const double mib = 1024.0 * 1024.0;

static double limit_of(int bucket, double cap_mb) {
  if (cap_mb > 0) return cap_mb * mib;
  return (bucket == 0 ? 1.0 : 25.0) * mib;
}

static void include(DdpBucketInfo *b, const DdpTensor *t) {
  if (b->count == 0 || t->offset < b->begin) b->begin = t->offset;
  if (b->count == 0 || t->offset + t->elements > b->end) b->end = t->offset + t->elements;
  b->count++;
}

static bool overlap(const DdpBucketInfo *a, const DdpBucketInfo *b) {
  return a->begin < b->end && b->begin < a->end;
}

/* The plan lays gradients out in ready order, so ranges are disjoint; should an order ever differ,
   buckets that share a range become one. */
static int merge(DdpBucketInfo *b, int n) {
  for (int i = 1; i < n; i++) {
    int j = 0;
    while (j < i && !overlap(&b[j], &b[i])) j++;
    if (j == i) continue;
    for (int k = j + 1; k <= i; k++) {
      if (b[k].begin < b[j].begin) b[j].begin = b[k].begin;
      if (b[k].end > b[j].end) b[j].end = b[k].end;
      b[j].count += b[k].count;
    }
    for (int k = i + 1; k < n; k++) b[j + k - i] = b[k];
    n -= i - j;
    i = 0; /* the larger range may meet others */
  }
  return n;
}

int ddp_buckets_cut(const DdpJob *job, double cap_mb, DdpBucketInfo *out) {
  int n = 0;
  double bytes = 0;
  for (int32_t i = 0; i < job->n_ready; i++) {
    const DdpTensor *t = &job->tensors[job->ready[i]];
    if (bytes == 0) out[n] = (DdpBucketInfo){.first = i};
    include(&out[n], t);
    bytes += (double)t->elements * sizeof(float);
    if (bytes < limit_of(n, cap_mb)) continue;
    n++;
    bytes = 0;
  }
  if (bytes > 0) n++;
  return merge(out, n);
}
