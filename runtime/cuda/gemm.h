/* What the device does with products (ddp/cuda.h) beside calling them. */
#ifndef DDP_CUDA_GEMM_H
#define DDP_CUDA_GEMM_H
#include "ddp/status.h"
#include <stdbool.h>

/* cuBLASLt and its workspace; else the first product opens them. */
DdpError *cuda_gemm_open(void);
/* Gives back workspace and library handle. */
void cuda_gemm_close(void);
/* Whether products have been measured since the last question: what was enqueued is not what later passes
   will enqueue. */
bool cuda_gemm_measured(void);
#endif
