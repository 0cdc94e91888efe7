/* C = op(A) op(B), or C += with beta = 1: dense row-major f32, op(A) is [m, k], op(B) is [k, n].
   oneDNN where it was found when ddpc was built, else plain loops. The runtime sets the number of
   threads (device/); the environment does not. */
#ifndef DDP_KERNELS_CPU_GEMM_H
#define DDP_KERNELS_CPU_GEMM_H
#include "math.h"

#if DDP_HAVE_DNNL
#include <dnnl.h>

DDP_INLINE void ddp_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a,
                         const float *b, float beta, float *c) {
  dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0f, a, ta ? m : k, b, tb ? k : n, beta, c,
             n);
}
#else
/* Sums run over k in order; the inner loop is over columns of C, or a dot product where B is read
   transposed. */
DDP_INLINE void ddp_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *restrict a,
                         const float *restrict b, float beta, float *restrict c) {
  for (int64_t i = 0; i < m; i++) {
    float *row = c + i * n;
    for (int64_t j = 0; j < n && !tb; j++) row[j] = beta == 0.0f ? 0.0f : beta * row[j];
    for (int64_t l = 0; l < k && !tb; l++) {
      const float x = ta ? a[l * m + i] : a[i * k + l];
      for (int64_t j = 0; j < n; j++) row[j] = ddp_fmaf(x, b[l * n + j], row[j]);
    }
    for (int64_t j = 0; j < n && tb; j++) {
      const float *col = b + j * k;
      float s = 0;
      if (ta) {
        for (int64_t l = 0; l < k; l++) s += a[l * m + i] * col[l];
      } else {
#pragma omp simd reduction(+ : s) simdlen(16)
        for (int64_t l = 0; l < k; l++) s += a[i * k + l] * col[l];
      }
      row[j] = s + (beta == 0.0f ? 0.0f : beta * row[j]);
    }
  }
}
#endif

#endif
