/* In: argv and the environment. Out: this process's rank and how it finds the others; or, in the
   parent of our own launcher, the exit code after all ranks have ended. */
#include "launch.h"
#include "detect.h"
#include "log.h"
#include "slurm.h"
#include "spawn.h"
#include <sched.h>
#include <stdio.h>

static void warn_of_crowd(int ranks) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  int n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : ranks;
  if (ranks > 8 * n) {
    ddp_log(DDP_LOG_warning, "%d ranks share %d CPU%s: they wait for each other most of the time",
            ranks, n, n == 1 ? "" : "s");
  }
}

int ddp_launch_port(const DdpLaunch *l, int i) {
  return l->ports > 1 ? ddp_slurm_port(l->job, i) : l->master_port;
}

DdpError *ddp_launch(int *argc, char **argv, DdpLaunch *out, int *parent_exit) {
  DdpFanOut fan;
  *parent_exit = -1;
  *out = (DdpLaunch){.by = "no launcher", .world = 1, .local_world = 1};
  /* Under torchrun with --redirects, stdout is a file: lines must not wait in a buffer. */
  setvbuf(stdout, NULL, _IOLBF, 0);
  DDP_TRY(ddp_detect_flags(argc, argv, &fan));
  DDP_TRY(ddp_detect(&fan, out));
  if (fan.per_node && fan.per_node * fan.nodes == 1 && !fan.max_restarts) {
    *out = (DdpLaunch){.by = fan.by, .world = 1, .local_world = 1};
    return NULL;
  }
  if (fan.per_node) warn_of_crowd(fan.per_node);
  if (fan.per_node) return ddp_spawn(&fan, out, parent_exit);
  ddp_log_rank(out->rank, out->world);
  return NULL;
}
