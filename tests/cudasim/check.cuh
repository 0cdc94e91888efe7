/* What the tests of the emulator share; nvcc and the emulator read the same text. */
#ifndef CUDASIM_CHECK_CUH
#define CUDASIM_CHECK_CUH
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#define CHECK_CUDA(call)                                                                           \
  do {                                                                                             \
    cudaError_t error_ = (call);                                                                   \
    if (error_ != cudaSuccess) {                                                                   \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));   \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)
#ifdef __CUDACC__
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                           \
  do {                                                                                             \
    kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__);                                  \
    CHECK_CUDA(cudaGetLastError());                                                                \
  } while (0)
#define DYNAMIC_SHARED(T, name)                                                                    \
  extern __shared__ __align__(16) unsigned char dynamic_shared_[];                                 \
  T *const name = reinterpret_cast<T *>(dynamic_shared_)
#else
#define LAUNCH(kernel, grid, block, shared, stream, ...)                                           \
  do {                                                                                             \
    cudasim::launch_kernel(#kernel, kernel, dim3(grid), dim3(block), (shared), (stream),           \
                           __VA_ARGS__);                                                           \
    CHECK_CUDA(cudaGetLastError());                                                                \
  } while (0)
#define DYNAMIC_SHARED(T, name) T *const name = reinterpret_cast<T *>(cudasim::dyn_smem)
#endif

inline int failures;
#define EXPECT(condition, ...)                                                                     \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      failures++;                                                                                  \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                              \
      fprintf(stderr, __VA_ARGS__);                                                                \
      fputc('\n', stderr);                                                                         \
    }                                                                                              \
  } while (0)

template <class T> static T *device_array(size_t n) {
  void *p;
  CHECK_CUDA(cudaMalloc(&p, n * sizeof(T)));
  return static_cast<T *>(p);
}
template <class T> static T *to_device(const std::vector<T> &from) {
  T *p = device_array<T>(from.size());
  CHECK_CUDA(cudaMemcpy(p, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}
template <class T> static std::vector<T> to_host(const T *from, size_t n) {
  std::vector<T> v(n);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaMemcpy(v.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost));
  return v;
}
#endif
