/* In: numbers of the CUDA runtime. Out: errors with a class and, where one is known, a fix. One thread
   enqueues work; whoever asks later learns what went wrong first. */
#include "failure.h"
#include <stdio.h>
#include <string.h>

/* What the runtime's own text leaves open. */
typedef struct Remedy {
  cudaError_t error;
  DdpClass klass;
  const char *text;
} Remedy;
static const Remedy remedies[] = {
    {cudaErrorMemoryAllocation, DDP_MEMORY,
     "a smaller batch or model needs less, `ddpc plan` shows what takes it"},
    {cudaErrorIllegalAddress, DDP_FAILED,
     "a kernel before it read or wrote outside of its memory; DDP_CUDA_GRAPHS=0 with "
     "CUDA_LAUNCH_BLOCKING=1 names the call"},
    {cudaErrorMisalignedAddress, DDP_FAILED,
     "a kernel before it used an address that is not aligned; DDP_CUDA_GRAPHS=0 with "
     "CUDA_LAUNCH_BLOCKING=1 names the call"},
    {cudaErrorECCUncorrectable, DDP_FAILED,
     "the GPU's memory has failed: take it out of service (nvidia-smi -q -d ECC)"},
    {cudaErrorNoKernelImageForDevice, DDP_FAILED,
     "the program has no code for this GPU: build it with --target cuda:sm_NN of the GPU"},
    {cudaErrorUnsupportedPtxVersion, DDP_FAILED,
     "the driver is too old for the program's PTX: build it with --target cuda:sm_NN of the GPU, "
     "or "
     "update the driver"},
    {cudaErrorDevicesUnavailable, DDP_FAILED,
     "another process holds the GPU for itself, or its compute mode forbids programs (nvidia-smi "
     "-q "
     "-d COMPUTE)"},
    {cudaErrorSystemNotReady, DDP_FAILED,
     "a service of the GPUs' interconnect does not run: start nvidia-fabricmanager"},
    {cudaErrorSystemDriverMismatch, DDP_FAILED,
     "the driver was updated and its kernel module was not: restart the machine"},
};

/* "WHERE: CUDA says ..". */
static DdpError *says(cudaError_t error, const char *where) {
  const char *reason = cudaGetErrorString(error);
  for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++) {
    const Remedy *r = &remedies[i];
    if (r->error == error)
      return ddp_error(r->klass, "%s: CUDA says \"%s\" (%d); %s", where, reason, (int)error,
                       r->text);
  }
  return ddp_error(DDP_FAILED, "%s: CUDA says \"%s\" (%d)", where, reason, (int)error);
}

DdpError *cuda_status(cudaError_t error, const char *doing) {
  char where[256];
  if (error == cudaSuccess) return NULL;
  (void)cudaGetLastError();
  snprintf(where, sizeof where, "cannot %s", doing);
  return says(error, where);
}

static DdpError *first;

void cuda_fail(DdpError *error) {
  if (!error) return;
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
  char where[512];
  if (error == cudaSuccess) return;
  const char *slash = strrchr(file, '/');
  snprintf(where, sizeof where, "%s:%d: %s", slash ? slash + 1 : file, line, what);
  cuda_fail(says((cudaError_t)error, where));
}
