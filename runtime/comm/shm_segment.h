/* Shared segments between the ranks of one host; internal to the shm backend. A segment is an
   anonymous file whose descriptor travels over an abstract unix socket: it has no name, so nothing
   can be left. */
#ifndef DDP_COMM_SHM_SEGMENT_H
#define DDP_COMM_SHM_SEGMENT_H
#include "comm.h"

typedef struct DdpShmLinks {
  int rank, world;
  int *fds; /* rank 0: [world], its own -1; others: fds[0] */
  double timeout;
} DdpShmLinks;

DdpError *ddp_shm_connect(DdpShmLinks *l, const DdpCommOptions *options);
/* Collective. Every rank maps the same zeroed `bytes`; sizes that differ are an error. */
DdpError *ddp_shm_map(DdpShmLinks *l, size_t bytes, void **out);
void ddp_shm_disconnect(DdpShmLinks *l);
/* NULL, or why there is no shared memory on this machine, in one line. */
const char *ddp_shm_missing(void);
#endif
