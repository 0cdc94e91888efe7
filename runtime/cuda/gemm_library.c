/* In: nothing but the environment. Out: cuBLASLt, ready, or one line that says what is missing. */
#include "gemm_library.h"
#include "ddp/cuda.h"
#include "device.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

static GemmContext context;

DdpError *gemm_status(const GemmContext *c, cublasStatus_t status, const char *doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return NULL;
  return ddp_error(DDP_FAILED, "cannot %s: cuBLASLt says \"%s\" (%d)", doing,
                   c->lt.cublasLtGetStatusString(status), (int)status);
}

static DdpError *open_library(GemmLibrary *lt) {
  static const CudaLibrary library = {"cuBLASLt", "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR),
                                      DDP_ENV_DDP_CUBLASLT_LIBRARY,
                                      "it comes with the CUDA toolkit (libcublas)"};
  static const char *const names[] = {CUBLASLT_FUNCTIONS(CUDA_NAME) NULL};
  DDP_TRY(cuda_library_open(&library, names, lt));
  size_t version = lt->cublasLtGetVersion();
  if (version / 10000 != CUBLAS_VER_MAJOR)
    return ddp_error(DDP_FAILED,
                     "cuBLASLt is version %zu.%zu and this program was built with %d: %s names a "
                     "file of that version",
                     version / 10000, version / 100 % 100, CUBLAS_VER_MAJOR,
                     "DDP_CUBLASLT_LIBRARY");
  return NULL;
}

DdpError *gemm_context(const GemmContext **out) {
  *out = &context;
  if (context.workspace) return NULL;
  if (!context.lt.cublasLtCreate) {
    GemmLibrary lt;
    DDP_TRY(open_library(&lt));
    context.lt = lt;
  }
  if (!context.handle)
    DDP_TRY(gemm_status(&context, context.lt.cublasLtCreate(&context.handle), "open cuBLASLt"));
  return ddp_device_cuda.alloc(DDP_MEMORY_block, DDP_PRODUCT_WORKSPACE, &context.workspace);
}

const GemmContext *gemm_opened(void) {
  return &context;
}

void gemm_context_close(void) {
  if (context.handle) (void)context.lt.cublasLtDestroy(context.handle);
  context.handle = NULL;
  ddp_device_cuda.free(DDP_MEMORY_block, context.workspace, DDP_PRODUCT_WORKSPACE);
  context.workspace = NULL;
}
