/* What the tests of the device share: the device itself, opened once, and memory of it that is filled and read
   from the host. */
#ifndef TESTS_DEVICE_ON_GPU_H
#define TESTS_DEVICE_ON_GPU_H
#include "check.h"
#include "ddp/cuda.h"
#include "device.h"

#define GPU (&ddp_device_cuda)

static const int gpu_sm[] = {80, 90, 0};
static const DdpTarget gpu_target = {.name = "cuda", .device = GPU, .sm = gpu_sm};
static const DdpJob gpu_job = {.target = &gpu_target};

static inline int gpu_open(void **state) {
  (void)state;
  CHECK_OK(GPU->open(&gpu_job, 0, 1));
  return 0;
}
static inline int gpu_close(void **state) {
  (void)state;
  GPU->close();
  return 0;
}

static inline void *gpu_alloc(size_t bytes) {
  void *p;
  CHECK_OK(GPU->alloc(DDP_MEMORY_block, bytes, &p));
  return p;
}
static inline void *gpu_upload(const void *from, size_t bytes) {
  void *p = gpu_alloc(bytes), *stream = GPU->stream(DDP_STREAM_compute);
  CHECK_OK(GPU->to_device(p, from, bytes, stream));
  CHECK_OK(GPU->synchronise(stream));
  return p;
}
static inline void gpu_download(void *to, const void *from, size_t bytes) {
  void *stream = GPU->stream(DDP_STREAM_compute);
  CHECK_OK(GPU->to_host(to, from, bytes, stream));
  CHECK_OK(GPU->synchronise(stream));
}
#endif
