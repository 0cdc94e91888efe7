/* Counted, aligned allocations. In: purpose and bytes. Out: zeroed memory on a cache line's start. */
#include "memory.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static const char *const names[DDP_MEMORY_KIND_COUNT] = {
    "parameters", "gradients", "optimizer state", "frozen parameters", "buffers", "activations",
    "batch",      "data",      "page-locked"};
static _Atomic int64_t used[DDP_MEMORY_KIND_COUNT];

static size_t rounded(size_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

DdpError *ddp_memory_alloc(DdpMemoryKind kind, size_t bytes, void **out) {
  *out = NULL;
  if (bytes > SIZE_MAX / 2) return ddp_error(DDP_MEMORY, "%s: size overflows", names[kind]);
  size_t size = rounded(bytes);
  void *p = aligned_alloc(ALIGN, size ? size : ALIGN);
  if (!p) {
    return ddp_error(
        DDP_MEMORY,
        "cannot allocate %.1f MiB for %s: out of memory; a smaller batch or model needs "
        "less, `ddpc plan` shows what takes it",
        (double)bytes / 1048576.0, names[kind]);
  }
  memset(p, 0, size ? size : ALIGN);
  atomic_fetch_add(&used[kind], (int64_t)size);
  *out = p;
  return NULL;
}

void ddp_memory_free(DdpMemoryKind kind, void *p, size_t bytes) {
  if (!p) return;
  atomic_fetch_sub(&used[kind], (int64_t)rounded(bytes));
  free(p);
}

void ddp_memory_count(DdpMemoryKind kind, int64_t bytes) {
  const int64_t size = (int64_t)rounded((size_t)(bytes < 0 ? -bytes : bytes));
  atomic_fetch_add(&used[kind], bytes < 0 ? -size : size);
}

int64_t ddp_memory_used(DdpMemoryKind kind) {
  return atomic_load(&used[kind]);
}

const char *ddp_memory_name(DdpMemoryKind kind) {
  return names[kind];
}
