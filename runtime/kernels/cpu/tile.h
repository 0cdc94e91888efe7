/* Small matrix products on packed panels, for kernels that multiply blocks in the cache: C (+)= A B with A read
   through two strides (so that it may be transposed) and B packed into panels of DDP_PANEL columns. Each
   element of C is summed over k in order, so the bits depend on nothing else. */
#ifndef DDP_KERNELS_CPU_TILE_H
#define DDP_KERNELS_CPU_TILE_H
#include "math.h"
#ifdef __SSE__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { DDP_LANES = 16, DDP_TILE_ROWS = 8 };
typedef __m512 DdpVec;
DDP_INLINE DdpVec ddp_vec_load(const float *p) {
  return _mm512_loadu_ps(p);
}
DDP_INLINE void ddp_vec_store(float *p, DdpVec v) {
  _mm512_storeu_ps(p, v);
}
DDP_INLINE DdpVec ddp_vec_fma(float a, DdpVec b, DdpVec c) {
  return _mm512_fmadd_ps(_mm512_set1_ps(a), b, c);
}
#elif defined(__AVX2__) && defined(__FMA__)
enum { DDP_LANES = 8, DDP_TILE_ROWS = 6 };
typedef __m256 DdpVec;
DDP_INLINE DdpVec ddp_vec_load(const float *p) {
  return _mm256_loadu_ps(p);
}
DDP_INLINE void ddp_vec_store(float *p, DdpVec v) {
  _mm256_storeu_ps(p, v);
}
DDP_INLINE DdpVec ddp_vec_fma(float a, DdpVec b, DdpVec c) {
  return _mm256_fmadd_ps(_mm256_set1_ps(a), b, c);
}
#else
enum { DDP_LANES = 4, DDP_TILE_ROWS = 6 };
typedef struct DdpVec {
  float at[DDP_LANES];
} DdpVec;
DDP_INLINE DdpVec ddp_vec_load(const float *p) {
  DdpVec v;
  memcpy(&v, p, sizeof v);
  return v;
}
DDP_INLINE void ddp_vec_store(float *p, DdpVec v) {
  memcpy(p, &v, sizeof v);
}
DDP_INLINE DdpVec ddp_vec_fma(float a, DdpVec b, DdpVec c) {
  for (int i = 0; i < DDP_LANES; i++) c.at[i] = ddp_fmaf(a, b.at[i], c.at[i]);
  return c;
}
#endif
enum { DDP_PANEL = 2 * DDP_LANES };

/* Columns with padding: whole vectors. */
DDP_INLINE int64_t ddp_padded(int64_t n) {
  return (n + DDP_LANES - 1) / DDP_LANES * DDP_LANES;
}
/* Floats that `rows` rows of n columns take when packed. */
DDP_INLINE int64_t ddp_packed(int64_t rows, int64_t n) {
  return (n + DDP_PANEL - 1) / DDP_PANEL * DDP_PANEL * rows;
}

/* A square of 4 x 4, transposed. */
DDP_INLINE void ddp_transpose4(const float *from, int64_t step, float *to, int64_t row) {
#ifdef __SSE__
  __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + step), c = _mm_loadu_ps(from + 2 * step),
         d = _mm_loadu_ps(from + 3 * step);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(to, a);
  _mm_storeu_ps(to + row, b);
  _mm_storeu_ps(to + 2 * row, c);
  _mm_storeu_ps(to + 3 * row, d);
#else
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) to[j * row + i] = from[i * step + j];
#endif
}

