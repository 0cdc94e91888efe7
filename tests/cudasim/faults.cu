/* Each case holds one mistake, or, as a control, none: `faults CASE` prints "right" or "wrong number", or ends in a
   report. CMakeLists.txt says what each must give, in which build and which schedule. */
#include "check.cuh"
#include <string.h>
#include <initializer_list>

enum { N = 64 };
#define ALL 0xffffffffu
static cudaStream_t compute, wire; /* wire: of higher priority */
static cudaEvent_t event, joined;

/* ---------- kernels ---------- */
static __global__ void right(float *y) {
  __shared__ float b[N];
  b[threadIdx.x] = 1.f;
  __syncthreads();
  y[threadIdx.x] = b[N - 1 - threadIdx.x];
}
static __global__ void divergent(float *y) {
  __shared__ float b[N];
  b[threadIdx.x] = 1.f;
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = b[N - 1 - threadIdx.x];
}
static __global__ void early_exit(float *y) {
  if (threadIdx.x == 3) return;
  __syncthreads();
  y[threadIdx.x] = 1.f;
}
static __global__ void half_warp(float *y) {
  float v = 1.f;
  if (threadIdx.x % 32 < 16) v = __shfl_xor_sync(ALL, v, 1);
  y[threadIdx.x] = v;
}
static __global__ void partial_mask(float *y) {
  y[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.f, 1);
}
static __global__ void two_collectives(float *y) {
  float v = 1.f;
  if (threadIdx.x % 2)
    v = __shfl_xor_sync(ALL, v, 1);
  else
    v = __shfl_xor_sync(ALL, v, 2);
  y[threadIdx.x] = v;
}
static __global__ void beyond_static(float *y) {
  __shared__ float b[N];
  b[threadIdx.x + 1] = 1.f;
  __syncthreads();
  y[threadIdx.x] = b[threadIdx.x];
}
static __global__ void beyond_dynamic(float *y) {
  DYNAMIC_SHARED(float, b);
  b[threadIdx.x + 1] = 1.f;
  __syncthreads();
  y[threadIdx.x] = b[threadIdx.x];
}
static __global__ void beyond_global(float *y) {
  y[threadIdx.x + 1] = 1.f;
}
static __global__ void before_global(float *y) {
  y[threadIdx.x] = 1.f;
  if (threadIdx.x == 0) y[-1] = 1.f;
}
static __global__ void beyond_local(float *y, int n) {
  float a[8];
  for (int i = 0; i <= n; i++) a[i] = 1.f;
  y[threadIdx.x] = a[n - 1];
}
static __global__ void not_set_shared(float *y) {
  __shared__ float b[N];
  if (threadIdx.x < N - 1) b[threadIdx.x] = 1.f;
  __syncthreads();
  y[threadIdx.x] = b[threadIdx.x];
}
static __global__ void not_set_dynamic(float *y) {
  DYNAMIC_SHARED(float, b);
  y[threadIdx.x] = b[threadIdx.x];
}
static __global__ void not_set_global(float *y, const float *x) {
  y[threadIdx.x] = 1.f + 0.f * x[threadIdx.x];
}
/* The neighbour's value is read before it is there, in one order of threads. */
static __global__ void race(float *y) {
  __shared__ float b[N];
  b[threadIdx.x] = 1.f;
  y[threadIdx.x] = b[(threadIdx.x + N - 1) % N];
}
/* Used again while the others still read. */
static __global__ void race_reuse(float *y) {
  __shared__ float b[2];
  if (threadIdx.x % 32 == 0) b[threadIdx.x / 32] = 0.5f;
  __syncthreads();
  float v = b[0] + b[1];
  if (threadIdx.x % 32 == 0) b[threadIdx.x / 32] = 100.f;
  y[threadIdx.x] = v;
}
static __global__ void set(float *y, float to) {
  y[threadIdx.x] = to;
}
static __global__ void add(float *y, const float *x) {
  y[threadIdx.x] += x[threadIdx.x];
}
static __global__ void scale(float *y, const float *by) {
  y[threadIdx.x] *= *by;
}
#ifndef __CUDACC__
static __global__ void no_copy_wait(float *y, const float *x, int wait) {
  __shared__ __align__(16) float b[N];
  __pipeline_memcpy_async(b + threadIdx.x, x + threadIdx.x, 4);
  __pipeline_commit();
  if (wait) __pipeline_wait_prior(0);
  y[threadIdx.x] = b[threadIdx.x];
  __pipeline_wait_prior(0);
}
#endif

