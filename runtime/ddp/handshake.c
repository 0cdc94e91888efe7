/* In: one number of each rank. Out: nothing, or which rank differs. */
#include "handshake.h"
#include <stdlib.h>

DdpError *ddp_handshake(DdpGroup *g, const char *what, uint64_t value) {
  int world = ddp_group_world(g);
  uint64_t *all = malloc((size_t)world * sizeof *all);
  if (!all) return ddp_error(DDP_MEMORY, "%s: no memory", what);
  DdpError *e = ddp_group_all_gather(g, &value, all, sizeof value, what);
  for (int r = 1; !e && r < world; r++) {
    if (all[r] != all[0])
      e = ddp_error_rank(DDP_PEER, r,
                         "rank %d has another %s than rank 0: start all ranks with the same "
                         "program and settings",
                         r, what);
  }
  free(all);
  return e;
}