/* One panel of n columns; element (r, c) of the source is from[r * row + c * column]. */
DDP_INLINE void ddp_pack_panel(int64_t rows, int64_t n, const float *from, int64_t row,
                               int64_t column, float *to) {
  int64_t c = 0;
  if (column == 1 && n == DDP_PANEL) {
    for (int64_t r = 0; r < rows; r++) {
      const DdpVec a = ddp_vec_load(from + r * row), b = ddp_vec_load(from + r * row + DDP_LANES);
      ddp_vec_store(to + r * DDP_PANEL, a);
      ddp_vec_store(to + r * DDP_PANEL + DDP_LANES, b);
    }
    return;
  }
  for (; row == 1 && c + 4 <= n; c += 4) { /* columns lie one behind the other */
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
      ddp_transpose4(from + r + c * column, column, to + r * DDP_PANEL + c, DDP_PANEL);
    for (; r < rows; r++)
      for (int64_t k = c; k < c + 4; k++) to[r * DDP_PANEL + k] = from[r + k * column];
  }
  for (; c < n; c++)
    for (int64_t r = 0; r < rows; r++) to[r * DDP_PANEL + c] = from[r * row + c * column];
  for (; c < DDP_PANEL; c++)
    for (int64_t r = 0; r < rows; r++) to[r * DDP_PANEL + c] = 0;
}

/* Panels of a matrix [rows, n]; columns beyond n become 0. */
static __attribute__((unused, noinline)) void ddp_pack(int64_t rows, int64_t n, const float *from,
                                                       int64_t row, int64_t column, float *to) {
  for (int64_t j = 0; j < n; j += DDP_PANEL, to += rows * DDP_PANEL)
    ddp_pack_panel(rows, n - j < DDP_PANEL ? n - j : DDP_PANEL, from + j * column, row, column, to);
}

DDP_INLINE void ddp_tile(const int rows, const int vecs, int64_t k, const float *a, int64_t a_row,
                         int64_t a_k, const float *b, float *c, int64_t c_row, bool add) {
  DdpVec sum[DDP_TILE_ROWS][2];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int j = 0; j < vecs; j++) {
      static const float zero[DDP_LANES] = {0};
      sum[i][j] = ddp_vec_load(add ? c + i * c_row + j * DDP_LANES : zero);
    }
  for (int64_t l = 0; l < k; l++) {
    const DdpVec x = ddp_vec_load(b + l * DDP_PANEL);
    const DdpVec y = vecs == 2 ? ddp_vec_load(b + l * DDP_PANEL + DDP_LANES) : x;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      const float f = a[i * a_row + l * a_k];
      sum[i][0] = ddp_vec_fma(f, x, sum[i][0]);
      if (vecs == 2) sum[i][1] = ddp_vec_fma(f, y, sum[i][1]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int j = 0; j < vecs; j++) ddp_vec_store(c + i * c_row + j * DDP_LANES, sum[i][j]);
}

DDP_INLINE void ddp_tiles(const int vecs, int64_t m, int64_t k, const float *a, int64_t a_row,
                          int64_t a_k, const float *b, float *c, int64_t c_row, bool add) {
  int64_t i = 0;
  for (; m - i >= DDP_TILE_ROWS; i += DDP_TILE_ROWS)
    ddp_tile(DDP_TILE_ROWS, vecs, k, a + i * a_row, a_row, a_k, b, c + i * c_row, c_row, add);
  for (; m - i >= 4; i += 4)
    ddp_tile(4, vecs, k, a + i * a_row, a_row, a_k, b, c + i * c_row, c_row, add);
  for (; m - i >= 1; i += 1)
    ddp_tile(1, vecs, k, a + i * a_row, a_row, a_k, b, c + i * c_row, c_row, add);
}

/* C [m, n rounded up to whole vectors] (+)= A [m, k] B [k, n]. `panel`: rows that a panel of B was packed
   with, k or more. */
static __attribute__((unused, noinline)) void
ddp_product_packed(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, int64_t a_k,
                   const float *b, int64_t panel, float *c, int64_t c_row, bool add) {
  for (int64_t j = 0; j < n; j += DDP_PANEL, b += panel * DDP_PANEL) {
    if (n - j > DDP_LANES)
      ddp_tiles(2, m, k, a, a_row, a_k, b, c + j, c_row, add);
    else
      ddp_tiles(1, m, k, a, a_row, a_k, b, c + j, c_row, add);
  }
}

#endif
