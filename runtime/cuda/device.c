/* The GPU as a device: streams, memory, copies and order between streams, through the CUDA runtime. One
   device for a process; one thread enqueues. */
#include "device.h"
#include "choose.h"
#include "cudnn_graphs.h"
#include "failure.h"
#include "gemm.h"
#include "graph.h"
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cudaStream_t streams[DDP_STREAMS];
static cudaEvent_t passed; /* of `order`: a wait keeps to what was recorded when it was enqueued */
static cudaEvent_t *marks;
static int n_marks;
static char description[384];

static DdpError *make_streams(void) {
  int least = 0, greatest = 0;
  DDP_TRY(cuda_status(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                      "ask for priorities of streams"));
  for (int i = 0; i < DDP_STREAMS; i++)
    DDP_TRY(cuda_status(cudaStreamCreateWithPriority(&streams[i], cudaStreamNonBlocking,
                                                     i == DDP_STREAM_wire ? greatest : least),
                        "make a stream"));
  return cuda_status(cudaEventCreateWithFlags(&passed, cudaEventDisableTiming), "make an event");
}

static DdpError *cuda_room(int64_t *free_bytes, int64_t *all_bytes) {
  size_t left = 0, all = 0;
  DDP_TRY(cuda_status(cudaMemGetInfo(&left, &all), "ask for the GPU's memory"));
  *free_bytes = (int64_t)left;
  *all_bytes = (int64_t)all;
  return NULL;
}

static DdpError *introduce(int device) {
  struct cudaDeviceProp properties;
  int64_t left = 0, all = 0;
  int sm = 0;
  DDP_TRY(cuda_status(cudaGetDeviceProperties(&properties, device), "ask for the GPU's name"));
  DDP_TRY(cuda_room(&left, &all));
  DDP_TRY(cuda_capability(device, &sm));
  snprintf(description, sizeof description, "%.255s, %.1f GiB, sm_%d", properties.name,
           (double)all / 1073741824.0, sm);
  return NULL;
}

static DdpError *cuda_open(const DdpJob *job, int local_rank, int local_world) {
  int device = 0;
  DDP_TRY(cuda_choose(job->target, local_rank, local_world, &device));
  DDP_TRY(cuda_status(cudaSetDevice(device), "open the GPU"));
  DDP_TRY(introduce(device));
  DDP_TRY(make_streams());
  /* a library that is missing is told before data are read, and its workspace counts from the start */
  if (job->target->products) DDP_TRY(cuda_gemm_open());
  if (!job->target->init) return NULL;
  return cuda_status((cudaError_t)job->target->init(), "prepare the program's kernels");
}

static DdpError *make_marks(int n) {
  cudaEvent_t *more = realloc(marks, (size_t)n * sizeof *more);
  if (!more) return ddp_error(DDP_MEMORY, "out of memory");
  marks = more;
  for (; n_marks < n; n_marks++)
    DDP_TRY(cuda_status(cudaEventCreateWithFlags(&marks[n_marks], cudaEventDisableTiming),
                        "make an event"));
  return NULL;
}

static DdpError *cuda_mark(int number, void *first) {
  if (number >= n_marks) DDP_TRY(make_marks(number + 1));
  return cuda_status(cudaEventRecord(marks[number], first), "mark a place in a stream");
}

static DdpError *cuda_await(int number, void *stream) {
  if (number >= n_marks)
    return ddp_error(DDP_FAILED, "mark %d was never set (internal fault)", number);
  return cuda_status(cudaStreamWaitEvent(stream, marks[number], 0),
                     "let a stream wait for another");
}

static void drop_marks(void) {
  for (int i = 0; i < n_marks; i++) (void)cudaEventDestroy(marks[i]);
  free(marks);
  marks = NULL;
  n_marks = 0;
}

static void cuda_close(void) {
  cuda_graph_drop();
  cuda_gemm_close();
  cudnn_close();
  drop_marks();
  if (passed) (void)cudaEventDestroy(passed);
  passed = NULL;
  for (int i = 0; i < DDP_STREAMS; i++) {
    if (streams[i]) (void)cudaStreamDestroy(streams[i]);
    streams[i] = NULL;
  }
  ddp_error_free(cuda_failure());
}

static const char *cuda_describe(void) {
  return description;
}

static void *cuda_stream(DdpStream which) {
  return streams[which];
}

static DdpError *no_room(DdpMemoryKind kind, size_t bytes) {
  int64_t left = 0, all = 0;
  DDP_TRY(cuda_room(&left, &all));
  return ddp_error(DDP_MEMORY,
                   "cannot allocate %.1f MiB for %s: the GPU has %.1f of its %.1f GiB left; a "
                   "smaller batch or model needs less, `ddpc plan` shows what takes it",
                   (double)bytes / 1048576.0, ddp_memory_name(kind), (double)left / 1073741824.0,
                   (double)all / 1073741824.0);
}

