/* Parent mode of our own launcher; internal to launch.c. */
#ifndef DDP_COMM_SPAWN_H
#define DDP_COMM_SPAWN_H
#include "detect.h"

/* Forks the ranks of this host. In a rank: fills *out, *parent_exit = -1. In the parent: returns
   when all ranks are gone, *parent_exit is the exit code. */
DdpError *ddp_spawn(const DdpFanOut *fan, DdpLaunch *out, int *parent_exit);
#endif
