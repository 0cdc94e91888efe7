/* C = op(A) op(B), or C += with beta = 1: dense row-major, A and B in 16 bits, sums in f32, C in f32 or
   rounded to the type of A. bfloat16 through oneDNN where the processor multiplies it; everything else
   is converted and multiplied by ddp_gemm. */
#ifndef DDP_KERNELS_CPU_GEMM16_H
#define DDP_KERNELS_CPU_GEMM16_H
#include "gemm.h"
#include <stdlib.h>

typedef struct DdpProduct16 { /* one shape */
  bool ta, tb, add, half;     /* add: C += ; half: C in 16 bits */
  int64_t m, n, k;
} DdpProduct16;

#if DDP_HAVE_DNNL && DNNL_VERSION_MAJOR == 2 && defined(__AVX512BF16__)
typedef struct DdpMade16 {
  DdpProduct16 what;
  dnnl_primitive_t primitive; /* NULL: a place that is not used yet */
  dnnl_memory_t memory[3];    /* A, B, C */
} DdpMade16;

/* A matrix that is read transposed lies the other way round. */
DDP_INLINE bool ddp_desc16(dnnl_memory_desc_t *d, int64_t rows, int64_t columns, bool t,
                           dnnl_data_type_t type) {
  dnnl_dims_t dims = {rows, columns}, strides = {t ? 1 : columns, t ? rows : 1};
  memset(d, 0, sizeof *d);
  return dnnl_memory_desc_init_by_strides(d, 2, dims, type, strides) == dnnl_success;
}

static __attribute__((unused, noinline)) bool ddp_make16(DdpMade16 *p, dnnl_engine_t engine) {
  const DdpProduct16 *w = &p->what;
  dnnl_memory_desc_t d[3];
  dnnl_matmul_desc_t matmul;
  dnnl_primitive_desc_t desc = NULL;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_post_ops_t add = NULL;
  bool good = ddp_desc16(&d[0], w->m, w->k, w->ta, dnnl_bf16) &&
              ddp_desc16(&d[1], w->k, w->n, w->tb, dnnl_bf16) &&
              ddp_desc16(&d[2], w->m, w->n, false, w->half ? dnnl_bf16 : dnnl_f32);
  for (int i = 0; good && i < 3; i++)
    good = !dnnl_memory_create(&p->memory[i], &d[i], engine, DNNL_MEMORY_NONE);
  good = good && !dnnl_primitive_attr_create(&attr) && !dnnl_post_ops_create(&add);
  if (good && w->add)
    good = !dnnl_post_ops_append_sum(add, 1.0f) && !dnnl_primitive_attr_set_post_ops(attr, add);
  good = good && !dnnl_matmul_desc_init(&matmul, &d[0], &d[1], NULL, &d[2]) &&
         !dnnl_primitive_desc_create(&desc, &matmul, attr, engine, NULL) &&
         !dnnl_primitive_create(&p->primitive, desc);
  dnnl_primitive_desc_destroy(desc);
  dnnl_post_ops_destroy(add);
  dnnl_primitive_attr_destroy(attr);
  return good;
}

