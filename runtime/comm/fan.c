/* In: the environment of a process that nobody made a rank, but from which several ranks are
   expected; accelerate's command line. Out: how many to start here, of which host.
   Holds: numbers that are missing are asked for, not guessed: hosts that guess differently wait for
   each other for ever. */
#include "detect.h"
#include "flag.h"
#include "log.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static DdpError *set_master(DdpFanOut *f, const char *nodes_name) {
  bool own = ddp_variable("PET_MASTER_ADDR");
  f->master_addr = ddp_variable(own ? "PET_MASTER_ADDR" : "MASTER_ADDR");
  const char *port = ddp_variable("PET_MASTER_PORT") ? "PET_MASTER_PORT" : "MASTER_PORT";
  DDP_TRY(ddp_variable_number(port, 1, 65535, &f->master_port));
  if (f->nodes == 1)
    f->master_addr = NULL;
  else if (!f->master_addr)
    return ddp_error(DDP_USAGE, "%s=%d needs PET_MASTER_ADDR or MASTER_ADDR", nodes_name, f->nodes);
  return NULL;
}

/* "2" and "2:2" are two hosts; "1:2" changes while the job runs, which needs torchrun. */
static DdpError *pet_nodes(const char *text, int *out) {
  const char *colon = strchr(text, ':');
  size_t n = colon ? (size_t)(colon - text) : 0;
  if (colon && (strlen(colon + 1) != n || strncmp(text, colon + 1, n) != 0))
    return ddp_error(DDP_USAGE, "PET_NNODES=%s: a changing number of hosts needs torchrun", text);
  if (ddp_detect_int(colon ? colon + 1 : text, 1, 65536, out)) return NULL;
  return ddp_error(DDP_USAGE, "PET_NNODES=%s: must be a number of hosts", text);
}

/* Variables that set torchrun's own options: a container without Python starts its ranks itself.
   RANK and WORLD_SIZE, where a controller sets them as well, count hosts here. */
static DdpError *pet(DdpFanOut *fan) {
  const char *per_node = ddp_variable("PET_NPROC_PER_NODE"), *nodes = ddp_variable("PET_NNODES");
  if (!per_node && !nodes) return NULL;
  DdpFanOut f = {.per_node = 1, .nodes = 1, .master_port = 29500, .by = "PET_* variables"};
  if (per_node) DDP_TRY(ddp_detect_count("PET_NPROC_PER_NODE", per_node, &f.per_node));
  if (nodes) DDP_TRY(pet_nodes(nodes, &f.nodes));
  f.min_per_node = f.per_node;
  DDP_TRY(ddp_variable_number("PET_MAX_RESTARTS", 0, 1000000, &f.max_restarts));
  if (f.per_node * f.nodes == 1) return NULL;
  if (f.nodes > 1) {
    const char *backend = ddp_variable("PET_RDZV_BACKEND");
    if (backend && strcmp(backend, "static") != 0)
      return ddp_error(DDP_USAGE, "PET_RDZV_BACKEND=%s needs torchrun", backend);
    if (!ddp_variable("PET_NODE_RANK"))
      return ddp_error(DDP_USAGE, "PET_NNODES=%d needs PET_NODE_RANK, a number from 0 to %d",
                       f.nodes, f.nodes - 1);
  }
  DDP_TRY(ddp_variable_number("PET_NODE_RANK", 0, f.nodes - 1, &f.node_rank));
  DDP_TRY(set_master(&f, "PET_NNODES"));
  *fan = f;
  return NULL;
}

/* Alibaba's DLC: RANK and WORLD_SIZE count hosts, NPROC_PER_NODE the ranks of each. */
static DdpError *per_host(DdpFanOut *fan) {
  const char *per_node = ddp_variable("NPROC_PER_NODE");
  if (!per_node || !ddp_variable("RANK") || !ddp_variable("WORLD_SIZE")) return NULL;
  DdpFanOut f = {.nodes = 1, .master_port = 29500, .by = "NPROC_PER_NODE"};
  DDP_TRY(ddp_detect_count("NPROC_PER_NODE", per_node, &f.per_node));
  DDP_TRY(ddp_variable_number("WORLD_SIZE", 1, 65536, &f.nodes));
  DDP_TRY(ddp_variable_number("RANK", 0, f.nodes - 1, &f.node_rank));
  if (f.per_node == 1) return NULL; /* then each host's process is the rank */
  DDP_TRY(set_master(&f, "WORLD_SIZE"));
  *fan = f;
  return NULL;
}

DdpError *ddp_fan_pods(DdpFanOut *out) {
  DDP_TRY(pet(out));
  return out->per_node ? NULL : per_host(out);
}

