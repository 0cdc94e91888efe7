/* Reading of launcher flags and of launchers' environments; internal to launch.c and its tests. */
#ifndef DDP_COMM_DETECT_H
#define DDP_COMM_DETECT_H
#include "launch.h"

typedef struct DdpFanOut { /* start that many ranks here */
  int per_node;            /* 0: no, this process is a rank */
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
/* Whole text is an integer within [low, high]. */
bool ddp_detect_int(const char *text, int low, int high, int *out);
/* "auto", "cpu": usable CPUs; "gpu": refused for now; else a number >= 1. */
DdpError *ddp_detect_count(const char *name, const char *text, int *out);
#endif
