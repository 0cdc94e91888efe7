/* Four neighbours for each thread in one access: for kernels that go over arenas element by element, where
   memory is the limit. Addresses are multiples of four elements. Launches: ddp_quad_blocks(n) blocks of 256. */
#ifndef DDP_KERNELS_CUDA_QUAD_H
#define DDP_KERNELS_CUDA_QUAD_H
#include "ddp_cuda.h"

typedef DdpVector<float, 4> DdpQuad;

static inline unsigned ddp_quad_blocks(int64_t n) {
  return ddp_blocks(n, 4 * 256);
}
/* The first element of this thread. */
DDP_DEVICE int64_t ddp_quad_here(void) {
  return (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) * 4;
}

/* x[i .. i + 3], and 0 from x[end] on. */
template <class T> DDP_DEVICE DdpQuad ddp_quad_load(const T *x, int64_t i, int64_t end) {
  DdpQuad q;
  if (i + 4 <= end) {
    const DdpVector<T, 4> v = *reinterpret_cast<const DdpVector<T, 4> *>(x + i);
    DDP_UNROLL
    for (int k = 0; k < 4; k++) q.at[k] = ddp_load(v.at[k]);
    return q;
  }
  DDP_UNROLL
  for (int k = 0; k < 4; k++) q.at[k] = i + k < end ? ddp_load(x[i + k]) : 0.0f;
  return q;
}
template <class T> DDP_DEVICE void ddp_quad_store(T *x, int64_t i, int64_t end, DdpQuad q) {
  if (i + 4 <= end) {
    DdpVector<T, 4> v;
    DDP_UNROLL
    for (int k = 0; k < 4; k++) ddp_store(&v.at[k], q.at[k]);
    *reinterpret_cast<DdpVector<T, 4> *>(x + i) = v;
    return;
  }
  DDP_UNROLL
  for (int k = 0; k < 4; k++)
    if (i + k < end) ddp_store(x + i + k, q.at[k]);
}

#endif
