/* What is left to do behind a product with an epilogue (ddp_cuda_gemm_fused): the library writes gradients of a
   bias, and those of the micro-batches after the first are added. */
#ifndef DDP_KERNELS_CUDA_EPILOGUE_H
#define DDP_KERNELS_CUDA_EPILOGUE_H
#include "ddp_cuda.h"

static __global__ void __launch_bounds__(128)
    ddp_add_sums_kernel(float *__restrict__ to, const float *__restrict__ sums, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (i < n) to[i] += sums[i];
}

static inline void ddp_add_sums(void *stream, float *to, const void *sums, int64_t n) {
  DDP_LAUNCH(ddp_add_sums_kernel, ddp_blocks(n, 128), 128, 0, stream, to,
             static_cast<const float *>(sums), n);
}

#endif
