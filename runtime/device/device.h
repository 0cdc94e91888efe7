/* The device that trains: memory, copies, order of work. One table per kind of device; a process uses one
   device. On CPUs device memory is memory, streams are NULL and everything is done when a call returns. */
#ifndef DDP_DEVICE_DEVICE_H
#define DDP_DEVICE_DEVICE_H
#include "ddp/job.h"
#include "memory.h"

/* Streams of a device. Work on one runs in order; work on two runs in any order unless `order` says so. */
typedef enum DdpStream {
  DDP_STREAM_compute,
  DDP_STREAM_copy, /* from and to the host */
  DDP_STREAM_wire, /* collectives; of higher priority */
  DDP_STREAMS
} DdpStream;

typedef struct DdpDevice {
  const char *name; /* "cpu", "cuda" */
  bool apart;       /* has memory of its own: the host neither reads nor writes it */
  /* How many are visible; the calling process is none that will use them. NULL: one for each usable CPU. */
  DdpError *(*count)(int *out);
  /* Chooses and opens the device of this rank: number local_rank of those that are visible. Errors: no
     driver, no such device, a device that the program has no code for; at once, before data are read. */
  DdpError *(*open)(const DdpJob *job, int local_rank, int local_world);
  void (*close)(void);
  /* One line for the report: "NVIDIA H100 80GB HBM3, 79.1 GiB, sm_90". "" on CPUs. */
  const char *(*describe)(void);
  void *(*stream)(DdpStream which); /* NULL on CPUs */
  /* Zeroed, 256-byte aligned (CPUs: 64), counted. */
  DdpError *(*alloc)(DdpMemoryKind kind, size_t bytes, void **out);
  void (*free)(DdpMemoryKind kind, void *p, size_t bytes);
  /* Host memory from which copies are fast and asynchronous (pinned). */
  DdpError *(*host_alloc)(DdpMemoryKind kind, size_t bytes, void **out);
  void (*host_free)(DdpMemoryKind kind, void *p, size_t bytes);
  /* Enqueued on the stream. Host memory is of host_alloc and stays as it is until the stream has come so
     far; other host memory is allowed too and makes the call wait. */
  DdpError *(*to_device)(void *to, const void *from, size_t bytes, void *stream);
  DdpError *(*to_host)(void *to, const void *from, size_t bytes, void *stream);
  DdpError *(*copy)(void *to, const void *from, size_t bytes, void *stream); /* within the device */
  DdpError *(*clear)(void *p, size_t bytes, void *stream);
  /* What is enqueued on `later` from now on waits for what is enqueued on `first` by now. */
  DdpError *(*order)(void *first, void *later);
  /* The same in two steps: `stream` waits for what was enqueued on `first` when the mark was last set. Marks are
     numbered from 0. NULL: only devices whose target has a backend have them. */
  DdpError *(*mark)(int number, void *first);
  DdpError *(*await)(int number, void *stream);
  /* Waits until everything enqueued on the stream has happened; also tells errors of kernels. */
  DdpError *(*synchronise)(void *stream);
  /* The same without waiting: whether everything has happened. */
  DdpError *(*poll)(void *stream, bool *done);
  /* The first error of a launch or a library call in the emitted program since the last question. */
  DdpError *(*failure)(void);
  /* Runs pass(step), and from its second time on with equal `key` replays what it enqueued then (a captured
     graph): pointers, sizes and collectives of the step are the same, numbers are read from device memory.
     NULL: the device has no such thing; pass is called. */
  DdpError *(*replay)(uint64_t key, void (*pass)(DdpStep *step), DdpStep *step);
  DdpError *(*room)(int64_t *free_bytes, int64_t *all_bytes); /* of its memory */
} DdpDevice;

extern const DdpDevice ddp_device_cpu;
#endif