static bool is(const char *name, const char *wanted) {
  return !strcmp(name, wanted);
}
static bool one_of(const char *name, std::initializer_list<const char *> names) {
  for (const char *n : names)
    if (is(name, n)) return true;
  return false;
}
static void show(const float *d, float want) {
  std::vector<float> h = to_host(d, N);
  for (float v : h)
    if (!(v == want)) {
      printf("wrong number: %g, not %g\n", static_cast<double>(v), static_cast<double>(want));
      return;
    }
  printf("right\n");
}

/* ---------- one kernel ---------- */
static bool kernel_case(const char *name, float *y, float *x) {
  static const struct {
    const char *name;
    void (*kernel)(float *);
    unsigned threads;
    size_t shared;
  } cases[] = {
      {"right", right, N, 0},
      {"divergent", divergent, N, 0},
      {"early_exit", early_exit, N, 0},
      {"half_warp", half_warp, N, 0},
      {"partial_mask", partial_mask, N, 0},
      {"two_collectives", two_collectives, N, 0},
      {"beyond_static", beyond_static, N, 0},
      {"beyond_dynamic", beyond_dynamic, N, N * sizeof(float)},
      {"beyond_global", beyond_global, N, 0},
      {"before_global", before_global, N, 0},
      {"not_set_shared", not_set_shared, N, 0},
      {"not_set_dynamic", not_set_dynamic, N, N * sizeof(float)},
      {"race", race, N, 0},
      {"race_reuse", race_reuse, N, 0},
      {"big_block", right, 2048, 0},
      {"big_shared", right, N, 64 << 10},
  };
  for (auto &c : cases)
    if (is(name, c.name)) {
      LAUNCH(c.kernel, 1, c.threads, c.shared, compute, y);
      show(y, 1.f);
      return true;
    }
  if (is(name, "beyond_small")) LAUNCH(set, 1, 9, 0, compute, device_array<float>(8), 1.f);
  if (is(name, "beyond_local")) LAUNCH(beyond_local, 1, N, 0, compute, y, 8);
  if (is(name, "not_set_global")) LAUNCH(not_set_global, 1, N, 0, compute, y, x);
#ifndef __CUDACC__
  if (is(name, "copy_wait") || is(name, "no_copy_wait")) {
    LAUNCH(set, 1, N, 0, compute, x, 1.f);
    LAUNCH(no_copy_wait, 1, N, 0, compute, y, x, is(name, "copy_wait"));
  }
#endif
  if (!one_of(name,
              {"beyond_small", "beyond_local", "not_set_global", "copy_wait", "no_copy_wait"}))
    return false;
  show(y, 1.f);
  return true;
}

