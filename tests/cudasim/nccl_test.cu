/* The stand-in of NCCL between processes: sums, orders, captures and what it refuses. The test starts its ranks
   itself: nccl_test CASE. */
#include "check.cuh"
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nccl.h>
#include <string>

enum { WORLD = 2, N = 300000 };
static int rank;
static cudaStream_t stream;
static ncclComm_t comm;

static ncclResult_t settle() {
  ncclResult_t e;
  do {
    if (ncclCommGetAsyncError(comm, &e)) return ncclInternalError;
  } while (e == ncclInProgress);
  return e;
}
static void open_comm(ncclUniqueId id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t e = ncclCommInitRankConfig(&comm, WORLD, id, rank, &config);
  EXPECT(e == ncclInProgress, "%d", e);
  EXPECT(settle() == ncclSuccess, "init");
}

static __global__ void fill(float *x, int n, float with) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += 256)
    x[i] = with + static_cast<float>(i % 7);
}
static void expect_sum(const float *d, float first) {
  std::vector<float> h = to_host(d, N);
  int wrong = 0;
  for (int i = 0; i < N; i++)
    wrong += h[static_cast<size_t>(i)] != first + 2.f * static_cast<float>(i % 7);
  EXPECT(wrong == 0, "rank %d: %d of %d", rank, wrong, static_cast<int>(N));
}
static ncclResult_t sum(float *p, size_t n) {
  return ncclAllReduce(p, p, n, ncclFloat, ncclSum, comm, stream);
}
static void own_values(float *p) {
  LAUNCH(fill, 1, 256, 0, stream, p, static_cast<int>(N), rank ? 10.f : 3.f);
}

/* Directly, and twice by a graph. */
static void test_sums(float *p) {
  own_values(p);
  EXPECT(sum(p, N) == ncclSuccess, "all_reduce");
  CHECK_CUDA(cudaStreamSynchronize(stream));
  expect_sum(p, 13.f);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  own_values(p);
  EXPECT(sum(p, N) == ncclSuccess, "all_reduce");
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; i++) CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  expect_sum(p, 13.f);
  own_values(p);
  EXPECT(ncclBroadcast(p, p, N, ncclFloat, 1, comm, stream) == ncclSuccess, "broadcast");
  float *all = device_array<float>(WORLD * 8);
  EXPECT(ncclAllGather(p, all, 8, ncclFloat, comm, stream) == ncclSuccess, "all_gather");
  CHECK_CUDA(cudaStreamSynchronize(stream));
  EXPECT(to_host(p, 4)[3] == 13.f && to_host(all, 16)[9] == 11.f, "of rank 1");
}
/* A difference is an error on both sides, and abort sets free what is enqueued. */
static void test_differ(float *p) {
  EXPECT(sum(p, rank ? 64 : 128) == ncclSuccess, "is seen when they meet");
  ncclResult_t e;
  while ((e = settle()) == ncclSuccess) cudaStreamQuery(stream);
  EXPECT(e == ncclInvalidUsage && strstr(ncclGetLastError(comm), "all_reduce of 128"), "%d: %s", e,
         ncclGetLastError(comm));
  ncclCommAbort(comm);
  comm = nullptr;
  (void)cudaGetLastError();
  CHECK_CUDA(cudaStreamSynchronize(stream));
}
static void test_refusals(float *p) {
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  EXPECT(sum(p, 16) == ncclInvalidUsage, "the first one, captured");
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT(sum(p + 1, 16) == ncclInvalidArgument, "not aligned");
  EXPECT(sum(p, static_cast<size_t>(N) * 2) == ncclInvalidArgument, "beyond the allocation");
  EXPECT(ncclAllReduce(p, p, 16, ncclFloat, ncclAvg, comm, stream) == ncclInvalidUsage,
         "not a sum");
}

int main(int argc, char **argv) {
  std::string name = argc > 1 ? argv[1] : "";
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  pid_t child = fork();
  rank = child == 0;
  alarm(60);
  CHECK_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, -1));
  void *memory;
  EXPECT(ncclMemAlloc(&memory, N * sizeof(float)) == ncclSuccess, "memory");
  open_comm(id);
  float *p = static_cast<float *>(memory);
  if (name == "sums") test_sums(p);
  if (name == "differ") test_differ(p);
  if (name == "refusals") test_refusals(p);
  if (comm) ncclCommDestroy(comm);
  if (rank) _exit(failures != 0);
  int status;
  waitpid(child, &status, 0);
  return failures != 0 || status != 0;
}
