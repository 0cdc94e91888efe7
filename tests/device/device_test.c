/* The device of a job for GPUs on the emulator: memory, copies, order between streams, errors. Run in every
   schedule of streams that the emulator has. */
#include "on_gpu.h"
#include <string.h>

static void *stream(DdpStream which) {
  return GPU->stream(which);
}

static void test_memory(void **state) {
  (void)state;
  int64_t before = ddp_memory_used(DDP_MEMORY_state), left, all, now;
  char host[1000], *pinned;
  void *p, *empty;
  CHECK_OK(GPU->room(&left, &all));
  CHECK_OK(GPU->alloc(DDP_MEMORY_state, sizeof host, &p));
  assert_int_equal((uintptr_t)p % 256, 0);
  assert_int_equal(ddp_memory_used(DDP_MEMORY_state) - before, 1024); /* rounded as the plan does */
  CHECK_OK(GPU->room(&now, &all));
  assert_true(now < left);
  memset(host, 1, sizeof host);
  gpu_download(host, p, sizeof host);
  for (size_t i = 0; i < sizeof host; i++) assert_int_equal(host[i], 0);
  GPU->free(DDP_MEMORY_state, p, sizeof host);
  CHECK_OK(GPU->alloc(DDP_MEMORY_state, 0, &empty));
  assert_non_null(empty);
  GPU->free(DDP_MEMORY_state, empty, 0);
  GPU->free(DDP_MEMORY_state, NULL, 0);
  CHECK_OK(GPU->host_alloc(DDP_MEMORY_state, 100, (void **)&pinned));
  for (size_t i = 0; i < 100; i++) assert_int_equal(pinned[i], 0);
  GPU->host_free(DDP_MEMORY_state, pinned, 100);
  assert_int_equal(ddp_memory_used(DDP_MEMORY_state), before);
}

static void test_out_of_memory(void **state) {
  (void)state;
  void *p = &p;
  CHECK_ERROR(
      GPU->alloc(DDP_MEMORY_params, (size_t)1 << 50, &p), DDP_MEMORY,
      "cannot allocate 1073741824.0 MiB for parameters: the GPU has 80.0 of its 80.0 GiB left");
  assert_null(p);
  setenv("CUDASIM_FAIL", "cudaMallocHost:1=2", 1);
  CHECK_ERROR(GPU->host_alloc(DDP_MEMORY_batch, 1 << 20, &p), DDP_MEMORY,
              "cannot allocate 1.0 MiB of page-locked memory for batch");
  unsetenv("CUDASIM_FAIL");
  gpu_alloc(16); /* the device is as usable as before */
  CHECK_OK(GPU->failure());
}

static void test_copies(void **state) {
  (void)state;
  enum { N = 1000 };
  int from[N], back[N] = {0}, *pinned;
  CHECK_OK(GPU->host_alloc(DDP_MEMORY_batch, sizeof from, (void **)&pinned));
  for (int i = 0; i < N; i++) from[i] = pinned[i] = 3 * i;
  int *a = gpu_alloc(sizeof from), *b = gpu_alloc(sizeof from);
  void *s = stream(DDP_STREAM_copy);
  CHECK_OK(GPU->to_device(a, pinned, sizeof from, s));
  CHECK_OK(GPU->copy(b, a, sizeof from, s));
  CHECK_OK(GPU->clear(a, sizeof from, s));
  CHECK_OK(GPU->to_host(back, b, sizeof back, s)); /* pageable: is there when the call returns */
  assert_memory_equal(back, from, sizeof from);
  CHECK_OK(GPU->to_device(a, from, sizeof from, s));
  memset(from, 0, sizeof from); /* pageable: has been read when the call returns */
  CHECK_OK(GPU->to_host(pinned, a, sizeof from, s));
  CHECK_OK(GPU->synchronise(s));
  assert_memory_equal(pinned, back, sizeof back);
  CHECK_OK(GPU->copy(a, a, sizeof from, s));
  CHECK_OK(GPU->copy(NULL, NULL, 0, s));
  CHECK_OK(GPU->clear(NULL, 0, s));
  CHECK_ERROR(GPU->to_host(b, a, 4, s), DDP_FAILED, "cannot copy from the GPU: CUDA says");
  GPU->host_free(DDP_MEMORY_batch, pinned, sizeof from);
}

/* What comes later on another stream sees what came before; the same event serves all pairs of streams. */
static void test_order(void **state) {
  (void)state;
  enum { N = 64, ROUNDS = 5 };
  int *host, *on[4];
  CHECK_OK(GPU->host_alloc(DDP_MEMORY_batch, 2 * N * sizeof *host, (void **)&host));
  for (int i = 0; i < 4; i++) on[i] = gpu_alloc(N * sizeof *host);
  void *copy = stream(DDP_STREAM_copy), *compute = stream(DDP_STREAM_compute),
       *wire = stream(DDP_STREAM_wire);
  for (int round = 1; round <= ROUNDS; round++) {
    for (int i = 0; i < N; i++) host[i] = round * 100 + i;
    CHECK_OK(GPU->to_device(on[0], host, N * sizeof *host, copy));
    CHECK_OK(GPU->order(copy, compute));
    CHECK_OK(GPU->copy(on[1], on[0], N * sizeof *host, compute));
    CHECK_OK(GPU->order(compute, wire));
    CHECK_OK(GPU->copy(on[2], on[1], N * sizeof *host, wire));
    CHECK_OK(GPU->order(wire, compute));
    CHECK_OK(GPU->order(compute, compute));
    CHECK_OK(GPU->copy(on[3], on[2], N * sizeof *host, compute));
    CHECK_OK(GPU->to_host(host + N, on[3], N * sizeof *host, compute));
    CHECK_OK(GPU->synchronise(compute));
    assert_memory_equal(host, host + N, N * sizeof *host);
  }
  GPU->host_free(DDP_MEMORY_batch, host, 2 * N * sizeof *host);
}

/* The emitted program reports errors and goes on; the first one is told, once. */
static void test_failures(void **state) {
  (void)state;
  ddp_cuda_check(0, "fc1", "/somewhere/train.cu", 11);
  CHECK_OK(GPU->failure());
  ddp_cuda_check(700, "fc1", "/somewhere/train.cu", 12);
  ddp_cuda_check(1, "fc2", "/somewhere/train.cu", 13);
  CHECK_ERROR(GPU->failure(), DDP_FAILED, "train.cu:12: fc1: CUDA says \"");
  CHECK_OK(GPU->failure());
  ddp_cuda_check(2, "fc3", "train.cu", 14);
  CHECK_ERROR(GPU->synchronise(stream(DDP_STREAM_compute)), DDP_MEMORY, "train.cu:14: fc3: CUDA");
  CHECK_OK(GPU->synchronise(stream(DDP_STREAM_compute)));
  setenv("CUDASIM_FAIL", "cudaStreamSynchronize:1=700", 1);
  CHECK_ERROR(GPU->synchronise(stream(DDP_STREAM_compute)), DDP_FAILED,
              "a kernel before it read or wrote outside of its memory");
  unsetenv("CUDASIM_FAIL");
}

static void test_describe(void **state) {
  (void)state;
  assert_string_equal(GPU->describe(), "cudasim, 80.0 GiB, sm_90");
  assert_string_equal(GPU->name, "cuda");
  assert_true(GPU->apart);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory),   cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_copies),   cmocka_unit_test(test_order),
      cmocka_unit_test(test_failures), cmocka_unit_test(test_describe),
  };
  return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
