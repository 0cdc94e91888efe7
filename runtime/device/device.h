/* Memory of the device that trains, and copies to and from it. One table per kind of device; on CPUs
   device memory is memory and a stream is NULL. */
#ifndef DDP_DEVICE_DEVICE_H
#define DDP_DEVICE_DEVICE_H
#include "memory.h"

typedef struct DdpDevice {
  const char *name;
  /* Zeroed, 64-byte aligned, counted. */
  DdpError *(*alloc)(DdpMemoryKind kind, size_t bytes, void **out);
  void (*free)(DdpMemoryKind kind, void *p, size_t bytes);
  /* Host memory from which copies are fast (pinned). */
  DdpError *(*host_alloc)(DdpMemoryKind kind, size_t bytes, void **out);
  void (*host_free)(DdpMemoryKind kind, void *p, size_t bytes);
  DdpError *(*to_device)(void *to, const void *from, size_t bytes, void *stream);
  DdpError *(*to_host)(void *to, const void *from, size_t bytes, void *stream);
  /* Waits until everything enqueued on the stream has happened. */
  DdpError *(*synchronise)(void *stream);
} DdpDevice;

extern const DdpDevice ddp_device_cpu;
#endif
