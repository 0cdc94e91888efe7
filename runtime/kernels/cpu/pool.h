/* Pooling: maxima, sums and averages over windows of [outer, in.., inner], and their gradients
   (compiler/ops/pool.h). Dense f32. The last dimension is taken a chunk at a time: vectors where it is a
   block of channels. */
#ifndef DDP_KERNELS_CPU_POOL_H
#define DDP_KERNELS_CPU_POOL_H
#include "../shapes.h"
#include "math.h"

enum { DDP_POOL_CHUNK = 16 };

/* What one window has: ranges of three dimensions (the missing ones first, of one place). */
typedef struct DdpPoolWindow {
  DdpPoolRange range[3];
  int64_t size[3]; /* of the tensor */
  float divisor;
} DdpPoolWindow;

#define DDP_POOL_PLACES(w, at)                                                                     \
  for (int64_t a_ = 0; a_ < (w).range[0].n; a_++)                                                  \
    for (int64_t b_ = 0; b_ < (w).range[1].n; b_++)                                                \
      for (int64_t c_ = 0, at = (((w).range[0].first + a_ * (w).range[0].step) * (w).size[1] +     \
                                 (w).range[1].first + b_ * (w).range[1].step) *                    \
                                    (w).size[2] +                                                  \
                                (w).range[2].first;                                                \
           c_ < (w).range[2].n; c_++, at += (w).range[2].step)

/* Largest element and its place, for n <= DDP_POOL_CHUNK neighbours; the first of equal ones, NaN if there
   is one. */
DDP_INLINE void ddp_pool_best(const DdpPoolWindow *w, const float *restrict x, int64_t inner,
                              int64_t n, float *restrict best, int32_t *restrict place) {
  const int32_t first =
      (int32_t)((w->range[0].first * w->size[1] + w->range[1].first) * w->size[2] +
                w->range[2].first);
  for (int64_t j = 0; j < n; j++) best[j] = -INFINITY, place[j] = first;
  DDP_POOL_PLACES(*w, at) {
    const float *restrict e = x + at * inner;
    const int32_t here = (int32_t)at;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
      const bool more = (e[j] > best[j]) | (e[j] != e[j]);
      best[j] = more ? e[j] : best[j];
      place[j] = more ? here : place[j];
    }
  }
}

DDP_INLINE void ddp_pool_max_chunk(const DdpPoolWindow *w, const float *restrict x, int64_t inner,
                                   int64_t n, const float *restrict g, float *restrict y,
                                   bool add) {
  float best[DDP_POOL_CHUNK];
  int32_t place[DDP_POOL_CHUNK];
  ddp_pool_best(w, x, inner, n, best, place);
  if (!g) {
    for (int64_t j = 0; j < n; j++) y[j] = add ? y[j] + best[j] : best[j];
    return;
  }
  DDP_POOL_PLACES(*w, at) {
    float *restrict to = y + at * inner;
    const int32_t here = (int32_t)at;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) to[j] += place[j] == here ? g[j] : 0.0f;
  }
}

DDP_INLINE void ddp_pool_sum_chunk(const DdpPoolWindow *w, const float *restrict x, int64_t inner,
                                   int64_t n, const float *restrict g, float *restrict y,
                                   bool add) {
  if (!g) {
    float sum[DDP_POOL_CHUNK] = {0};
    DDP_POOL_PLACES(*w, at) {
      const float *restrict e = x + at * inner;
#pragma omp simd
      for (int64_t j = 0; j < n; j++) sum[j] += e[j];
    }
    for (int64_t j = 0; j < n; j++) y[j] = (add ? y[j] : 0.0f) + sum[j] / w->divisor;
    return;
  }
  float part[DDP_POOL_CHUNK];
  for (int64_t j = 0; j < n; j++) part[j] = g[j] / w->divisor;
  DDP_POOL_PLACES(*w, at) {
    float *restrict to = y + at * inner;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) to[j] += part[j];
  }
}

