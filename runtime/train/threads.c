/* Threads of one rank. In: the CPUs that the ranks of this host may use, quotas, `threads`,
   OMP_NUM_THREADS. Out: a number that keeps all ranks of the host together within the CPUs. */
#include "run.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* There when the program links OpenMP (oneDNN does). */
extern void omp_set_num_threads(int n) __attribute__((weak));

typedef struct Seat { /* what a rank tells the others */
  uint64_t host;
  cpu_set_t cpus;
} Seat;

static uint64_t host_id(void) {
  char text[320] = "";
  gethostname(text, 255);
  FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
  if (f) {
    size_t used = strlen(text);
    text[used + fread(text + used, 1, sizeof text - used - 1, f)] = 0;
    fclose(f);
  }
  return XXH64(text, strlen(text), 0);
}

/* CPUs worth of time that the control group grants; a large number when there is no limit. */
static int quota_cpus(void) {
  long long quota = 0, period = 0;
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
  int n = f ? fscanf(f, "%lld %lld", &quota, &period) : 0; /* "max 100000": no number */
  if (f) fclose(f);
  if (n != 2 || quota <= 0 || period <= 0) return CPU_SETSIZE;
  return (int)((quota + period - 1) / period);
}

/* CPUs of this rank over the ranks that share them. */
static DdpError *fair_share(DdpRun *r, int *out) {
  Seat mine = {.host = host_id()};
  CPU_ZERO(&mine.cpus);
  sched_getaffinity(0, sizeof mine.cpus, &mine.cpus);
  int cpus = CPU_COUNT(&mine.cpus), sharers = 0, on_host = 0;
  Seat *all = calloc((size_t)r->world, sizeof *all);
  if (!all) return ddp_error(DDP_MEMORY, "out of memory");
  all[0] = mine;
  DdpError *error = NULL;
  if (r->world > 1)
    error = ddp_group_all_gather(r->group, &mine, all, (int64_t)sizeof mine, "CPUs");
  for (int i = 0; i < r->world && !error; i++) {
    cpu_set_t both;
    CPU_AND(&both, &mine.cpus, &all[i].cpus);
    if (all[i].host != mine.host) continue;
    on_host++;
    sharers += CPU_COUNT(&both) > 0;
  }
  free(all);
  int quota = on_host ? quota_cpus() / on_host : 1;
  int share = sharers ? cpus / sharers : cpus;
  if (quota < share) share = quota;
  *out = share < 1 ? 1 : share;
  return error;
}

DdpError *run_set_threads(DdpRun *r) {
  int share = 1;
  DDP_TRY(fair_share(r, &share));
  const char *text = getenv("OMP_NUM_THREADS");
  int wished = text ? atoi(text) : 0;
  r->threads = share;
  if (wished >= 1 && wished < share) r->threads = wished;
  if (r->set->threads != DDP_NONE_INT) r->threads = (int)r->set->threads;
  if (omp_set_num_threads) omp_set_num_threads(r->threads);
  run_crash_threads(r->threads);
  return NULL;
}

/* libgomp's threads spin for long between two products; where they do not all get a CPU at once (another
   program runs, a container has a quota) an update then takes ten times as long. It reads how long from
   its environment before main, so the program starts itself again with that set. Whoever sets one of
   the variables is obeyed. */
void run_limit_spinning(char **argv) {
  if (!omp_set_num_threads || getenv("GOMP_SPINCOUNT") || getenv("OMP_WAIT_POLICY")) return;
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0 || setenv("GOMP_SPINCOUNT", "2000", 1)) return;
  path[n] = 0;
  execv(path, argv); /* if that fails, it goes on as it is */
}
