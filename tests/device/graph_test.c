/* Passes that are captured and replayed, on the emulator: what is enqueued, how often the pass itself runs, and
   what happens where something in it cannot be captured. Run in every schedule of streams. */
#include "on_gpu.h"
#include <string.h>

enum { N = 32 };
static int *in, *middle, *out, *pinned; /* device; device; device; host */
static int runs;
static bool fork_wire, join_wire, synchronise, fails;

/* out = in, by way of the wire stream if that takes part. */
static void pass(DdpStep *step) {
  runs++;
  void *wire = GPU->stream(DDP_STREAM_wire), *at = fork_wire ? wire : step->stream;
  DdpError *e = NULL;
  if (fork_wire) e = GPU->order(step->stream, wire);
  e = ddp_error_first(e, GPU->copy(middle, in, N * sizeof *in, at));
  if (fork_wire && join_wire) e = ddp_error_first(e, GPU->order(wire, step->stream));
  if (!fork_wire || join_wire)
    e = ddp_error_first(e, GPU->copy(out, middle, N * sizeof *in, step->stream));
  if (synchronise) e = ddp_error_first(e, GPU->synchronise(step->stream));
  if (fails) ddp_cuda_check(1, "fc1", "train.cu", 7);
  if (e) {
    ddp_cuda_check(900, e->message, "train.cu", 8);
    ddp_error_free(e);
  }
}
static void other_pass(DdpStep *step) {
  DdpError *e = GPU->clear(out, N * sizeof *in, step->stream);
  if (e) fail_msg("%s", e->message);
}

static int reset(void **state) {
  (void)state;
  GPU->close();
  CHECK_OK(GPU->open(&gpu_job, 0, 1));
  in = gpu_alloc(N * sizeof *in);
  middle = gpu_alloc(N * sizeof *in);
  out = gpu_alloc(N * sizeof *in);
  CHECK_OK(GPU->host_alloc(DDP_MEMORY_batch, N * sizeof *in, (void **)&pinned));
  runs = 0;
  fork_wire = join_wire = synchronise = fails = false;
  unsetenv("DDP_CUDA_GRAPHS");
  return 0;
}

static DdpStep step_now(void) {
  return (DdpStep){.batch = 1, .stream = GPU->stream(DDP_STREAM_compute)};
}
static void set_in(int value) {
  for (int i = 0; i < N; i++) pinned[i] = value + i;
  CHECK_OK(GPU->to_device(in, pinned, N * sizeof *in, GPU->stream(DDP_STREAM_compute)));
  CHECK_OK(GPU->synchronise(GPU->stream(DDP_STREAM_compute)));
}
static void check_out(int value) {
  int got[N];
  gpu_download(got, out, sizeof got);
  for (int i = 0; i < N; i++) assert_int_equal(got[i], value ? value + i : 0);
}

static void replays(int times, int expected_runs) {
  for (int i = 1; i <= times; i++) {
    DdpStep step = step_now();
    set_in(100 * i);
    CHECK_OK(GPU->replay(7, pass, &step));
    check_out(100 * i);
  }
  assert_int_equal(runs, expected_runs);
}

static void test_replay(void **state) {
  (void)state;
  replays(5, 2); /* runs, is captured, is replayed */
}
static void test_streams(void **state) {
  (void)state;
  fork_wire = join_wire = true;
  replays(5, 2);
}
static void test_off(void **state) {
  (void)state;
  setenv("DDP_CUDA_GRAPHS", "0", 1);
  replays(4, 4);
}

static void test_keys(void **state) {
  (void)state;
  for (int i = 1; i <= 4; i++) {
    DdpStep step = step_now();
    set_in(i);
    CHECK_OK(GPU->replay(1, pass, &step));
    check_out(i);
    CHECK_OK(GPU->replay(2, other_pass, &step));
    check_out(0);
  }
  assert_int_equal(runs, 2);
}
/* More than have a place are run as they are. */
static void test_many_keys(void **state) {
  (void)state;
  for (int round = 0; round < 3; round++)
    for (uint64_t key = 0; key < 70; key++) {
      DdpStep step = step_now();
      set_in(1 + (int)key);
      CHECK_OK(GPU->replay(key << 32, pass, &step));
      check_out(1 + (int)key);
    }
  assert_int_equal(runs, 64 * 2 + 6 * 3);
}

/* The run of before shows what is wrong to nobody; the capture does, and leaves everything usable. */
static void cannot_be_captured(const char *text) {
  DdpStep step = step_now();
  set_in(5);
  CHECK_OK(GPU->replay(7, pass, &step));
  CHECK_ERROR(GPU->replay(7, pass, &step), DDP_FAILED, text);
  CHECK_OK(GPU->failure());
  fork_wire = join_wire = synchronise = fails = false;
  set_in(6);
  CHECK_OK(GPU->replay(7, pass, &step));
  check_out(6);
}
static void test_not_joined(void **state) {
  (void)state;
  fork_wire = true;
  cannot_be_captured("cannot capture a pass: CUDA says \"");
}
static void test_waits(void **state) {
  (void)state;
  synchronise = true;
  cannot_be_captured("train.cu:8: cannot finish work of the GPU");
}
static void test_fails(void **state) {
  (void)state;
  DdpStep step = step_now();
  fails = true;
  CHECK_ERROR(GPU->replay(7, pass, &step), DDP_FAILED, "train.cu:7: fc1: CUDA");
  CHECK_ERROR(GPU->replay(7, pass, &step), DDP_FAILED, "train.cu:7: fc1: CUDA");
  fails = false;
  replays(3, 2 + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_replay, reset),    cmocka_unit_test_setup(test_streams, reset),
      cmocka_unit_test_setup(test_off, reset),       cmocka_unit_test_setup(test_keys, reset),
      cmocka_unit_test_setup(test_many_keys, reset), cmocka_unit_test_setup(test_not_joined, reset),
      cmocka_unit_test_setup(test_waits, reset),     cmocka_unit_test_setup(test_fails, reset),
  };
  return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
