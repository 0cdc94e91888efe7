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
  RunView v;
  DdpError *error = run_view(r, r->buffers, r->buffer_bytes, &v);
  for (int i = 0; i < r->world && !error; i++)
    memcpy(r->own_buffers + i * r->buffer_bytes, v.at, (size_t)r->buffer_bytes);
  run_view_close(&v);
  return error;
}

DdpError *run_own_buffers_gather(DdpRun *r) {
  DDP_TRY(run_own_buffers_open(r));
  RunView v;
  DdpError *error = run_view(r, r->buffers, r->buffer_bytes, &v);
  if (!error)
    error = ddp_group_all_gather(r->group, v.at, r->own_buffers, r->buffer_bytes,
                                 "buffers of all ranks");
  run_view_close(&v);
  return error;
}

DdpError *run_own_buffers_take(DdpRun *r) {
  if (!r->own_buffers) return NULL;
  const char *mine = r->own_buffers + r->rank * r->buffer_bytes;
  return r->device->to_device(r->buffers, mine, (size_t)r->buffer_bytes, r->there.stream);
}
