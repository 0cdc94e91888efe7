/* Which GPU a rank trains on, and whether the program can run on it. */
#ifndef DDP_CUDA_CHOOSE_H
#define DDP_CUDA_CHOOSE_H
#include "ddp/job.h"
#include "ddp/status.h"

/* DdpDevice.count: visible GPUs, asked in a process of its own, since a process that has asked cannot fork into
   ranks. Errors: no driver, a driver that is too old, no GPU. */
DdpError *cuda_count(int *out);
/* *out: number of a visible device. Errors: no driver, a driver that is too old, no GPU, fewer GPUs than
   ranks of this host, a GPU that the program has no code for. Asks the driver only for numbers: no context
   is made, so an answer takes no time. */
DdpError *cuda_choose(const DdpTarget *target, int local_rank, int local_world, int *out);
/* Compute capability as the names of architectures have it: 90. */
DdpError *cuda_capability(int device, int *out);
/* Can binary code for `sm` run on a device of capability `has`? */
bool cuda_runs(int sm, int has);
#endif
