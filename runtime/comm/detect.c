/* In: the environment. Out: rank, world and how ranks find each other, from the first launcher that
   fits. Holds: 0 <= rank < world; half-set pairs and contradictions are errors, never guesses. */
#include "detect.h"
#include "log.h"
#include "pmix.h"
#include "slurm.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

const char *ddp_variable(const char *name) {
  const char *v = name ? getenv(name) : NULL;
  return v && *v ? v : NULL;
}

DdpError *ddp_variable_number(const char *name, int low, int high, int *out) {
  const char *text = ddp_variable(name);
  if (!text || ddp_detect_int(text, low, high, out)) return NULL;
  return ddp_error(DDP_USAGE, "%s=%s: must be a number from %d to %d", name, text, low, high);
}

typedef struct Launcher {
  const char *by;
  const char *marker; /* must be set as well; NULL: none */
  const char *rank, *world, *local_rank, *local_world, *job_key;
  DdpChannel channel; /* that it brings, for ranks without MASTER_ADDR */
} Launcher;

/* Order is meaning: the first row whose marker, rank and world are set wins. */
static const Launcher torchrun = {"torchrun",   "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE",
                                  "LOCAL_RANK", "LOCAL_WORLD_SIZE",    NULL,   DDP_CHANNEL_direct};
static const Launcher torch_environment = {
    "torch environment", "LOCAL_RANK",       "RANK", "WORLD_SIZE",
    "LOCAL_RANK",        "LOCAL_WORLD_SIZE", NULL,   DDP_CHANNEL_direct};
