/* The CUDA language for a host compiler: qualifiers, built-in variables, what a kernel may call. Only what
   emitted code uses; the rest does not compile, on purpose. */
#ifndef CUDASIM_CUDA_RUNTIME_H
#define CUDASIM_CUDA_RUNTIME_H
#include <math.h>
#include <cmath>
#include <type_traits>
#include "cuda_runtime_api.h"
#include "cudasim.h"

/* Shared memory of fixed size is static storage in a section of its own: the address sanitizer puts red zones
   round it (-fsanitize-sections=cudasim_shared), and it is filled with NaN before each block. */
#define __shared__ static __attribute__((section("cudasim_shared"), used))
#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
/* __noinline__ is no macro: libstdc++ uses the name. */

#define threadIdx (cudasim::cur->tid)
#define blockIdx  (cudasim::block_idx)
#define blockDim  (cudasim::block_dim)
#define gridDim   (cudasim::grid_dim)
#define warpSize  32

#define CUDASIM_MAKE(T, name)                                                                      \
  static inline name##2 make_##name##2(T x, T y) {                                                 \
    return {x, y};                                                                                 \
  }                                                                                                \
  static inline name##3 make_##name##3(T x, T y, T z) {                                            \
    return {x, y, z};                                                                              \
  }                                                                                                \
  static inline name##4 make_##name##4(T x, T y, T z, T w) {                                       \
    return {x, y, z, w};                                                                           \
  }
CUDASIM_MAKE(signed char, char)
CUDASIM_MAKE(unsigned char, uchar)
CUDASIM_MAKE(short, short)
CUDASIM_MAKE(unsigned short, ushort)
CUDASIM_MAKE(int, int)
CUDASIM_MAKE(unsigned, uint)
CUDASIM_MAKE(long long, longlong)
CUDASIM_MAKE(unsigned long long, ulonglong)
CUDASIM_MAKE(float, float)
CUDASIM_MAKE(double, double)
#undef CUDASIM_MAKE

/* C++ forms of the interface */
template <class T> static inline cudaError_t cudaMalloc(T **out, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void **>(out), bytes);
}
template <class T> static inline cudaError_t cudaMallocHost(T **out, size_t bytes, unsigned = 0) {
  return cudaMallocHost(reinterpret_cast<void **>(out), bytes);
}
template <class... P>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute attr,
                                               int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attr, value);
}
template <class... P>
static inline cudaError_t
cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void (*kernel)(P...), int size,
                                              size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      blocks, reinterpret_cast<const void *>(kernel), size, shared_bytes);
}

#include "sm_collectives.h"
#include "sm_functions.h"
#endif
