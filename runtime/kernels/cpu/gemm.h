/* C = op(A) op(B), or C += with beta = 1: dense row-major f32, op(A) is [m, k], op(B) is [k, n].
   oneDNN where it was found when ddpc was built, else plain loops. The runtime sets the number of
   threads (device/); the environment does not. */
#ifndef DDP_KERNELS_CPU_GEMM_H
#define DDP_KERNELS_CPU_GEMM_H
#include "math.h"

#if DDP_HAVE_DNNL
#include <dnnl.h>

#if DNNL_VERSION_MAJOR == 2
/* A B^T of one shape, with or without a bias for each column. dnnl_sgemm packs B for every call; with some rows of A the matmul primitive is up
   to a quarter faster, once it is made. */
typedef struct DdpProduct {
  int64_t m, n, k;
  bool bias;
  dnnl_primitive_t primitive; /* NULL: a place that is not used yet */
  dnnl_memory_t memory[4];    /* A, B, C, bias */
} DdpProduct;

DDP_INLINE dnnl_memory_desc_t ddp_product_desc(int64_t rows, int64_t columns, int64_t row,
                                               int64_t column) {
  dnnl_memory_desc_t d;
  dnnl_dims_t dims = {rows, columns}, strides = {row, column};
  memset(&d, 0, sizeof d);
  dnnl_memory_desc_init_by_strides(&d, 2, dims, dnnl_f32, strides);
  return d;
}

static __attribute__((unused)) bool ddp_product_make(DdpProduct *p, dnnl_engine_t engine) {
  const dnnl_memory_desc_t d[4] = {
      ddp_product_desc(p->m, p->k, p->k, 1), ddp_product_desc(p->k, p->n, 1, p->k),
      ddp_product_desc(p->m, p->n, p->n, 1), ddp_product_desc(1, p->n, p->n, 1)};
  dnnl_matmul_desc_t matmul;
  dnnl_primitive_desc_t what = NULL;
  for (int i = 0; i < 4; i++)
    if (dnnl_memory_create(&p->memory[i], &d[i], engine, DNNL_MEMORY_NONE)) return false;
  if (dnnl_matmul_desc_init(&matmul, &d[0], &d[1], p->bias ? &d[3] : NULL, &d[2])) return false;
  if (dnnl_primitive_desc_create(&what, &matmul, NULL, engine, NULL)) return false;
  dnnl_primitive_create(&p->primitive, what);
  dnnl_primitive_desc_destroy(what);
  return p->primitive != NULL;
}

/* false: no place left, or oneDNN cannot. One thread at a time calls it. */
static __attribute__((unused, noinline)) bool ddp_product_nt(int64_t m, int64_t n, int64_t k,
                                                             const float *a, const float *b,
                                                             const float *bias, float *c) {
  enum { PLACES = 64 };
  static DdpProduct products[PLACES];
  static dnnl_engine_t engine;
  static dnnl_stream_t stream;
  if (!engine && dnnl_engine_create(&engine, dnnl_cpu, 0)) return false;
  if (!stream && dnnl_stream_create(&stream, engine, dnnl_stream_default_flags)) return false;
  DdpProduct *p = products;
  while (p < products + PLACES && p->primitive &&
         (p->m != m || p->n != n || p->k != k || p->bias != (bias != NULL)))
    p++;
  if (p == products + PLACES) return false;
  p->m = m;
  p->n = n;
  p->k = k;
  p->bias = bias != NULL;
  if (!p->primitive && !ddp_product_make(p, engine)) return false;
  const void *at[4] = {a, b, c, bias};
  for (int i = 0; i < 3 + p->bias; i++)
    dnnl_memory_set_data_handle(p->memory[i], (void *)(uintptr_t)at[i]);
  const dnnl_exec_arg_t args[4] = {{DNNL_ARG_SRC, p->memory[0]},
                                   {DNNL_ARG_WEIGHTS, p->memory[1]},
                                   {DNNL_ARG_DST, p->memory[2]},
                                   {DNNL_ARG_BIAS, p->memory[3]}};
  return dnnl_primitive_execute(p->primitive, stream, 3 + p->bias, args) == dnnl_success;
}
#else
DDP_INLINE bool ddp_product_nt(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                               const float *bias, float *c) {
  (void)m, (void)n, (void)k, (void)a, (void)b, (void)bias, (void)c;
  return false;
}
#endif

DDP_INLINE void ddp_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a,
                         const float *b, float beta, float *c) {
  if (!ta && tb && beta == 0.0f && m >= 16 && ddp_product_nt(m, n, k, a, b, NULL, c)) return;
  dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0f, a, ta ? m : k, b, tb ? k : n, beta, c,
             n);
}
#else
/* Sums run over k in order; the inner loop is over columns of C, or a dot product where B is read
   transposed. */
DDP_APART void ddp_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *restrict a,
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

/* C = A B^T + bias, for every row. */
DDP_INLINE void ddp_gemm_bias(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                              const float *restrict bias, float *restrict c) {
#if DDP_HAVE_DNNL
  if (m >= 16 && ddp_product_nt(m, n, k, a, b, bias, c)) return;
#endif
  ddp_gemm(false, true, m, n, k, a, b, 0.0f, c);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) c[i * n + j] += bias[j];
}

#endif
