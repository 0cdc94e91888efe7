/* One thread enqueues work; whoever asks later learns what went wrong first. */
#include "failure.h"
#include <cuda_runtime_api.h>

static DdpError *first;

void cuda_fail(DdpError *error) {
  if (first)
    ddp_error_free(error);
  else
    first = error;
}

DdpError *cuda_failure(void) {
  DdpError *e = first;
  first = NULL;
  return e;
}

void ddp_cuda_check(int error, const char *what, const char *file, int line) {
  if (error == cudaSuccess) return;
  cuda_fail(ddp_error(DDP_FAILED, "%s:%d: %s: %s", file, line, what,
                      cudaGetErrorString((cudaError_t)error)));
}
