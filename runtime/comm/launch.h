/* Who am I: rank, world, host-local rank, from the environment of the launcher (design: launch
   order in docs/launch.md), or our own launcher's flags. */
#ifndef DDP_COMM_LAUNCH_H
#define DDP_COMM_LAUNCH_H
#include "ddp/status.h"
#include <stdbool.h>

typedef struct DdpLaunch {
  const char *by; /* "own launcher", "torchrun", "Open MPI", ... for the log */
  int rank, world, local_rank, local_world;
  const char *master_addr; /* NULL: one host, unix socket named by job_key */
  int master_port;         /* 0: unknown */
  bool agent_store;        /* torchrun's agent listens on master_port */
  const char *run_id, *job_key;
  bool child; /* of our own launcher */
} DdpLaunch;

/* Reads launcher flags out of argv (removing them) and the environment. In parent mode it starts
   the ranks, waits for them and sets *parent_exit to the exit code (>= 0); otherwise *parent_exit
   = -1. */
DdpError *ddp_launch(int *argc, char **argv, DdpLaunch *out, int *parent_exit);
/* Lines for --help. */
extern const char ddp_launch_help[];
/* Writes torchrun's error file, /dev/termination-log; waits as a victim should (launch
   document). */
void ddp_launch_report(const DdpLaunch *l, const DdpError *e);
#endif
