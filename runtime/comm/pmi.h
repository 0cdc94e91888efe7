/* Client of the PMI-1 protocol, which hydra and Slurm (`--mpi=pmi2`) speak over a descriptor that the
   rank inherits. */
#ifndef DDP_COMM_PMI_H
#define DDP_COMM_PMI_H
#include "ddp/status.h"
#include <stddef.h>

/* Gives rank 0's text to all ranks: in on rank 0, out on the others. The text holds no blanks.
   Collective; ends by the deadline (ddp_clock). timeout: what messages call the limit. */
DdpError *ddp_pmi_share(int fd, int rank, char *text, size_t size, double deadline, double timeout);
#endif
