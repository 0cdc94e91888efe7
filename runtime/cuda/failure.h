/* The first error of a launch or a library call in the emitted program, which has no way to return one. */
#ifndef DDP_CUDA_FAILURE_H
#define DDP_CUDA_FAILURE_H
#include "ddp/cuda.h"
#include "ddp/status.h"

/* Keeps `error` if it is the first one, else frees it. */
void cuda_fail(DdpError *error);
DdpError *cuda_failure(void); /* and forgets it */
#endif
