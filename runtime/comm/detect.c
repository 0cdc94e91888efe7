/* In: the environment. Out: rank, world and how ranks find each other, from the first launcher that
   fits. Holds: 0 <= rank < world; half-set pairs and contradictions are errors, never guesses. */
#include "detect.h"
#include "log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Set and not empty: an empty variable counts as unset. */
static const char *variable(const char *name) {
  const char *v = name ? getenv(name) : NULL;
  return v && *v ? v : NULL;
}

typedef struct Launcher {
  const char *by;
  const char *marker; /* must be set as well; NULL: none */
  const char *rank, *world, *local_rank, *local_world, *job_key;
} Launcher;

/* Order is meaning: the first row whose marker, rank and world are set wins. */
static const Launcher torchrun = {"torchrun",   "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE",
                                  "LOCAL_RANK", "LOCAL_WORLD_SIZE",    NULL};
static const Launcher torch_environment = {
    "torch environment", "LOCAL_RANK",       "RANK", "WORLD_SIZE",
    "LOCAL_RANK",        "LOCAL_WORLD_SIZE", NULL};
static const Launcher specific[] = {
    {"Open MPI", NULL, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"MVAPICH2", NULL, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
     "MV2_COMM_WORLD_LOCAL_SIZE", NULL},
    {"Slurm (PMI)", "SLURM_STEP_ID", "PMI_RANK", "PMI_SIZE", "SLURM_LOCALID", NULL, NULL},
    {"PALS", "PALS_RANKID", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PMI_LOCAL_SIZE", NULL},
    {"hydra", NULL, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL},
    {"jsrun", NULL, "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", NULL,
     "LSB_JOBID"},
    {"Slurm", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, NULL},
};
static const Launcher one_per_pod = {
    "torch environment, one rank per host", NULL, "RANK", "WORLD_SIZE", NULL, NULL, NULL};

static DdpError *number(const char *name, int low, int high, int *out) {
  const char *text = variable(name);
  if (!text || ddp_detect_int(text, low, high, out)) return NULL;
  return ddp_error(DDP_USAGE, "%s=%s: must be a number from %d to %d", name, text, low, high);
}

static DdpError *master(DdpLaunch *out) {
  out->master_addr = variable("MASTER_ADDR");
  out->master_port = out->master_addr ? 29500 : 0;
  return number("MASTER_PORT", 1, 65535, &out->master_port);
}

static bool fits(const Launcher *l) {
  return (!l->marker || variable(l->marker)) && variable(l->rank) && variable(l->world);
}

static DdpError *identity(const Launcher *l, DdpLaunch *out) {
  out->by = l->by;
  DDP_TRY(number(l->world, 1, 1 << 20, &out->world));
  DDP_TRY(number(l->rank, 0, (1 << 20) - 1, &out->rank));
  if (out->rank >= out->world)
    return ddp_error(DDP_USAGE, "%s=%d is not below %s=%d", l->rank, out->rank, l->world,
                     out->world);
  out->local_world = 0; /* 0: not known */
  DDP_TRY(number(l->local_world, 1, out->world, &out->local_world));
  out->local_rank = 0;
  DDP_TRY(number(l->local_rank, 0, 65535, &out->local_rank));
  if (out->local_world && out->local_rank >= out->local_world)
    return ddp_error(DDP_USAGE, "%s=%d is not below %s=%d", l->local_rank, out->local_rank,
                     l->local_world, out->local_world);
  out->job_key = variable(l->job_key);
  return master(out);
}

/* Field `node` of Slurm's "2,1" or "2(x3),1"; 0 if it cannot be read. */
static int slurm_tasks(const char *list, int node) {
  while (list && *list) {
    char *end;
    long tasks = strtol(list, &end, 10), times = 1;
    if (end == list) return 0;
    if (strncmp(end, "(x", 2) == 0) {
      times = strtol(end + 2, &end, 10);
      if (*end == ')') end++;
    }
    if (node < times) return (int)tasks;
    node -= (int)times;
    list = *end == ',' ? end + 1 : NULL;
  }
  return 0;
}

/* First name of a host list: "gpu[001-004,7],x1" is gpu001. */
static void slurm_first_host(const char *list, char *out, size_t size) {
  size_t n = 0;
  bool inside = false;
  for (const char *p = list; *p && n + 1 < size; p++) {
    if (*p == '[') {
      inside = true;
    } else if (inside && (*p == '-' || *p == ',')) {
      const char *close = strchr(p, ']'); /* a name may go on behind the bracket */
      if (!close) break;
      p = close;
      inside = false;
    } else if (*p == ']') {
      inside = false;
    } else if (*p == ',') {
      break;
    } else {
      out[n++] = *p;
    }
  }
  out[n] = 0;
}

static DdpError *slurm_details(DdpLaunch *out) {
  static char key[128], host[256];
  int node = 0;
  DDP_TRY(number("SLURM_NODEID", 0, 1 << 20, &node));
  out->local_world = slurm_tasks(variable("SLURM_STEP_TASKS_PER_NODE"), node);
  const char *job = variable("SLURM_JOB_ID"), *step = variable("SLURM_STEP_ID");
  snprintf(key, sizeof key, "slurm-%s.%s", job ? job : "", step ? step : "");
  out->job_key = key;
  if (out->master_addr || out->local_world == out->world) return NULL;
  const char *nodes = variable("SLURM_STEP_NODELIST");
  if (!nodes) return NULL;
  slurm_first_host(nodes, host, sizeof host);
  out->master_addr = host;
  unsigned hash = 5381;
  for (const char *p = key; *p; p++) hash = hash * 33 + (unsigned char)*p;
  out->master_port = 20000 + (int)(hash % 10000);
  return NULL;
}

/* Ranks of one launcher on one host have the same parent: its pid and start time are a job key. */
static const char *parent_key(void) {
  static char key[64];
  char path[64], stat[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)getppid());
  FILE *f = fopen(path, "r");
  if (!f) return NULL;
  size_t n = fread(stat, 1, sizeof stat - 1, f);
  fclose(f);
  stat[n] = 0;
  const char *p = strrchr(stat, ')'); /* the name may hold anything, it ends at the last ) */
  for (int field = 2; p && field < 22; field++) p = strchr(p + 1, ' ');
  if (!p) return NULL;
  snprintf(key, sizeof key, "parent-%d-%.*s", (int)getppid(), (int)strcspn(p + 1, " "), p + 1);
  return key;
}

