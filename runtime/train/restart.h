/* A round of ranks that the own launcher starts after a failure goes on from what the rounds before have
   saved; private to main.c. */
#ifndef DDP_TRAIN_RESTART_H
#define DDP_TRAIN_RESTART_H
#include "ddp/job.h"
#include "launch.h"

/* Before ddp_launch, which takes its own flags out of argc and argv. */
void run_restart_ready(const DdpJob *job, int *argc, char **argv);
/* In a rank of a later round: the command line that goes on; *argv is then new. */
DdpError *run_restart_flags(const DdpLaunch *l, int *argc, char ***argv);
#endif