typedef void DdpPoolChunk(const DdpPoolWindow *w, const float *x, int64_t inner, int64_t n,
                          const float *g, float *y, bool add);

/* A range of dimension k of three; the missing ones come first and have one place. */
DDP_INLINE DdpPoolRange ddp_pool_range3(const DdpPool *p, int64_t k, int64_t o) {
  const int64_t i = k - (3 - p->space);
  return i < 0 ? (DdpPoolRange){0, 1, 1, 1} : ddp_pool_range(p, i, o);
}
DDP_INLINE int64_t ddp_pool_size(const DdpPool *p, const int64_t *size, int64_t k) {
  const int64_t i = k - (3 - p->space);
  return i < 0 ? 1 : size[i];
}

/* The windows of one [in.., inner]; forward (g NULL) y has one element for each, backward y has the shape of
   x and is added to. */
DDP_INLINE void ddp_pool_one(const DdpPool *p, DdpPoolChunk *chunk, int64_t inner, const float *x,
                             const float *g, float *y, bool add) {
  DdpPoolWindow w;
  int64_t out[3], small = 0;
  for (int64_t k = 0; k < 3; k++) {
    w.size[k] = ddp_pool_size(p, p->in, k);
    out[k] = ddp_pool_size(p, p->out, k);
  }
  for (int64_t a = 0; a < out[0]; a++) {
    w.range[0] = ddp_pool_range3(p, 0, a);
    for (int64_t b = 0; b < out[1]; b++) {
      w.range[1] = ddp_pool_range3(p, 1, b);
      for (int64_t c = 0; c < out[2]; c++, small += inner) {
        w.range[2] = ddp_pool_range(p, p->space - 1, c);
        int64_t divisor = 1, j = 0;
        for (int64_t k = 0; k < 3; k++)
          divisor *= p->divide == 1 ? w.range[k].padded : p->divide == 2 ? w.range[k].n : 1;
        w.divisor = (float)divisor;
        for (; j + DDP_POOL_CHUNK <= inner; j += DDP_POOL_CHUNK)
          chunk(&w, x ? x + j : NULL, inner, DDP_POOL_CHUNK, g ? g + small + j : NULL,
                y + (g ? 0 : small) + j, add);
        if (j < inner)
          chunk(&w, x ? x + j : NULL, inner, inner - j, g ? g + small + j : NULL,
                y + (g ? 0 : small) + j, add);
      }
    }
  }
}

DDP_INLINE void ddp_pool_all(const DdpPool *p, DdpPoolChunk *chunk, int64_t outer, int64_t inner,
                             const float *x, const float *g, float *y, bool accumulate) {
  int64_t from = inner, to = inner;
  for (int64_t i = 0; i < p->space; i++) {
    from *= p->in[i];
    to *= p->out[i];
  }
  for (int64_t o = 0; o < outer; o++) {
    float *own = y + o * (g ? from : to);
    if (g && !accumulate) memset(own, 0, (size_t)from * sizeof *own);
    ddp_pool_one(p, chunk, inner, x ? x + o * from : NULL, g ? g + o * to : NULL, own, accumulate);
  }
}

/* x is NULL where only the gradient is needed, g in the forward functions. */
static __attribute__((unused, noinline)) void ddp_pool_max(const DdpPool *p, int64_t outer,
                                                           int64_t inner, const float *x,
                                                           const float *g, float *y,
                                                           bool accumulate) {
  ddp_pool_all(p, ddp_pool_max_chunk, outer, inner, x, g, y, accumulate);
}
static __attribute__((unused, noinline)) void ddp_pool_sum(const DdpPool *p, int64_t outer,
                                                           int64_t inner, const float *x,
                                                           const float *g, float *y,
                                                           bool accumulate) {
  ddp_pool_all(p, ddp_pool_sum_chunk, outer, inner, x, g, y, accumulate);
}
#undef DDP_POOL_PLACES
#endif
