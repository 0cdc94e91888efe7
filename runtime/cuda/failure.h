/* Errors of the CUDA runtime as values; and the first error of a launch or a library call in the emitted
   program, which has no way to return one. */
#ifndef DDP_CUDA_FAILURE_H
#define DDP_CUDA_FAILURE_H
#include "ddp/cuda.h"
#include "ddp/status.h"
#include <cuda_runtime_api.h>

/* NULL where `error` is none; else "cannot DOING: reason; what to do". CUDA's own record of
   the last error is cleared, so that the next launch does not report it again. */
DdpError *cuda_status(cudaError_t error, const char *doing);

/* Keeps `error` if it is the first one, else frees it. NULL is no error. */
void cuda_fail(DdpError *error);
DdpError *cuda_failure(void); /* and forgets it */
#endif
