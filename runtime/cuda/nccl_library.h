/* NCCL, opened when several ranks train: its functions. */
#ifndef DDP_CUDA_NCCL_LIBRARY_H
#define DDP_CUDA_NCCL_LIBRARY_H
#include "ddp/status.h"
#include "library.h"
#include <nccl.h>

#define NCCL_FUNCTIONS(X)                                                                          \
  X(ncclGetVersion)                                                                                \
  X(ncclGetUniqueId)                                                                               \
  X(ncclCommInitRankConfig)                                                                        \
  X(ncclCommGetAsyncError)                                                                         \
  X(ncclCommAbort)                                                                                 \
  X(ncclCommFinalize)                                                                              \
  X(ncclCommDestroy)                                                                               \
  X(ncclGetErrorString)                                                                            \
  X(ncclGetLastError)                                                                              \
  X(ncclMemAlloc)                                                                                  \
  X(ncclMemFree)                                                                                   \
  X(ncclCommRegister)                                                                              \
  X(ncclCommDeregister)                                                                            \
  X(ncclAllReduce)                                                                                 \
  X(ncclBroadcast)                                                                                 \
  X(ncclAllGather)
/* Of NCCL 2.27 and later; NULL before. */
#define NCCL_WINDOW_FUNCTIONS(X)                                                                   \
  X(ncclCommWindowRegister)                                                                        \
  X(ncclCommWindowDeregister)

typedef struct NcclLibrary {
  NCCL_FUNCTIONS(CUDA_POINTER)
} NcclLibrary;
typedef struct NcclWindowLibrary {
  NCCL_WINDOW_FUNCTIONS(CUDA_POINTER)
} NcclWindowLibrary;

typedef struct NcclContext {
  NcclLibrary nccl;
  NcclWindowLibrary window;
  int version; /* 22809; 0: not opened */
} NcclContext;

/* Opens the library at the first call. Errors: not found, too old. */
DdpError *nccl_context(const NcclContext **out);
#endif