/* ---------- accelerate ---------- */

enum { LINE = 65536, ANCESTORS = 4 };

static size_t command_line(int pid, char out[LINE]) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
  FILE *f = fopen(path, "re");
  size_t n = f ? fread(out, 1, LINE - 1, f) : 0;
  if (f) fclose(f);
  out[n] = 0;
  return n;
}

static int parent_of(int pid) {
  char path[64], stat[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *f = fopen(path, "re");
  size_t n = f ? fread(stat, 1, sizeof stat - 1, f) : 0;
  if (f) fclose(f);
  stat[n] = 0;
  const char *p = strrchr(stat, ')'); /* the name may hold anything, it ends at the last ) */
  int parent;
  return p && sscanf(p + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Value of accelerate's own flag: "--num_processes 2", "--num-processes=2"; NULL: not given. */
static const char *flag_value(const char *line, size_t n, const char *flag) {
  for (const char *a = line; a < line + n; a += strlen(a) + 1) {
    const char *value, *next = a + strlen(a) + 1;
    if (!ddp_flag_spells(a, flag, &value)) continue;
    if (value) return value;
    if (next < line + n) return next;
  }
  return NULL;
}

static bool is_accelerate(const char *line, size_t n) {
  for (const char *a = line; a < line + n; a += strlen(a) + 1) {
    const char *name = strrchr(a, '/');
    if (strncmp(name ? name + 1 : a, "accelerate", 10) == 0) return true;
  }
  return false;
}

/* Length of a command line without the program that it starts and this one's flags: they are what
   it has in common with the started program's command line, at the end. */
static size_t without_program(const char *line, size_t n, const char *program, size_t size) {
  size_t k = 0;
  while (k < n && k < size && line[n - 1 - k] == program[size - 1 - k]) k++;
  size_t end = n - k;
  while (end < n && end > 0 && line[end - 1]) end++;
  return end;
}

/* accelerate's command line, up to the program; a script may stand between it and this process. */
static size_t find_accelerate(char line[LINE]) {
  static char below[LINE];
  size_t size = command_line((int)getpid(), below);
  int pid = (int)getppid();
  for (int i = 0; i < ANCESTORS && pid > 1; i++, pid = parent_of(pid)) {
    size_t n = command_line(pid, line), own = without_program(line, n, below, size);
    if (is_accelerate(line, own)) return own;
    memcpy(below, line, n);
    size = n;
  }
  return 0;
}

static DdpError *machines(DdpFanOut *f, const char *line, size_t n, int processes) {
  const char *nodes = flag_value(line, n, "num_machines"),
             *node = flag_value(line, n, "machine_rank");
  if (nodes && !ddp_detect_int(nodes, 1, 65536, &f->nodes))
    return ddp_error(DDP_USAGE, "accelerate --num_machines %s: must be a number", nodes);
  if (f->nodes == 1) return NULL;
  if (!node || !ddp_detect_int(node, 0, f->nodes - 1, &f->node_rank))
    return ddp_error(DDP_USAGE,
                     "accelerate --num_machines %d needs --machine_rank, a number from 0 to %d",
                     f->nodes, f->nodes - 1);
  if (processes % f->nodes)
    return ddp_error(DDP_USAGE,
                     "accelerate --num_processes %d cannot be shared by --num_machines %d",
                     processes, f->nodes);
  f->per_node = processes / f->nodes;
  f->master_addr = ddp_variable("MASTER_ADDR");
  return ddp_variable_number("MASTER_PORT", 1, 65535, &f->master_port);
}

/* accelerate starts one process where several were asked for (no GPU, no --multi_gpu); the number
   stands on its command line only. */
DdpError *ddp_fan_accelerate(DdpFanOut *fan) {
  static char line[LINE];
  if (!ddp_variable("ACCELERATE_MIXED_PRECISION") || !ddp_variable("MASTER_ADDR")) return NULL;
  size_t n = find_accelerate(line);
  const char *value = flag_value(line, n, "num_processes");
  DdpFanOut f = {.nodes = 1, .master_port = 29500, .by = "accelerate --num_processes"};
  if (!value || !ddp_detect_int(value, 1, 4096, &f.per_node))
    return ddp_error(
        DDP_USAGE,
        "accelerate set MASTER_ADDR, so several ranks were meant, but started one process. "
        "Use one of: accelerate launch --multi_gpu --num_processes N, "
        "torchrun --no-python --nproc-per-node N ./train, ./train --nproc-per-node N");
  DDP_TRY(machines(&f, line, n, f.per_node));
  *fan = f;
  ddp_log(DDP_LOG_info, "accelerate started one process; starting its %d ranks from here",
          f.per_node);
  return NULL;
}
