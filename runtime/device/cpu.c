/* The CPU as a device: allocation is counted memory, a copy is done when the call returns. */
#include "device.h"
#include <string.h>

static DdpError *cpu_copy(void *to, const void *from, size_t bytes, void *stream) {
  (void)stream;
  if (bytes && to != from) memcpy(to, from, bytes);
  return NULL;
}

static DdpError *cpu_synchronise(void *stream) {
  (void)stream;
  return NULL;
}

const DdpDevice ddp_device_cpu = {
    .name = "cpu",
    .alloc = ddp_memory_alloc,
    .free = ddp_memory_free,
    .host_alloc = ddp_memory_alloc,
    .host_free = ddp_memory_free,
    .to_device = cpu_copy,
    .to_host = cpu_copy,
    .synchronise = cpu_synchronise,
};
