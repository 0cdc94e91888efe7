/* Sums into places that data names. In order of the input, on one thread: the same bits every time.
   I: type of the indices (u8, i32, i64). An index out of range is the caller's fault: fields are
   checked against their declared range when they are read. */
#ifndef DDP_KERNELS_CPU_INDEX_H
#define DDP_KERNELS_CPU_INDEX_H
#include "math.h"

/* y[index[i], :] += g[i, :]; y is [rows, width] and is cleared before unless it accumulates.
   y[o, index[o, i, r], r] += src[o, i, r] with y = x before: x, y are [outer, size, inner],
   index and src [outer, count, inner]. */
#define DDP_INDEX_KERNELS(name, I)                                                                 \
  DDP_APART void ddp_rows_add_##name(float *restrict y, const I *restrict index,                   \
                                     const float *restrict g, int64_t count, int64_t width,        \
                                     int64_t rows, bool accumulate) {                              \
    if (!accumulate) memset(y, 0, sizeof *y *(size_t)(rows * width));                              \
    for (int64_t i = 0; i < count; i++) {                                                          \
      float *row = y + (int64_t)index[i] * width;                                                  \
      const float *from = g + i * width;                                                           \
      for (int64_t j = 0; j < width; j++) row[j] += from[j];                                       \
    }                                                                                              \
  }                                                                                                \
  DDP_APART void ddp_scatter_add_##name(float *restrict y, const float *restrict x,                \
                                        const I *restrict index, const float *restrict src,        \
                                        int64_t outer, int64_t size, int64_t count, int64_t inner, \
                                        bool accumulate) {                                         \
    const int64_t all = outer * size * inner;                                                      \
    for (int64_t i = 0; i < all; i++) y[i] = accumulate ? y[i] + x[i] : x[i];                      \
    for (int64_t o = 0; o < outer; o++)                                                            \
      for (int64_t i = 0; i < count; i++)                                                          \
        for (int64_t r = 0; r < inner; r++) {                                                      \
          const int64_t at = (o * count + i) * inner + r;                                          \
          y[(o * size + (int64_t)index[at]) * inner + r] += src[at];                               \
        }                                                                                          \
  }
DDP_INDEX_KERNELS(u8, uint8_t)
DDP_INDEX_KERNELS(i32, int32_t)
DDP_INDEX_KERNELS(i64, int64_t)
#undef DDP_INDEX_KERNELS

#endif
