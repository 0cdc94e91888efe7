/* Copying and clearing of device memory, enqueued like a kernel. */
#ifndef DDP_KERNELS_CUDA_MEMORY_H
#define DDP_KERNELS_CUDA_MEMORY_H
#include "ddp_cuda.h"
#include <initializer_list>

static inline __attribute__((unused)) void ddp_copy(void *stream, void *to, const void *from,
                                                    size_t bytes) {
  DDP_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                           static_cast<cudaStream_t>(stream)));
}
static inline __attribute__((unused)) void ddp_clear(void *stream, void *at, size_t bytes) {
  DDP_CUDA(cudaMemsetAsync(at, 0, bytes, static_cast<cudaStream_t>(stream)));
}

/* The most that one of these needs: kernels take turns with the scratch memory. */
static constexpr int64_t ddp_most(std::initializer_list<int64_t> bytes) {
  int64_t most = 0;
  for (const int64_t n : bytes) most = n > most ? n : most;
  return most;
}

#endif
