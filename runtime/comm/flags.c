/* In: argv. Out: what our own launcher is asked to start, and argv without those flags.
   Names are torchrun's; "_" and "-" are the same, "--flag value" and "--flag=value" as well. */
#include "detect.h"
#include "flag.h"
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

const char ddp_launch_help[] =
    "  --nproc-per-node N    start N ranks on this host (auto: one per GPU or usable CPU)\n"
    "  --nnodes N            hosts of the job; run the same command on each of them\n"
    "  --node-rank K         which of them this is, from 0\n"
    "  --master-addr HOST    host with --node-rank 0\n"
    "  --master-port PORT    its port (default 29500)\n"
    "  --max-restarts R      start failed ranks again, up to R times, from the newest checkpoint\n"
    "  --min-nproc-per-node M  a restart leaves out lost ranks, down to M\n"
    "  --shutdown-timeout S  seconds from a signal until ranks are killed (default 30)\n"
    "Without them the ranks come from torchrun, mpirun, srun or another launcher's environment;\n"
    "without one of those either, the job runs on one rank.\n";

bool ddp_detect_int(const char *text, int low, int high, int *out) {
  char *end;
  errno = 0;
  long v = strtol(text, &end, 10);
  if (end == text || *end || errno || v < low || v > high) return false;
  *out = (int)v;
  return true;
}

static DdpError *(*count_devices)(int *out); /* NULL: ranks are on CPUs */

void ddp_launch_devices(DdpError *(*count)(int *out)) {
  count_devices = count;
}

DdpError *ddp_detect_count(const char *name, const char *text, int *out) {
  bool automatic = strcmp(text, "auto") == 0, gpu = strcmp(text, "gpu") == 0;
  if (count_devices && (automatic || gpu)) return count_devices(out);
  if (automatic || strcmp(text, "cpu") == 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    *out = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return NULL;
  }
  if (gpu)
    return ddp_error(DDP_USAGE,
                     "%s=gpu: this program trains on CPUs (ddpc --target cuda:sm_NN makes one for "
                     "GPUs); give the number of ranks",
                     name);
  if (!ddp_detect_int(text, 1, 4096, out))
    return ddp_error(DDP_USAGE, "%s takes a number of ranks from 1 to 4096 or \"auto\", not \"%s\"",
                     name, text);
  return NULL;
}

enum {
  FLAG_NPROC,
  FLAG_NNODES,
  FLAG_NODE_RANK,
  FLAG_ADDR,
  FLAG_PORT,
  FLAG_RESTARTS,
  FLAG_LEAST,
  FLAG_SHUTDOWN,
  FLAG_COUNT
};
static const char *const flag_names[FLAG_COUNT] = {
    "nproc-per-node", "nnodes",       "node-rank",          "master-addr",
    "master-port",    "max-restarts", "min-nproc-per-node", "shutdown-timeout"};

/* Number of the flag that argument spells, -1 if none; *value: text after "=" or NULL. */
static int flag_of(const char *argument, const char **value) {
  for (int f = 0; f < FLAG_COUNT; f++) {
    if (ddp_flag_spells(argument, flag_names[f], value)) return f;
  }
  return -1;
}

static DdpError *number_flag(int f, const char *text, int low, int high, int *out) {
  if (!text || ddp_detect_int(text, low, high, out)) return NULL;
  return ddp_error(DDP_USAGE, "--%s takes a number from %d to %d, not \"%s\"", flag_names[f], low,
                   high, text);
}

static DdpError *fan_out_of(const char *const values[FLAG_COUNT], DdpFanOut *out) {
  *out = (DdpFanOut){.nodes = 1, .master_port = 29500, .by = "own launcher"};
  if (!values[FLAG_NPROC]) {
    for (int f = 0; f < FLAG_COUNT; f++) {
      if (values[f])
        return ddp_error(DDP_USAGE, "--%s needs --nproc-per-node beside it", flag_names[f]);
    }
    return NULL;
  }
  DDP_TRY(ddp_detect_count("--nproc-per-node", values[FLAG_NPROC], &out->per_node));
  DDP_TRY(number_flag(FLAG_NNODES, values[FLAG_NNODES], 1, 65536, &out->nodes));
  DDP_TRY(number_flag(FLAG_PORT, values[FLAG_PORT], 1, 65535, &out->master_port));
  DDP_TRY(number_flag(FLAG_NODE_RANK, values[FLAG_NODE_RANK], 0, out->nodes - 1, &out->node_rank));
  out->min_per_node = out->per_node;
  DDP_TRY(number_flag(FLAG_RESTARTS, values[FLAG_RESTARTS], 0, 1000000, &out->max_restarts));
  DDP_TRY(number_flag(FLAG_LEAST, values[FLAG_LEAST], 1, out->per_node, &out->min_per_node));
  out->shutdown = 30;
  DDP_TRY(number_flag(FLAG_SHUTDOWN, values[FLAG_SHUTDOWN], 1, 1000000, &out->shutdown));
  if (values[FLAG_LEAST] && !out->max_restarts)
    return ddp_error(DDP_USAGE, "--min-nproc-per-node has no effect without --max-restarts");
  if (out->nodes == 1) return NULL;
  if (out->min_per_node < out->per_node)
    return ddp_error(DDP_USAGE,
                     "--min-nproc-per-node with --nnodes is not supported yet: all hosts "
                     "restart with the same number of ranks");
  if (!values[FLAG_NODE_RANK] || !values[FLAG_ADDR])
    return ddp_error(DDP_USAGE, "--nnodes %d needs --node-rank and --master-addr", out->nodes);
  out->master_addr = values[FLAG_ADDR];
  return NULL;
}

DdpError *ddp_detect_flags(int *argc, char **argv, DdpFanOut *out) {
  const char *values[FLAG_COUNT] = {NULL};
  int kept = 1;
  for (int i = 1; i < *argc; i++) {
    const char *value = NULL;
    int f = flag_of(argv[i], &value);
    if (f < 0) {
      argv[kept++] = argv[i];
      continue;
    }
    if (!value) {
      if (i + 1 >= *argc) return ddp_error(DDP_USAGE, "--%s needs a value", flag_names[f]);
      value = argv[++i];
    }
    if (values[f]) return ddp_error(DDP_USAGE, "--%s is given twice", flag_names[f]);
    values[f] = value;
  }
  if (*argc > 0) {
    *argc = kept;
    argv[kept] = NULL;
  }
  return fan_out_of(values, out);
}
