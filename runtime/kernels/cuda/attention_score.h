/* What both kinds of attention kernels on a device share: one score and its gradient, where heads lie, the sums
   g * y of backward. */
#ifndef DDP_KERNELS_CUDA_ATTENTION_SCORE_H
#define DDP_KERNELS_CUDA_ATTENTION_SCORE_H
#include "draw.h"
#include "ask_cudnn.h"
#include "../scratch.h"

template <class T> DDP_DEVICE const T *ddp_attention_head(const DdpHeads &x, int b, int h) {
  return static_cast<const T *>(x.at) + b * x.batch + h * x.head;
}

/* How many of n rows stand in a tile of `most` that begins with row `first`. */
DDP_DEVICE int ddp_attention_part(int64_t n, int first, int most) {
  return (int)n - first < most ? (int)n - first : most;
}

/* Keys that queries up to `last` (exclusive) see. */
DDP_DEVICE int ddp_attention_seen(const DdpAttention &a, int last) {
  return a.causal && last < (int)a.s ? last : (int)a.s;
}

DDP_DEVICE DdpRow ddp_attention_draws(const DdpAttention &a, const DdpSite &site,
                                      const DdpScalars *scalars, int b) {
  if (a.keep >= 1) return DdpRow{0, 0};
  return ddp_row(ddp_draw_here(scalars, site), site.sample[b]);
}

/* What weight (i, j) is multiplied with: the draws of dropout(softmax). */
DDP_DEVICE float ddp_attention_kept(const DdpAttention &a, DdpRow draws, int h, int i, int j) {
  if (a.keep >= 1) return 1.0f;
  return ddp_bernoulli(draws,
                       ((uint32_t)h * (uint32_t)a.t + (uint32_t)i) * (uint32_t)a.s + (uint32_t)j,
                       a.keep) *
         (1.0f / a.keep);
}

/* The score of query i and key j from their product x; -inf where it is not seen or there is none. T: storage, of a
   mask that is added too. */
template <class T>
DDP_DEVICE float ddp_attention_score(const DdpAttention &a, int b, int h, int i, int j, float x) {
  if (i >= (int)a.t || j >= (int)a.s || (a.causal && j > i)) return -INFINITY;
  if (!a.mask) return x * a.scale;
  const int64_t *step = a.mask_step;
  const int64_t at = b * step[0] + h * step[1] + i * step[2] + j * step[3];
  if (a.mask_added) return x * a.scale + ddp_load(static_cast<const T *>(a.mask)[at]);
  return static_cast<const bool *>(a.mask)[at] ? x * a.scale : -INFINITY;
}

typedef struct DdpAttentionBack {
  float weight; /* after dropout */
  float score;  /* gradient of the product of query and key */
} DdpAttentionBack;

/* x: product of query and key, d: of gradient and value; lse, delta: of this head's rows. */
template <class T>
DDP_DEVICE DdpAttentionBack ddp_attention_weight_back(const DdpAttention &a, DdpRow draws, int b,
                                                      int h, int i, int j, float x, float d,
                                                      const float *lse, const float *delta) {
  const float score = ddp_attention_score<T>(a, b, h, i, j, x);
  if (score == -INFINITY) return DdpAttentionBack{0.0f, 0.0f};
  const float weight = expf(score - lse[i]), kept = ddp_attention_kept(a, draws, h, i, j);
  return DdpAttentionBack{weight * kept, weight * (d * kept - delta[i]) * a.scale};
}

/* delta[b, h, i] = sum of g * y over a row: a warp each. */
enum { DDP_DELTA_ROWS = 8 };
template <class T, int V>
static __global__ void __launch_bounds__(DDP_DELTA_ROWS * 32)
    ddp_attention_delta(DdpAttention a, DdpHeads gradient, DdpHeads result, float *delta) {
  const int64_t row =
      (int64_t)blockIdx.x * DDP_DELTA_ROWS + threadIdx.x / 32; /* of [batch, t, heads] */
  if (row >= a.batch * a.t * a.heads) return;
  const int h = (int)(row % a.heads), i = (int)(row / a.heads % a.t);
  const int b = (int)(row / a.heads / a.t);
  const T *g = ddp_attention_head<T>(gradient, b, h) + i * gradient.time;
  const T *y = ddp_attention_head<T>(result, b, h) + i * result.time;
  float sum = 0;
  for (int c = (int)threadIdx.x % 32; c < V; c += 32) sum += ddp_load(g[c]) * ddp_load(y[c]);
  sum = ddp_warp_sum(sum);
  if (threadIdx.x % 32 == 0) delta[(b * a.heads + h) * a.t + i] = sum;
}

#endif