/* ---------- streams ---------- */
static void fork(bool wait) {
  CHECK_CUDA(cudaEventRecord(event, compute));
  if (wait) CHECK_CUDA(cudaStreamWaitEvent(wire, event, 0));
}
static void join() {
  CHECK_CUDA(cudaEventRecord(joined, wire));
  CHECK_CUDA(cudaStreamWaitEvent(compute, joined, 0));
}
/* The bucket is filled on one stream and added to on the other. */
static bool stream_case(const char *name, float *y, float *x) {
  bool captured = strstr(name, "captured") != nullptr;
  if (!one_of(name, {"event", "no_event", "event_captured", "no_event_captured", "no_join_wait"}))
    return false;
  LAUNCH(set, 1, N, 0, compute, x, 2.f);
  LAUNCH(set, 1, N, 0, compute, y, 1.f);
  CHECK_CUDA(cudaStreamSynchronize(compute));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  if (captured) {
    CHECK_CUDA(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
    fork(true); /* into the capture, before what matters */
  }
  LAUNCH(set, 1, N, 0, compute, y, 5.f);
  fork(strncmp(name, "no_event", 8) != 0);
  LAUNCH(add, 1, N, 0, wire, y, x);
  if (!is(name, "no_join_wait")) join();
  LAUNCH(add, 1, N, 0, compute, y, y);
  if (captured) {
    join();
    CHECK_CUDA(cudaStreamEndCapture(compute, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    CHECK_CUDA(cudaGraphLaunch(exec, compute));
  }
  show(y, 14.f);
  return true;
}

/* ---------- graphs and captures ---------- */
static void error_of(cudaError_t e) {
  printf("error %d\n", static_cast<int>(e));
}
static bool capture_case(const char *name, float *y, float *x) {
  if (!one_of(name,
              {"no_join", "sync_in_capture", "malloc_in_capture", "copy_in_capture", "isolation"}))
    return false;
  if (is(name, "isolation")) fork(false); /* recorded before the capture */
  CHECK_CUDA(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
  LAUNCH(set, 1, N, 0, compute, x, 2.f);
  cudaGraph_t graph;
  void *p;
  float h[N];
  if (is(name, "no_join")) {
    fork(true);
    LAUNCH(set, 1, N, 0, wire, y, 3.f);
  }
  if (is(name, "sync_in_capture")) error_of(cudaStreamSynchronize(compute));
  if (is(name, "malloc_in_capture")) error_of(cudaMalloc(&p, 16));
  if (is(name, "copy_in_capture")) error_of(cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost));
  if (is(name, "isolation")) error_of(cudaStreamWaitEvent(compute, event, 0));
  error_of(cudaStreamEndCapture(compute, &graph));
  return true;
}
/* A learning rate that changes between two replays: read from memory, or frozen as an argument. */
static bool scalar_case(const char *name, float *y, float *by) {
  bool frozen = is(name, "frozen_scalar");
  if (!frozen && !is(name, "scalar")) return false;
  float rate = 2.f;
  CHECK_CUDA(cudaMemcpy(by, &rate, sizeof rate, cudaMemcpyHostToDevice));
  LAUNCH(set, 1, N, 0, compute, y, 1.f);
  CHECK_CUDA(cudaStreamSynchronize(compute));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
  if (frozen)
    LAUNCH(set, 1, N, 0, compute, y, rate);
  else
    LAUNCH(scale, 1, N, 0, compute, y, by);
  CHECK_CUDA(cudaStreamEndCapture(compute, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_CUDA(cudaGraphLaunch(exec, compute));
  CHECK_CUDA(cudaStreamSynchronize(compute));
  rate = 10.f;
  CHECK_CUDA(cudaMemcpy(by, &rate, sizeof rate, cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaGraphLaunch(exec, compute));
  show(y, 20.f);
  return true;
}

/* ---------- memory of the host ---------- */
static bool copy_case(const char *name, float *y) {
  if (is(name, "host_pointer")) {
    float h[4];
    error_of(cudaMemcpyAsync(h, h, sizeof h, cudaMemcpyDeviceToHost, compute));
    return true;
  }
  if (is(name, "copy_beyond")) {
    std::vector<float> h(N + 1);
    error_of(cudaMemcpy(y, h.data(), (N + 1) * sizeof(float), cudaMemcpyHostToDevice));
    return true;
  }
  if (is(name, "host_access")) {
    y[3] = 1.f;
    return true;
  }
  bool pinned = is(name, "pinned_early"); /* written over before the copy has happened */
  if (!pinned && !is(name, "pageable_early")) return false;
  float *h = static_cast<float *>(malloc(N * sizeof(float)));
  if (pinned) CHECK_CUDA(cudaMallocHost(reinterpret_cast<void **>(&h), N * sizeof(float)));
  for (int i = 0; i < N; i++) h[i] = 1.f;
  CHECK_CUDA(cudaMemcpyAsync(y, h, N * sizeof(float), cudaMemcpyHostToDevice, compute));
  for (int i = 0; i < N; i++) h[i] = 7.f;
  show(y, 1.f);
  return true;
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "";
  CHECK_CUDA(cudaStreamCreateWithPriority(&compute, cudaStreamNonBlocking, 0));
  CHECK_CUDA(cudaStreamCreateWithPriority(&wire, cudaStreamNonBlocking, -1));
  CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CHECK_CUDA(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
  float *y = device_array<float>(N), *x = device_array<float>(N);
  bool known = kernel_case(name, y, x) || stream_case(name, y, x) || capture_case(name, y, x) ||
               scalar_case(name, y, x) || copy_case(name, y);
  if (!known) printf("no such case: %s\n", name);
  return !known;
}
