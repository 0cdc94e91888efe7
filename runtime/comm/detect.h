/* Reading of launcher flags and of launchers' environments; internal to launch.c and its tests. */
#ifndef DDP_COMM_DETECT_H
#define DDP_COMM_DETECT_H
#include "launch.h"

typedef struct DdpFanOut { /* start that many ranks here */
  int per_node;            /* 0: no, this process is a rank */
  int min_per_node;        /* a restart may go on with fewer, down to this */
  int max_restarts;
  int shutdown; /* seconds from a signal until ranks are killed; 0: the default */
  int nodes, node_rank;
  const char *master_addr; /* NULL: one host */
  int master_port;
  const char *by; /* what asked for it */
} DdpFanOut;

/* --nproc-per-node and the like, removed from argv. */
DdpError *ddp_detect_flags(int *argc, char **argv, DdpFanOut *out);
/* First launcher that fits, in the order of docs/launch.md. `fan`: flags already found; may be
   filled by PET_* variables or accelerate. */
DdpError *ddp_detect(DdpFanOut *fan, DdpLaunch *out);
/* Set and not empty: an empty variable counts as unset. name NULL: NULL. */
const char *ddp_variable(const char *name);
/* Leaves *out alone when the variable is unset. */
DdpError *ddp_variable_number(const char *name, int low, int high, int *out);
/* Whether a program that is no rank has to start ranks: variables of torchrun's options and of
   pods with several ranks; accelerate's command line. out->per_node stays 0: no. */
DdpError *ddp_fan_pods(DdpFanOut *out);
DdpError *ddp_fan_accelerate(DdpFanOut *out);
/* Whole text is an integer within [low, high]. */
bool ddp_detect_int(const char *text, int low, int high, int *out);
/* "auto": devices of the program, or usable CPUs; "gpu": devices, and refused by a program for CPUs; "cpu":
   usable CPUs; else a number >= 1. */
DdpError *ddp_detect_count(const char *name, const char *text, int *out);
#endif
