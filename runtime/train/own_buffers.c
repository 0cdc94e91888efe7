/* Buffers with ddp_broadcast_buffers = false: every rank has its own, as in PyTorch, and a
   checkpoint keeps all of them, so that saving changes nothing in the run. In: buffers of the
   ranks. Out: one block [world][bytes], the same on every rank; and the other way round. */
#include "run.h"
#include <stdlib.h>
#include <string.h>

bool run_own_buffers(const DdpRun *r) {
  return r->set->ddp_broadcast_buffers == 0 && r->world > 1 && r->buffer_bytes > 0;
}

DdpError *run_own_buffers_open(DdpRun *r) {
  if (!run_own_buffers(r) || r->own_buffers) return NULL;
  r->own_buffers = malloc((size_t)(r->world * r->buffer_bytes));
  if (!r->own_buffers) return ddp_error(DDP_MEMORY, "out of memory");
  r->own_shape[0] = r->world;
  r->own_shape[1] = r->buffer_bytes;
  for (int i = 0; i < r->world; i++)
    memcpy(r->own_buffers + i * r->buffer_bytes, r->buffers, (size_t)r->buffer_bytes);
  return NULL;
}

DdpError *run_own_buffers_gather(DdpRun *r) {
  DDP_TRY(run_own_buffers_open(r));
  return ddp_group_all_gather(r->group, r->buffers, r->own_buffers, r->buffer_bytes,
                              "buffers of all ranks");
}

void run_own_buffers_take(DdpRun *r) {
  if (!r->own_buffers) return;
  memcpy(r->buffers, r->own_buffers + r->rank * r->buffer_bytes, (size_t)r->buffer_bytes);
}