static DdpError *channel(DdpLaunch *out) {
  if (out->world == 1 || out->master_addr || out->agent_store) return NULL;
  if (out->local_world == out->world && !out->job_key) out->job_key = parent_key();
  if (out->local_world == out->world && out->job_key) return NULL;
  return ddp_error(DDP_USAGE,
                   "%s says this is rank %d of %d but not how the ranks find each other: set "
                   "MASTER_ADDR (and MASTER_PORT) to the host of rank 0 on every rank",
                   out->by, out->rank, out->world);
}

static DdpError *torch_details(DdpLaunch *out) {
  const char *agent = variable("TORCHELASTIC_USE_AGENT_STORE");
  out->run_id = variable("TORCHELASTIC_RUN_ID");
  out->agent_store = agent && strcmp(agent, "True") == 0;
  if (out->agent_store && !out->master_addr)
    return ddp_error(DDP_USAGE, "TORCHELASTIC_USE_AGENT_STORE is set but MASTER_ADDR is not");
  if (out->agent_store && variable("NCCL_ASYNC_ERROR_HANDLING") &&
      !variable("TORCH_NCCL_ASYNC_ERROR_HANDLING"))
    return ddp_error(DDP_USAGE, "this torchrun is older than torch 2.2, whose store speaks another "
                                "protocol; use torch >= 2.2, or --nproc-per-node instead of it");
  return NULL;
}

static DdpError *half_set(void) {
  bool rank = variable("RANK"), world = variable("WORLD_SIZE");
  int n = 0;
  DDP_TRY(number("WORLD_SIZE", 1, 1 << 20, &n));
  if (rank && !world) return ddp_error(DDP_USAGE, "RANK is set but WORLD_SIZE is not");
  if (world && !rank && n > 1)
    return ddp_error(DDP_USAGE, "WORLD_SIZE=%d is set but RANK is not", n);
  return NULL;
}

/* Variables that set torchrun's own options: a container without Python starts its ranks itself. */
static DdpError *pet(DdpFanOut *fan) {
  const char *per_node = variable("PET_NPROC_PER_NODE"), *nodes = variable("PET_NNODES");
  if (!per_node && !nodes) return NULL;
  DdpFanOut f = {.per_node = 1, .nodes = 1, .master_port = 29500, .by = "PET_* variables"};
  if (per_node) DDP_TRY(ddp_detect_count("PET_NPROC_PER_NODE", per_node, &f.per_node));
  const char *colon = nodes ? strchr(nodes, ':') : NULL;
  if (colon) {
    size_t n = (size_t)(colon - nodes);
    if (strlen(colon + 1) != n || strncmp(nodes, colon + 1, n) != 0)
      return ddp_error(DDP_USAGE, "PET_NNODES=%s: a changing number of hosts needs torchrun",
                       nodes);
    nodes = colon + 1;
  }
  if (nodes && !ddp_detect_int(nodes, 1, 65536, &f.nodes))
    return ddp_error(DDP_USAGE, "PET_NNODES=%s: must be a number of hosts", nodes);
  if (f.per_node * f.nodes == 1) return NULL;
  const char *backend = variable("PET_RDZV_BACKEND");
  if (f.nodes > 1 && backend && strcmp(backend, "static") != 0)
    return ddp_error(DDP_USAGE, "PET_RDZV_BACKEND=%s needs torchrun", backend);
  DDP_TRY(number("PET_NODE_RANK", 0, f.nodes - 1, &f.node_rank));
  bool own = variable("PET_MASTER_ADDR");
  f.master_addr = own ? variable("PET_MASTER_ADDR") : variable("MASTER_ADDR");
  DDP_TRY(number(own ? "PET_MASTER_PORT" : "MASTER_PORT", 1, 65535, &f.master_port));
  if (f.nodes == 1)
    f.master_addr = NULL;
  else if (!f.master_addr)
    return ddp_error(DDP_USAGE, "PET_NNODES=%d needs PET_MASTER_ADDR or MASTER_ADDR", f.nodes);
  *fan = f;
  return NULL;
}