/* false: no place left, or oneDNN cannot. One thread at a time calls it. */
static __attribute__((unused, noinline)) bool
ddp_product16(const DdpProduct16 *w, const uint16_t *a, const uint16_t *b, void *c) {
  enum { PLACES = 256 };
  static DdpMade16 made[PLACES];
  static dnnl_engine_t engine;
  static dnnl_stream_t stream;
  if (!engine && dnnl_engine_create(&engine, dnnl_cpu, 0)) return false;
  if (!stream && dnnl_stream_create(&stream, engine, dnnl_stream_default_flags)) return false;
  uint64_t h = (uint64_t)w->m * 0x9e3779b97f4a7c15u + (uint64_t)w->n * 0xc2b2ae3d27d4eb4fu +
               (uint64_t)w->k * 0x165667b19e3779f9u + (w->ta ? 1 : 0) + (w->tb ? 2 : 0) +
               (w->add ? 4 : 0) + (w->half ? 8 : 0);
  DdpMade16 *p = &made[(h ^ h >> 29) % PLACES], *first = p;
  while (p->primitive &&
         (p->what.m != w->m || p->what.n != w->n || p->what.k != w->k || p->what.ta != w->ta ||
          p->what.tb != w->tb || p->what.add != w->add || p->what.half != w->half)) {
    p = p + 1 == made + PLACES ? made : p + 1;
    if (p == first) return false;
  }
  p->what = *w;
  if (!p->primitive && !ddp_make16(p, engine)) return false;
  const void *at[3] = {a, b, c};
  for (int i = 0; i < 3; i++) dnnl_memory_set_data_handle(p->memory[i], (void *)(uintptr_t)at[i]);
  const dnnl_exec_arg_t args[3] = {
      {DNNL_ARG_SRC, p->memory[0]}, {DNNL_ARG_WEIGHTS, p->memory[1]}, {DNNL_ARG_DST, p->memory[2]}};
  return dnnl_primitive_execute(p->primitive, stream, 3, args) == dnnl_success;
}
#else
DDP_INLINE bool ddp_product16(const DdpProduct16 *w, const uint16_t *a, const uint16_t *b,
                              void *c) {
  (void)w, (void)a, (void)b, (void)c;
  return false;
}
#endif

/* Room for converted matrices that grows to the largest product and stays. */
static __attribute__((unused, noinline)) float *ddp_room16(int which, int64_t n) {
  static float *room[3];
  static int64_t size[3];
  if (size[which] >= n) return room[which];
  free(room[which]);
  room[which] = aligned_alloc(64, ((size_t)n * sizeof(float) + 63) / 64 * 64);
  size[which] = room[which] ? n : 0;
  if (!room[which]) abort(); /* as for any other memory of a step */
  return room[which];
}

#define DDP_GEMM16(type)                                                                           \
  static __attribute__((unused, noinline))                                                         \
  const float *ddp_widen_##type(int which, int64_t n, const uint16_t *x) {                         \
    float *y = ddp_room16(which, n);                                                               \
    for (int64_t i = 0; i < n; i++) y[i] = ddp_load_##type(x[i]);                                  \
    return y;                                                                                      \
  }                                                                                                \
  DDP_INLINE void ddp_gemm_##type(bool ta, bool tb, int64_t m, int64_t n, int64_t k,               \
                                  const uint16_t *a, const uint16_t *b, float beta, float *c) {    \
    const DdpProduct16 w = {ta, tb, beta != 0.0f, false, m, n, k};                                 \
    if (DDP_PRODUCT16_##type && ddp_product16(&w, a, b, c)) return;                                \
    const float *x = ddp_widen_##type(0, m * k, a), *y = ddp_widen_##type(1, k * n, b);            \
    ddp_gemm(ta, tb, m, n, k, x, y, beta, c);                                                      \
  }                                                                                                \
  DDP_INLINE void ddp_gemm_##type##_##type(bool ta, bool tb, int64_t m, int64_t n, int64_t k,      \
                                           const uint16_t *a, const uint16_t *b, uint16_t *c) {    \
    const DdpProduct16 w = {ta, tb, false, true, m, n, k};                                         \
    if (DDP_PRODUCT16_##type && ddp_product16(&w, a, b, c)) return;                                \
    const float *x = ddp_widen_##type(0, m * k, a), *y = ddp_widen_##type(1, k * n, b);            \
    float *z = ddp_room16(2, m * n);                                                               \
    ddp_gemm(ta, tb, m, n, k, x, y, 0.0f, z);                                                      \
    for (int64_t i = 0; i < m * n; i++) c[i] = ddp_store_##type(z[i]);                             \
  }
#define DDP_PRODUCT16_bf16 1
#define DDP_PRODUCT16_f16  0
DDP_GEMM16(bf16)
DDP_GEMM16(f16)

#endif
