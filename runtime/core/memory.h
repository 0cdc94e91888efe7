/* Memory of a run: 64-byte aligned, zeroed, counted by purpose, so that what a program takes can be
   compared with what its plan says. Sizes are rounded up to 64 bytes, as the plan's are. */
#ifndef DDP_CORE_MEMORY_H
#define DDP_CORE_MEMORY_H
#include "ddp/status.h"
#include <stddef.h>
#include <stdint.h>

typedef enum DdpMemoryKind {
  DDP_MEMORY_params,
  DDP_MEMORY_grads, /* lies in memory of the process group; counted here */
  DDP_MEMORY_state,
  DDP_MEMORY_frozen,
  DDP_MEMORY_buffers,
  DDP_MEMORY_block,  /* activations and workspace */
  DDP_MEMORY_batch,  /* gathered fields */
  DDP_MEMORY_data,   /* the splits in memory */
  DDP_MEMORY_pinned, /* of the host, for copies to and from a device with memory of its own */
  DDP_MEMORY_KIND_COUNT
} DdpMemoryKind;

/* `bytes` may be 0: *out is then a valid pointer to nothing. The error names purpose and size. */
DdpError *ddp_memory_alloc(DdpMemoryKind kind, size_t bytes, void **out);
void ddp_memory_free(DdpMemoryKind kind, void *p, size_t bytes);
/* Memory that somebody else allocated for this purpose; below 0: gave back. Rounded up as that of ddp_memory_alloc. */
void ddp_memory_count(DdpMemoryKind kind, int64_t bytes);
int64_t ddp_memory_used(DdpMemoryKind kind);
const char *ddp_memory_name(DdpMemoryKind kind);
#endif
