/* The devices that CUDASIM_DEVICES, _SM, _MEMORY, _NAME and _DRIVER describe: all alike. */
#include "sim.h"
#include <stdio.h>

using namespace cudasim;
static thread_local int current;

static bool there(int device) {
  return device >= 0 && device < knobs().devices;
}

/* Of a block, with cudaFuncSetAttribute; from the table of compute capabilities in the programming guide. */
static int shared_optin() {
  switch (knobs().sm) {
  case 70:
    return 96 << 10;
  case 75:
    return 64 << 10;
  case 80:
  case 87:
    return 163 << 10;
  case 86:
  case 89:
  case 120:
    return 99 << 10;
  default:
    return 227 << 10;
  }
}

static bool attribute(int *v, cudaDeviceAttr attr) {
  switch (attr) {
  case cudaDevAttrMaxThreadsPerBlock:
  case cudaDevAttrMaxBlockDimX:
  case cudaDevAttrMaxBlockDimY:
    *v = 1024;
    return true;
  case cudaDevAttrMaxBlockDimZ:
    *v = 64;
    return true;
  case cudaDevAttrMaxGridDimX:
    *v = 2147483647;
    return true;
  case cudaDevAttrMaxGridDimY:
  case cudaDevAttrMaxGridDimZ:
    *v = 65535;
    return true;
  case cudaDevAttrMaxSharedMemoryPerBlock:
    *v = 48 << 10;
    return true;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    *v = shared_optin();
    return true;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
    *v = shared_optin() + 1024;
    return true;
  case cudaDevAttrReservedSharedMemoryPerBlock:
    *v = 1024;
    return true;
  case cudaDevAttrWarpSize:
    *v = 32;
    return true;
  case cudaDevAttrMaxRegistersPerBlock:
    *v = 65536;
    return true;
  case cudaDevAttrClockRate:
    *v = 1000000;
    return true;
  case cudaDevAttrMemoryClockRate:
    *v = 1000000;
    return true;
  case cudaDevAttrGlobalMemoryBusWidth:
    *v = 512;
    return true;
  case cudaDevAttrL2CacheSize:
    *v = 32 << 20;
    return true;
  case cudaDevAttrMultiProcessorCount:
    *v = 4;
    return true;
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    *v = 2048;
    return true;
  case cudaDevAttrMaxBlocksPerMultiprocessor:
    *v = 32;
    return true;
  case cudaDevAttrComputeCapabilityMajor:
    *v = knobs().sm / 10;
    return true;
  case cudaDevAttrComputeCapabilityMinor:
    *v = knobs().sm % 10;
    return true;
  case cudaDevAttrConcurrentKernels:
  case cudaDevAttrUnifiedAddressing:
  case cudaDevAttrStreamPrioritiesSupported:
    *v = 1;
    return true;
  case cudaDevAttrAsyncEngineCount:
    *v = 2;
    return true;
  case cudaDevAttrIntegrated:
  case cudaDevAttrComputeMode:
  case cudaDevAttrEccEnabled:
  case cudaDevAttrManagedMemory:
  case cudaDevAttrCooperativeLaunch:
  case cudaDevAttrMemoryPoolsSupported:
  case cudaDevAttrPciBusId:
  case cudaDevAttrPciDomainId:
    *v = 0;
    return true;
  case cudaDevAttrPciDeviceId:
    *v = 0;
    return true;
  }
  return false;
}

extern "C" {
cudaError_t cudaDriverGetVersion(int *version) { /* tells that there is none by success and 0 */
  *version = knobs().driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
  CUDASIM_ENTER(cudaGetDeviceCount);
  *count = knobs().devices;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  CUDASIM_ENTER(cudaSetDevice);
  if (!there(device)) return leave(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
  CUDASIM_ENTER(cudaGetDevice);
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attr, int device) {
  CUDASIM_ENTER(cudaDeviceGetAttribute);
  if (!there(device)) return leave(cudaErrorInvalidDevice);
  return leave(attribute(value, attr) ? cudaSuccess : cudaErrorInvalidValue);
}
/* Only the fields up to the number of multiprocessors, which lie alike in all versions, and room for the rest. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
  CUDASIM_ENTER(cudaGetDeviceProperties);
  if (!there(device)) return leave(cudaErrorInvalidDevice);
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "%s", knobs().name);
  p->totalGlobalMem = knobs().memory;
  p->sharedMemPerBlock = 48 << 10;
  p->regsPerBlock = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->major = knobs().sm / 10;
  p->minor = knobs().sm % 10;
  attribute(&p->multiProcessorCount, cudaDevAttrMultiProcessorCount);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *text, int len, int device) {
  CUDASIM_ENTER(cudaDeviceGetPCIBusId);
  if (!there(device) || len < 13) return leave(cudaErrorInvalidValue);
  snprintf(text, (size_t)len, "0000:%02x:00.0", (unsigned)device + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  CUDASIM_ENTER(cudaDeviceGetStreamPriorityRange);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
}
