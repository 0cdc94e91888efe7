/* Barriers, collectives of a warp, atomics, asynchronous copies. A mask is the whole warp, always. */
#ifndef CUDASIM_SM_COLLECTIVES_H
#define CUDASIM_SM_COLLECTIVES_H
#include <type_traits>
#include "cudasim.h"

static inline void __syncthreads(CUDASIM_PLACE) {
  cudasim::block_barrier(CUDASIM_HERE);
}
static inline int __syncthreads_count(int p, CUDASIM_PLACE) {
  return cudasim::block_count(p != 0, CUDASIM_HERE);
}
static inline int __syncthreads_or(int p, CUDASIM_PLACE) {
  return cudasim::block_count(p != 0, CUDASIM_HERE) != 0;
}
static inline int __syncthreads_and(int p, CUDASIM_PLACE) {
  return cudasim::block_count(p == 0, CUDASIM_HERE) == 0;
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, CUDASIM_PLACE) {
  cudasim::warp_gather(mask, 0, "__syncwarp", CUDASIM_HERE);
}

namespace cudasim {
template <class T> inline uint64_t pack(T v) {
  static_assert(sizeof(T) <= 8, "a shuffle takes at most 8 bytes");
  uint64_t u = 0;
  memcpy(&u, &v, sizeof v);
  return u;
}
template <class T> inline T unpack(uint64_t u) {
  T v;
  memcpy(&v, &u, sizeof v);
  return v;
}
/* What lane `from` has; the own value where that lies outside the own segment of `width` lanes. */
template <class T> inline T lane_of(const uint64_t *values, unsigned from, bool inside) {
  return unpack<T>(values[inside ? from : cur->lane]);
}
} // namespace cudasim

template <class T>
static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32, CUDASIM_PLACE) {
  const uint64_t *all = cudasim::warp_gather(mask, cudasim::pack(v), "__shfl_sync", CUDASIM_HERE);
  unsigned last = (unsigned)width - 1;
  return cudasim::lane_of<T>(all, (cudasim::cur->lane & ~last) + ((unsigned)from & last), true);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32, CUDASIM_PLACE) {
  const uint64_t *all =
      cudasim::warp_gather(mask, cudasim::pack(v), "__shfl_xor_sync", CUDASIM_HERE);
  unsigned lane = cudasim::cur->lane, from = lane ^ (unsigned)with;
  return cudasim::lane_of<T>(all, from,
                             from < 32 && from / (unsigned)width <= lane / (unsigned)width);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, CUDASIM_PLACE) {
  const uint64_t *all =
      cudasim::warp_gather(mask, cudasim::pack(v), "__shfl_down_sync", CUDASIM_HERE);
  unsigned lane = cudasim::cur->lane, end = (lane & ~((unsigned)width - 1)) + (unsigned)width;
  return cudasim::lane_of<T>(all, lane + by, lane + by < end);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, CUDASIM_PLACE) {
  const uint64_t *all =
      cudasim::warp_gather(mask, cudasim::pack(v), "__shfl_up_sync", CUDASIM_HERE);
  unsigned lane = cudasim::cur->lane, begin = lane & ~((unsigned)width - 1);
  return cudasim::lane_of<T>(all, lane - by, lane >= begin + by);
}
static inline unsigned __ballot_sync(unsigned mask, int p, CUDASIM_PLACE) {
  const uint64_t *all = cudasim::warp_gather(mask, p != 0, "__ballot_sync", CUDASIM_HERE);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; i++)
    if (all[i]) bits |= 1u << i;
  return bits;
}
static inline int __any_sync(unsigned mask, int p, CUDASIM_PLACE) {
  return __ballot_sync(mask, p, CUDASIM_HERE) != 0;
}
static inline int __all_sync(unsigned mask, int p, CUDASIM_PLACE) {
  return __ballot_sync(mask, !p, CUDASIM_HERE) == 0;
}
/* Integers, sm_80 and later. */
#define CUDASIM_REDUCE(name, T, op)                                                                \
  static inline T name(unsigned mask, T v, CUDASIM_PLACE) {                                        \
    const uint64_t *all = cudasim::warp_gather(mask, cudasim::pack(v), #name, CUDASIM_HERE);       \
    T r = cudasim::unpack<T>(all[0]);                                                              \
    for (int i = 1; i < 32; i++) {                                                                 \
      T x = cudasim::unpack<T>(all[i]);                                                            \
      r = op;                                                                                      \
    }                                                                                              \
    return r;                                                                                      \
  }
CUDASIM_REDUCE(__reduce_add_sync, unsigned, r + x)
CUDASIM_REDUCE(__reduce_min_sync, unsigned, x < r ? x : r)
CUDASIM_REDUCE(__reduce_max_sync, unsigned, x > r ? x : r)
CUDASIM_REDUCE(__reduce_add_sync, int, (int)((unsigned)r + (unsigned)x))
CUDASIM_REDUCE(__reduce_min_sync, int, x < r ? x : r)
CUDASIM_REDUCE(__reduce_max_sync, int, x > r ? x : r)
#undef CUDASIM_REDUCE

/* ---- atomics: of integers only, since sums of floats would differ from run to run ---- */
#define CUDASIM_ATOMIC(name, op)                                                                   \
  template <class T> static inline T name(T *p, std::common_type_t<T> v) {                         \
    static_assert(std::is_integral<T>::value, #name ": of floats it gives other bits each run");   \
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);                                                  \
    __atomic_store_n(p, (T)(op), __ATOMIC_RELAXED);                                                \
    return old;                                                                                    \
  }
CUDASIM_ATOMIC(atomicAdd, old + v)
CUDASIM_ATOMIC(atomicSub, old - v)
CUDASIM_ATOMIC(atomicMax, v > old ? v : old)
CUDASIM_ATOMIC(atomicMin, v < old ? v : old)
CUDASIM_ATOMIC(atomicExch, v)
CUDASIM_ATOMIC(atomicOr, old | v)
CUDASIM_ATOMIC(atomicAnd, old &v)
#undef CUDASIM_ATOMIC
template <class T>
static inline T atomicCAS(T *p, std::common_type_t<T> compare, std::common_type_t<T> v) {
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  if (old == compare) __atomic_store_n(p, v, __ATOMIC_RELAXED);
  return old;
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}

/* ---- asynchronous copies (cuda_pipeline_primitives.h): they happen at the wait, as late as on a GPU ---- */
static inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes,
                                           size_t zeros = 0) {
  if (bytes != 4 && bytes != 8 && bytes != 16) cudasim::die("cp.async of %zu bytes", bytes);
  if (((uintptr_t)to | (uintptr_t)from) % bytes)
    cudasim::die("cp.async: address not aligned to %zu", bytes);
  cudasim::copy_begin(to, from, bytes - zeros);
  if (zeros) memset((char *)to + bytes - zeros, 0, zeros);
}
static inline void __pipeline_commit() {
  cudasim::copy_commit();
}
static inline void __pipeline_wait_prior(unsigned n) {
  cudasim::copy_wait(n);
}
#endif
