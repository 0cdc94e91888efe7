/* Client of PMIx, through libpmix opened when a launcher needs it. Open MPI, PRRTE and Slurm's
   `--mpi=pmix` serve it. */
#ifndef DDP_COMM_PMIX_H
#define DDP_COMM_PMIX_H
#include "ddp/status.h"
#include <stddef.h>

typedef struct DdpPmixJob {
  int world, local_rank, local_world;
} DdpPmixJob;

/* Meets the launcher's server. job may be NULL. Opening twice is opening once. */
DdpError *ddp_pmix_open(DdpPmixJob *job, double timeout);
/* Gives rank 0's text to all ranks: in on rank 0, out on the others. Collective. */
DdpError *ddp_pmix_share(char *text, size_t size, double timeout);
/* Says goodbye; also done at the end of the process. */
void ddp_pmix_close(void);
#endif
