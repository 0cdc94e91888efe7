/* cuBLASLt, opened at the first product: its functions, one handle, one workspace. */
#ifndef DDP_CUDA_GEMM_LIBRARY_H
#define DDP_CUDA_GEMM_LIBRARY_H
#include "ddp/job.h"
#include "ddp/status.h"
#include "library.h"
#include <cublasLt.h>

#define CUBLASLT_FUNCTIONS(X)                                                                      \
  X(cublasLtCreate)                                                                                \
  X(cublasLtDestroy)                                                                               \
  X(cublasLtGetVersion)                                                                            \
  X(cublasLtGetStatusString)                                                                       \
  X(cublasLtMatmul)                                                                                \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                \
  X(cublasLtMatmulAlgoCheck)                                                                       \
  X(cublasLtMatmulDescCreate)                                                                      \
  X(cublasLtMatmulDescDestroy)                                                                     \
  X(cublasLtMatmulDescSetAttribute)                                                                \
  X(cublasLtMatrixLayoutCreate)                                                                    \
  X(cublasLtMatrixLayoutDestroy)                                                                   \
  X(cublasLtMatrixLayoutSetAttribute)                                                              \
  X(cublasLtMatmulPreferenceCreate)                                                                \
  X(cublasLtMatmulPreferenceDestroy)                                                               \
  X(cublasLtMatmulPreferenceSetAttribute)

typedef struct GemmLibrary {
  CUBLASLT_FUNCTIONS(CUDA_POINTER)
} GemmLibrary;

typedef struct GemmContext {
  GemmLibrary lt;
  cublasLtHandle_t handle;
  void *workspace;
} GemmContext;

/* Opens the library at the first call. */
DdpError *gemm_context(const GemmContext **out);
const GemmContext *gemm_opened(void); /* as it is, perhaps not at all */
void gemm_context_close(void);
/* NULL for success; else "cannot DOING: cuBLASLt says ..". */
DdpError *gemm_status(const GemmContext *c, cublasStatus_t status, const char *doing);
#endif
