/* Who am I: rank, world, host-local rank, from the environment of the launcher (design: launch
   order in docs/launch.md), or our own launcher's flags. */
#ifndef DDP_COMM_LAUNCH_H
#define DDP_COMM_LAUNCH_H
#include "ddp/status.h"
#include <stdbool.h>

typedef enum DdpChannel {                     /* how the others learn where rank 0 listens */
                          DDP_CHANNEL_direct, /* at master_addr; NULL: a socket of this host,
                                                 named by job_key */
                          DDP_CHANNEL_store,  /* torchrun's, at master_addr:master_port */
                          DDP_CHANNEL_pmi,    /* hydra, Slurm: PMI-1 over pmi_fd */
                          DDP_CHANNEL_pmix,   /* Open MPI, PRRTE, Slurm: libpmix */
} DdpChannel;

typedef struct DdpLaunch {
  const char *by; /* "own launcher", "torchrun", "Open MPI", ... for the log */
  int rank, world, local_rank, local_world;
  DdpChannel channel;
  const char *master_addr;
  int master_port, ports; /* ports: how many candidates; 0 or 1: master_port alone */
  bool perhaps_store;     /* torchrun of some version: if the port is taken, ask whether by it */
  const char *run_id, *job_key;
  const char *job; /* the same text on all hosts of the job and on no other job's; NULL: unknown */
  int pmi_fd;
  bool child;      /* of our own launcher */
  int restarts;    /* how many there were before */
  int first_world; /* ranks of the first round; 0: as many as now */
} DdpLaunch;

enum { DDP_LAUNCH_PORTS = 8 };
/* Candidate number i of the ports that rank 0 may listen on. */
int ddp_launch_port(const DdpLaunch *l, int i);

/* Before ddp_launch, by programs for devices: how many of them this host has for ranks ("--nproc-per-node auto"). */
void ddp_launch_devices(DdpError *(*count)(int *out));
/* Reads launcher flags out of argv (removing them) and the environment. In parent mode it starts
   the ranks, waits for them and sets *parent_exit to the exit code (>= 0); otherwise *parent_exit
   = -1. */
DdpError *ddp_launch(int *argc, char **argv, DdpLaunch *out, int *parent_exit);
/* For restarts (--max-restarts), in the launcher; each may be NULL. */
typedef struct DdpLaunchHooks {
  void *self;
  void (*begin)(void *self); /* before the first round; argv has no launcher's flags any more */
  /* Can a job that began with `first` ranks on this host go on with `ranks` of them? */
  bool (*fits)(void *self, int ranks, int first);
} DdpLaunchHooks;
void ddp_launch_hooks(const DdpLaunchHooks *hooks);
/* Lines for --help. */
extern const char ddp_launch_help[];
/* Writes torchrun's error file, /dev/termination-log; waits as a victim should (launch
   document). */
void ddp_launch_report(const DdpLaunch *l, const DdpError *e);
/* The same for a rank that crashes: prepared at the start, then safe in a signal handler. The message
   needs no escapes in JSON. */
void ddp_launch_crash_ready(const DdpLaunch *l);
void ddp_launch_crash(const char *message);
#endif
