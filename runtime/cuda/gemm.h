/* What the device does with products (ddp/cuda.h) beside calling them. */
#ifndef DDP_CUDA_GEMM_H
#define DDP_CUDA_GEMM_H

/* Gives back workspace and library handle. */
void cuda_gemm_close(void);
#endif