static DdpError *cuda_clear(void *p, size_t bytes, void *stream) {
  if (!bytes) return NULL;
  return cuda_status(cudaMemsetAsync(p, 0, bytes, stream), "clear memory of the GPU");
}

static DdpError *cuda_synchronise(void *stream) {
  DdpError *e = cuda_failure();
  return ddp_error_first(e, cuda_status(cudaStreamSynchronize(stream), "finish work of the GPU"));
}

static DdpError *cuda_poll(void *stream, bool *done) {
  *done = false;
  DDP_TRY(cuda_failure());
  cudaError_t error = cudaStreamQuery(stream);
  *done = error == cudaSuccess;
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError(); /* it is none */
    return NULL;
  }
  return cuda_status(error, "finish work of the GPU");
}

/* Of the GPU's memory: allocations begin at multiples of 256 bytes. */
static int64_t taken(size_t bytes) {
  return bytes ? (int64_t)((bytes + 255) / 256 * 256) : 256;
}

static DdpError *cuda_alloc(DdpMemoryKind kind, size_t bytes, void **out) {
  *out = NULL;
  cudaError_t error = cudaMalloc(out, bytes ? bytes : 1); /* aligned to 256 bytes */
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return no_room(kind, bytes);
  }
  DDP_TRY(cuda_status(error, "allocate memory of the GPU"));
  ddp_memory_count(kind, taken(bytes));
  DDP_TRY(cuda_clear(*out, bytes, streams[DDP_STREAM_compute]));
  return cuda_synchronise(streams[DDP_STREAM_compute]); /* other streams may use it at once */
}

static void cuda_free(DdpMemoryKind kind, void *p, size_t bytes) {
  if (!p) return;
  (void)cudaFree(
      p); /* at the end of a run, perhaps after a failure that every call reports again */
  ddp_memory_count(kind, -taken(bytes));
}

static DdpError *cuda_host_alloc(DdpMemoryKind kind, size_t bytes, void **out) {
  *out = NULL;
  cudaError_t error = cudaMallocHost(out, bytes ? bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return ddp_error(DDP_MEMORY, "cannot allocate %.1f MiB of page-locked memory for %s",
                     (double)bytes / 1048576.0, ddp_memory_name(kind));
  }
  DDP_TRY(cuda_status(error, "allocate page-locked memory"));
  memset(*out, 0, bytes ? bytes : 1);
  ddp_memory_count(DDP_MEMORY_pinned, (int64_t)bytes);
  return NULL;
}

static void cuda_host_free(DdpMemoryKind kind, void *p, size_t bytes) {
  (void)kind;
  if (!p) return;
  (void)cudaFreeHost(p);
  ddp_memory_count(DDP_MEMORY_pinned, -(int64_t)bytes);
}

static DdpError *transfer(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                          void *stream) {
  static const char *const doing[] = {[cudaMemcpyHostToDevice] = "copy to the GPU",
                                      [cudaMemcpyDeviceToHost] = "copy from the GPU",
                                      [cudaMemcpyDeviceToDevice] = "copy within the GPU"};
  if (!bytes || to == from) return NULL;
  return cuda_status(cudaMemcpyAsync(to, from, bytes, kind, stream), doing[kind]);
}

static DdpError *cuda_to_device(void *to, const void *from, size_t bytes, void *stream) {
  return transfer(to, from, bytes, cudaMemcpyHostToDevice, stream);
}

static DdpError *cuda_to_host(void *to, const void *from, size_t bytes, void *stream) {
  return transfer(to, from, bytes, cudaMemcpyDeviceToHost, stream);
}

static DdpError *cuda_copy(void *to, const void *from, size_t bytes, void *stream) {
  return transfer(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

static DdpError *cuda_order(void *first, void *later) {
  if (first == later) return NULL;
  DDP_TRY(cuda_status(cudaEventRecord(passed, first), "mark a place in a stream"));
  return cuda_status(cudaStreamWaitEvent(later, passed, 0), "let a stream wait for another");
}

const DdpDevice ddp_device_cuda = {
    .name = "cuda",
    .apart = true,
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .stream = cuda_stream,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .to_device = cuda_to_device,
    .to_host = cuda_to_host,
    .copy = cuda_copy,
    .clear = cuda_clear,
    .order = cuda_order,
    .mark = cuda_mark,
    .await = cuda_await,
    .synchronise = cuda_synchronise,
    .poll = cuda_poll,
    .failure = cuda_failure,
    .replay = cuda_graph_replay,
    .room = cuda_room,
};
