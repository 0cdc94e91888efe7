/* Slurm's notations; internal to detect.c and its tests. */
#ifndef DDP_COMM_SLURM_H
#define DDP_COMM_SLURM_H
#include <stddef.h>

/* Field `node` of "2,1" or "2(x3),1" (SLURM_STEP_TASKS_PER_NODE); 0 if it cannot be read. */
int ddp_slurm_tasks(const char *list, int node);
/* First name of "gpu[001-004,7],x1" (SLURM_STEP_NODELIST): gpu001. */
void ddp_slurm_first_host(const char *list, char *out, size_t size);
/* Port number i of the candidates of a job, of 20000 to 29999: below those that kernels give out. */
int ddp_slurm_port(const char *job, int i);
#endif
