/* Where attention.h and conv.h ask cuDNN before they launch kernels of their own. Not in the emulator, where there is no
   cuDNN; tests with a stand-in define DDP_ASKS_CUDNN. */
#ifndef DDP_KERNELS_CUDA_ASK_CUDNN_H
#define DDP_KERNELS_CUDA_ASK_CUDNN_H
#include "ddp_cuda.h"
#include "ddp/cudnn.h"

#ifndef DDP_ASKS_CUDNN
#ifdef __CUDACC__
#define DDP_ASKS_CUDNN 1
#else
#define DDP_ASKS_CUDNN 0
#endif
#endif

/* Whether f32 may be multiplied with 10 bits (setting tf32): the program defines it in front of this. The kernels here
   multiply with all of them. */
#ifndef DDP_TF32
#define DDP_TF32 0
#endif

static constexpr DdpDType ddp_dtype_of(const float *) {
  return DDP_f32;
}
static constexpr DdpDType ddp_dtype_of(const __nv_bfloat16 *) {
  return DDP_bf16;
}
static constexpr DdpDType ddp_dtype_of(const __half *) {
  return DDP_f16;
}

#endif
