/* NVIDIA's libraries that are opened at run time: missing, of another kind, refusing. What the user reads names
   the library, the reason and what to do. */
#include "on_gpu.h"
#include "gemm_library.h"
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

static DdpGemm gemm = {
    .name = "fc1", .in = DDP_f32, .out = DDP_f32, .m = {4, 0}, .n = {4, 0}, .k = {4, 0}};

/* The error of a product, as the loop asks for it. */
static DdpError *multiply(void) {
  static float *p;
  if (!p) p = gpu_alloc(64 * sizeof *p);
  ddp_cuda_gemm_on(&gemm, GPU->stream(DDP_STREAM_compute), 1, p, p + 16, p + 32, NULL, NULL, false);
  return GPU->failure();
}

static void test_missing(void **state) {
  (void)state;
  setenv("DDP_CUBLASLT_LIBRARY", "/nowhere/libcublasLt.so.13", 1);
  CHECK_ERROR(multiply(), DDP_FAILED,
              "product fc1, 1 of [4, 4] x [4, 4]: cuBLASLt is needed and cannot be opened: "
              "/nowhere/libcublasLt.so.13: cannot open shared object file");
  CHECK_ERROR(multiply(), DDP_FAILED,
              "it comes with the CUDA toolkit (libcublas), or set DDP_CUBLASLT_LIBRARY to its file "
              "or LD_LIBRARY_PATH to its folder");
}

static void test_other_library(void **state) {
  (void)state;
  setenv("DDP_CUBLASLT_LIBRARY", "libm.so.6", 1);
  CHECK_ERROR(multiply(), DDP_FAILED, "cuBLASLt has no cublasLtCreate: this program needs another");
}

static void test_stand_in(void **state) {
  (void)state;
  setenv("DDP_CUBLASLT_LIBRARY", STAND_IN, 1);
  CHECK_OK(multiply());
  CHECK_OK(GPU->synchronise(GPU->stream(DDP_STREAM_compute)));
}

#ifdef WITH_CUDA
/* The vendor's own: found without a setting, all functions there; it opens where there is a driver, and else
   says so. */
static void test_real(void **state) {
  (void)state;
  static const CudaLibrary library = {"cuBLASLt", "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR),
                                      DDP_ENV_DDP_CUBLASLT_LIBRARY, ""};
  static const char *const names[] = {CUBLASLT_FUNCTIONS(CUDA_NAME) NULL};
  GemmContext c = {.handle = NULL};
  unsetenv("DDP_CUBLASLT_LIBRARY");
  CHECK_OK(cuda_library_open(&library, names, &c.lt));
  assert_int_equal(c.lt.cublasLtGetVersion() / 10000, CUBLAS_VER_MAJOR);
  cublasStatus_t status = c.lt.cublasLtCreate(&c.handle);
  if (status == CUBLAS_STATUS_SUCCESS) {
    c.lt.cublasLtDestroy(c.handle);
    return;
  }
  CHECK_ERROR(gemm_status(&c, status, "open cuBLASLt"), DDP_FAILED,
              "cannot open cuBLASLt: cuBLASLt says \"");
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_missing),
      cmocka_unit_test(test_other_library),
#ifdef WITH_CUDA
      cmocka_unit_test(test_real),
#endif
      cmocka_unit_test(test_stand_in),
  };
  return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
