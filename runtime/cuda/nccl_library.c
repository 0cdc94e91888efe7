/* In: nothing but the environment. Out: NCCL's functions, or one line that says what is missing. */
#include "nccl_library.h"

/* The first one with ncclMemAlloc and ncclCommRegister; later than what captures collectives in graphs. */
enum { NCCL_OLDEST = 21900 };

static NcclContext context;

DdpError *nccl_context(const NcclContext **out) {
  static const CudaLibrary library = {
      "NCCL", "libnccl.so.2", DDP_ENV_DDP_NCCL_LIBRARY,
      "several GPUs train together through it: install libnccl2 from NVIDIA's CUDA repository"};
  static const char *const names[] = {NCCL_FUNCTIONS(CUDA_NAME) NULL};
  static const char *const later[] = {NCCL_WINDOW_FUNCTIONS(CUDA_NAME) NULL};
  *out = &context;
  if (context.version) return NULL;
  NcclContext c = {.version = 0};
  DDP_TRY(cuda_library_open(&library, names, &c.nccl));
  if (c.nccl.ncclGetVersion(&c.version) != ncclSuccess)
    return ddp_error(DDP_FAILED, "NCCL does not say which version it is");
  if (c.version < NCCL_OLDEST)
    return ddp_error(DDP_FAILED,
                     "NCCL is version %d.%d.%d and this program needs 2.19 or later: update "
                     "libnccl2, or set DDP_NCCL_LIBRARY to the file of a later one",
                     c.version / 10000, c.version / 100 % 100, c.version % 100);
  DdpError *none = cuda_library_open(&library, later, &c.window);
  if (none) c.window = (NcclWindowLibrary){NULL, NULL};
  ddp_error_free(none);
  context = c;
  return NULL;
}