static const Launcher specific[] = {
    {"Open MPI", NULL, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", DDP_CHANNEL_pmix},
    {"MVAPICH2", NULL, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE", NULL, DDP_CHANNEL_direct},
    {"hydra", "MPI_LOCALRANKID", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL,
     DDP_CHANNEL_pmi}, /* also where its proxies were started by srun */
    {"Slurm (PMI)", "SLURM_STEP_ID", "PMI_RANK", "PMI_SIZE", "SLURM_LOCALID", NULL, NULL,
     DDP_CHANNEL_pmi},
    {"PALS", "PALS_RANKID", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PMI_LOCAL_SIZE", NULL,
     DDP_CHANNEL_direct},
    {"PMI", NULL, "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE", NULL,
     DDP_CHANNEL_pmi},
    {"jsrun", NULL, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", NULL,
     "LSB_JOBID", DDP_CHANNEL_direct},
    {"Slurm", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, NULL,
     DDP_CHANNEL_pmix},
};
static const Launcher one_per_pod = {"torch environment, one rank per host",
                                     NULL,
                                     "RANK",
                                     "WORLD_SIZE",
                                     NULL,
                                     NULL,
                                     NULL,
                                     DDP_CHANNEL_direct};
static const double pmix_wait = 60; /* seconds, before there is a ddp_timeout */

static DdpError *master(DdpLaunch *out) {
  out->master_addr = ddp_variable("MASTER_ADDR");
  out->master_port = out->master_addr ? 29500 : 0;
  return ddp_variable_number("MASTER_PORT", 1, 65535, &out->master_port);
}

static bool fits(const Launcher *l) {
  return (!l->marker || ddp_variable(l->marker)) && ddp_variable(l->rank) && ddp_variable(l->world);
}

static DdpError *identity(const Launcher *l, DdpLaunch *out) {
  out->by = l->by;
  DDP_TRY(ddp_variable_number(l->world, 1, 1 << 20, &out->world));
  DDP_TRY(ddp_variable_number(l->rank, 0, (1 << 20) - 1, &out->rank));
  if (out->rank >= out->world)
    return ddp_error(DDP_USAGE, "%s=%d is not below %s=%d", l->rank, out->rank, l->world,
                     out->world);
  out->local_world = 0; /* 0: not known */
  DDP_TRY(ddp_variable_number(l->local_world, 1, out->world, &out->local_world));
  out->local_rank = 0;
  DDP_TRY(ddp_variable_number(l->local_rank, 0, 65535, &out->local_rank));
  if (out->local_world && out->local_rank >= out->local_world)
    return ddp_error(DDP_USAGE, "%s=%d is not below %s=%d", l->local_rank, out->local_rank,
                     l->local_world, out->local_world);
  out->job_key = ddp_variable(l->job_key);
  return master(out);
}

static bool is_slurm(const Launcher *l) {
  return l->marker && strcmp(l->marker, "SLURM_STEP_ID") == 0;
}

/* Another launcher's PMIx server than Slurm's, whose daemons srun may have started. */
static bool has_bare_pmix(void) {
  const char *space = ddp_variable("PMIX_NAMESPACE");
  return space && ddp_variable("PMIX_RANK") && strncmp(space, "slurm.", 6) != 0;
}

/* All ranks are on this host, which has a name for the socket where they meet. */
static bool has_socket(const DdpLaunch *l) {
  return l->local_world == l->world && l->job_key;
}

static DdpError *slurm_step(DdpLaunch *out) {
  static char key[128];
  int node = 0;
  DDP_TRY(ddp_variable_number("SLURM_NODEID", 0, 1 << 20, &node));
  out->local_world = ddp_slurm_tasks(ddp_variable("SLURM_STEP_TASKS_PER_NODE"), node);
  const char *job = ddp_variable("SLURM_JOB_ID"), *step = ddp_variable("SLURM_STEP_ID");
  snprintf(key, sizeof key, "slurm-%s.%s", job ? job : "", step ? step : "");
  out->job_key = out->job = key;
  return NULL;
}

/* Slurm says which hosts a step has: where there is nothing better, its first one and a port made
   from the job's number will do. */
static DdpError *slurm_address(DdpLaunch *out) {
  static char host[256];
  const char *nodes = ddp_variable("SLURM_STEP_NODELIST");
  if (out->master_addr || out->channel != DDP_CHANNEL_direct || out->local_world == out->world ||
      !nodes)
    return NULL;
  const char *order = ddp_variable("SLURM_DISTRIBUTION");
  if (order && strncmp(order, "arbitrary", 9) == 0)
    return ddp_error(DDP_USAGE, "srun --distribution=arbitrary does not say where rank 0 is: set "
                                "MASTER_ADDR to its host, or use --mpi=pmi2");
  ddp_slurm_first_host(nodes, host, sizeof host);
  out->master_addr = host;
  out->ports = DDP_LAUNCH_PORTS;
  out->master_port = ddp_slurm_port(out->job, 0);
  return NULL;
}

/* A process that all ranks of the host have in common is a job key: its pid and start time. */
static const char *process_key(int pid) {
  static char key[64];
  char path[64], stat[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *f = fopen(path, "re");
  if (!f) return NULL;
  size_t n = fread(stat, 1, sizeof stat - 1, f);
  fclose(f);
  stat[n] = 0;
  const char *p = strrchr(stat, ')'); /* the name may hold anything, it ends at the last ) */
  for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
  if (!p) return NULL;
  snprintf(key, sizeof key, "process-%d-%.*s", pid, (int)strcspn(p + 1, " "), p + 1);
  return key;
}

/* The daemon at the other end of PMI's descriptor; scripts between it and the rank do not matter. */
static const char *daemon_key(int fd) {
  struct ucred c;
  socklen_t n = sizeof c;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &n) || c.pid <= 0 ? NULL : process_key(c.pid);
}

/* What the launcher brings, if it is really there, the user has named no address, and a socket of
   this host will not do: in a launcher's barrier nobody can say which rank is missing. */
static DdpError *own_channel(const Launcher *l, DdpLaunch *out) {
  if (out->world == 1 || out->master_addr) return NULL;
  if (l->channel == DDP_CHANNEL_pmi && ddp_variable("PMI_FD")) {
    DDP_TRY(ddp_variable_number("PMI_FD", 0, 1 << 20, &out->pmi_fd));
    bool there = fcntl(out->pmi_fd, F_GETFD) >= 0;
    if (there && !out->job_key) out->job_key = daemon_key(out->pmi_fd);
    if (there && !has_socket(out)) out->channel = DDP_CHANNEL_pmi;
  }
  if (l->channel == DDP_CHANNEL_pmix && ddp_variable("PMIX_RANK") &&
      ddp_variable("PMIX_NAMESPACE") && !has_socket(out))
    out->channel = DDP_CHANNEL_pmix;
  return NULL;
}

static DdpError *channel(DdpLaunch *out) {
  if (out->world == 1 || out->master_addr || out->channel != DDP_CHANNEL_direct) return NULL;
  if (!out->job_key) out->job_key = process_key((int)getppid());
  if (has_socket(out)) return NULL;
  return ddp_error(DDP_USAGE,
                   "%s says this is rank %d of %d but not how the ranks find each other: set "
                   "MASTER_ADDR (and MASTER_PORT) to the host of rank 0 on every rank",
                   out->by, out->rank, out->world);
}

static DdpError *torch_details(DdpLaunch *out) {
  const char *agent = ddp_variable("TORCHELASTIC_USE_AGENT_STORE");
  out->run_id = ddp_variable("TORCHELASTIC_RUN_ID");
  if (strcmp(out->run_id, "none") != 0) out->job = out->run_id;
  bool store = agent && strcmp(agent, "True") == 0;
  if (store && !out->master_addr)
    return ddp_error(DDP_USAGE, "TORCHELASTIC_USE_AGENT_STORE is set but MASTER_ADDR is not");
  if (store) out->channel = DDP_CHANNEL_store;
  out->perhaps_store = !agent;
  if (store && ddp_variable("NCCL_ASYNC_ERROR_HANDLING") &&
      !ddp_variable("TORCH_NCCL_ASYNC_ERROR_HANDLING"))
    return ddp_error(DDP_USAGE, "this torchrun is older than torch 2.2, whose store speaks another "
                                "protocol; use torch >= 2.2, or --nproc-per-node instead of it");
  return NULL;
}

static DdpError *half_set(void) {
  bool rank = ddp_variable("RANK"), world = ddp_variable("WORLD_SIZE");
  int n = 0;
  DDP_TRY(ddp_variable_number("WORLD_SIZE", 1, 1 << 20, &n));
  if (rank && !world) return ddp_error(DDP_USAGE, "RANK is set but WORLD_SIZE is not");
  if (world && !rank && n > 1)
    return ddp_error(DDP_USAGE, "WORLD_SIZE=%d is set but RANK is not", n);
  return NULL;
}

static DdpError *rank_of(const Launcher *l, DdpFanOut *fan, DdpLaunch *out) {
  if (fan->per_node)
    return ddp_error(DDP_USAGE,
                     "launched twice: --nproc-per-node under %s, which has already made this rank "
                     "%s of %s; leave one of them out",
                     l->by, ddp_variable(l->rank), ddp_variable(l->world));
  return identity(l, out);
}

static void world_of_one(DdpLaunch *out) {
  int tasks = 1;
  *out = (DdpLaunch){.by = "no launcher", .world = 1, .local_world = 1};
  if (ddp_variable("MASTER_ADDR"))
    ddp_log(DDP_LOG_warning, "MASTER_ADDR is set but no rank: running on one rank");
  if (ddp_variable("SLURM_JOB_ID") && !ddp_variable("SLURM_STEP_ID") &&
      !ddp_variable_number("SLURM_NTASKS", 1, 1 << 20, &tasks) && tasks > 1)
    ddp_log(DDP_LOG_warning,
            "this Slurm job has %d tasks, but srun did not start this program: running on one rank",
            tasks);
}

/* A launcher that only says rank and namespace: the rest is asked of its server. */
static DdpError *bare_pmix(DdpFanOut *fan, DdpLaunch *out) {
  if (fan->per_node)
    return ddp_error(DDP_USAGE,
                     "launched twice: --nproc-per-node under a PMIx launcher, which has already "
                     "made this rank %s; leave one of them out",
                     ddp_variable("PMIX_RANK"));
  DdpPmixJob job;
  DDP_TRY(ddp_variable_number("PMIX_RANK", 0, 1 << 20, &out->rank));
  DDP_TRY(ddp_pmix_open(&job, pmix_wait));
  out->by = "PMIx";
  out->world = job.world;
  out->local_rank = job.local_rank;
  out->local_world = job.local_world;
  out->job_key = out->job = ddp_variable("PMIX_NAMESPACE");
  DDP_TRY(master(out));
  if (out->local_world < out->world && !out->master_addr)
    out->channel = DDP_CHANNEL_pmix;
  else
    ddp_pmix_close();
  return NULL;
}

static void warn_of_other_rank(const DdpLaunch *l) {
  const char *rank = ddp_variable("RANK");
  int n;
  if (rank && (!ddp_detect_int(rank, 0, 1 << 20, &n) || n != l->rank))
    ddp_log(DDP_LOG_warning, "RANK=%s ignored: %s says this is rank %d", rank, l->by, l->rank);
}

/* A world of one is no world: such a step often starts one launcher on each host. */
static DdpError *passed_over(const Launcher *l, const DdpFanOut *fan, bool *out) {
  int world = 0;
  DDP_TRY(ddp_variable_number(l->world, 1, 1 << 20, &world));
  *out = (world == 1 && (is_slurm(l) || fan->per_node)) || (is_slurm(l) && has_bare_pmix());
  return NULL;
}

static DdpError *by_specific(const Launcher *l, DdpFanOut *fan, DdpLaunch *out) {
  DDP_TRY(rank_of(l, fan, out));
  if (strcmp(l->by, "Open MPI") == 0) out->job = out->job_key;
  if (is_slurm(l)) DDP_TRY(slurm_step(out));
  DDP_TRY(own_channel(l, out));
  if (is_slurm(l)) DDP_TRY(slurm_address(out));
  warn_of_other_rank(out);
  return channel(out);
}

DdpError *ddp_detect(DdpFanOut *fan, DdpLaunch *out) {
  *out = (DdpLaunch){.world = 1, .local_world = 1};
  if (fits(&torchrun)) {
    DDP_TRY(rank_of(&torchrun, fan, out));
    DDP_TRY(torch_details(out));
    return channel(out);
  }
  if (fits(&torch_environment)) {
    DDP_TRY(rank_of(&torch_environment, fan, out));
    return channel(out);
  }
  for (size_t i = 0; i < sizeof specific / sizeof *specific; i++) {
    bool pass;
    if (!fits(&specific[i])) continue;
    DDP_TRY(passed_over(&specific[i], fan, &pass));
    if (!pass) return by_specific(&specific[i], fan, out);
  }
  if (has_bare_pmix() && !ddp_variable("OMPI_COMM_WORLD_RANK")) return bare_pmix(fan, out);
  if (fan->per_node) return NULL;
  DDP_TRY(ddp_fan_pods(fan));
  if (fan->per_node) return NULL;
  if (fits(&one_per_pod)) {
    DDP_TRY(rank_of(&one_per_pod, fan, out));
    if (out->world == 1) return NULL;
    out->local_world = 1;
    return channel(out);
  }
  DDP_TRY(half_set());
  DDP_TRY(ddp_fan_accelerate(fan));
  if (!fan->per_node) world_of_one(out);
  return NULL;
}