/* accelerate starts one process where several were asked for (no GPU, no --multi_gpu); the number
   stands on its command line only. */
static DdpError *accelerate(DdpFanOut *fan) {
  if (!variable("ACCELERATE_MIXED_PRECISION") || !variable("MASTER_ADDR")) return NULL;
  char path[64], line[65536];
  snprintf(path, sizeof path, "/proc/%d/cmdline", (int)getppid());
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
  if (f) fclose(f);
  line[n] = 0;
  for (size_t i = 0; i < n; i += strlen(line + i) + 1) {
    const char *value = NULL;
    if (strncmp(line + i, "--num_processes=", 16) == 0 ||
        strncmp(line + i, "--num-processes=", 16) == 0)
      value = line + i + 16;
    else if (strcmp(line + i, "--num_processes") == 0 || strcmp(line + i, "--num-processes") == 0 ||
             strcmp(line + i, "-n") == 0)
      value = line + i + strlen(line + i) + 1;
    int count;
    if (!value || value >= line + n || !ddp_detect_int(value, 1, 4096, &count)) continue;
    *fan = (DdpFanOut){.per_node = count, .nodes = 1, .by = "accelerate --num_processes"};
    ddp_log(DDP_LOG_info, "accelerate started one process; starting its %d ranks from here", count);
    return NULL;
  }
  return ddp_error(
      DDP_USAGE,
      "accelerate set MASTER_ADDR, so several ranks were meant, but started one process. "
      "Use one of: accelerate launch --multi_gpu --num_processes N, "
      "torchrun --no-python --nproc-per-node N ./train, ./train --nproc-per-node N");
}

static DdpError *rank_of(const Launcher *l, DdpFanOut *fan, DdpLaunch *out) {
  if (fan->per_node)
    return ddp_error(DDP_USAGE,
                     "launched twice: --nproc-per-node under %s, which has already made this rank "
                     "%s of %s; leave one of them out",
                     l->by, variable(l->rank), variable(l->world));
  return identity(l, out);
}

static void world_of_one(DdpLaunch *out) {
  *out = (DdpLaunch){.by = "no launcher", .world = 1, .local_world = 1};
  if (variable("MASTER_ADDR"))
    ddp_log(DDP_LOG_warning, "MASTER_ADDR is set but no rank: running on one rank");
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
    const Launcher *l = &specific[i];
    int tasks = 0;
    bool slurm = strncmp(l->by, "Slurm", 5) == 0;
    if (!fits(l)) continue;
    if (slurm) {
      DDP_TRY(number(l->world, 1, 1 << 20, &tasks));
      if (tasks == 1) continue; /* often the step that starts one launcher per host */
    }
    DDP_TRY(rank_of(l, fan, out));
    if (slurm) DDP_TRY(slurm_details(out));
    const char *rank = variable("RANK");
    int n;
    if (rank && (!ddp_detect_int(rank, 0, 1 << 20, &n) || n != out->rank))
      ddp_log(DDP_LOG_warning, "RANK=%s ignored: %s says this is rank %d", rank, l->by, out->rank);
    return channel(out);
  }
  if (fan->per_node) return NULL;
  if (variable("PMIX_RANK") && variable("PMIX_NAMESPACE"))
    return ddp_error(DDP_USAGE,
                     "a bare PMIx launcher is not supported yet; use mpirun, srun without "
                     "--mpi=pmix, or torchrun");
  DDP_TRY(pet(fan));
  if (fan->per_node) return NULL;
  if (fits(&one_per_pod)) {
    DDP_TRY(rank_of(&one_per_pod, fan, out));
    if (out->world == 1) return NULL;
    out->local_world = 1;
    return channel(out);
  }
  DDP_TRY(half_set());
  DDP_TRY(accelerate(fan));
  if (!fan->per_node) world_of_one(out);
  return NULL;
}
