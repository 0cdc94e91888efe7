/* The CPU as a device: allocation is counted memory, a copy is done when the call returns. */
#include "device.h"
#include <string.h>

static DdpError *cpu_open(const DdpJob *job, int local_rank, int local_world) {
  (void)job;
  (void)local_rank;
  (void)local_world;
  return NULL;
}

static void cpu_close(void) {}

static const char *cpu_describe(void) {
  return "";
}

static void *cpu_stream(DdpStream which) {
  (void)which;
  return NULL;
}

static DdpError *cpu_copy(void *to, const void *from, size_t bytes, void *stream) {
  (void)stream;
  if (bytes && to != from) memcpy(to, from, bytes);
  return NULL;
}

static DdpError *cpu_clear(void *p, size_t bytes, void *stream) {
  (void)stream;
  if (bytes) memset(p, 0, bytes);
  return NULL;
}

static DdpError *cpu_order(void *first, void *later) {
  (void)first;
  (void)later;
  return NULL;
}

static DdpError *cpu_synchronise(void *stream) {
  (void)stream;
  return NULL;
}

static DdpError *cpu_poll(void *stream, bool *done) {
  (void)stream;
  *done = true;
  return NULL;
}

static DdpError *cpu_failure(void) {
  return NULL;
}

const DdpDevice ddp_device_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .stream = cpu_stream,
    .alloc = ddp_memory_alloc,
    .free = ddp_memory_free,
    .host_alloc = ddp_memory_alloc,
    .host_free = ddp_memory_free,
    .to_device = cpu_copy,
    .to_host = cpu_copy,
    .copy = cpu_copy,
    .clear = cpu_clear,
    .order = cpu_order,
    .synchronise = cpu_synchronise,
    .poll = cpu_poll,
    .failure = cpu_failure,
};
