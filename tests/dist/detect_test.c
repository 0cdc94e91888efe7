/* Launchers' environments as they were recorded, and broken ones: rank, world and channel, or an
   exact complaint. */
#include "detect.h"
#include "slurm.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { VARIABLES = 12 };

typedef struct Case {
  const char *name;
  const char *environment[VARIABLES];
  const char *by; /* NULL: an error that holds `text` */
  int rank, world, local_rank, local_world;
  const char *master, *job_key; /* NULL: none; "*": any */
  int port;
  DdpChannel channel;
  int fan_out; /* ranks to start here instead */
  const char *text;
} Case;

static const Case cases[] = {
    {.name = "nothing", .by = "no launcher", .world = 1, .local_world = 1},
    {.name = "torchrun",
     .environment = {"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1",
                     "MASTER_ADDR=localhost", "MASTER_PORT=37953", "TORCHELASTIC_RUN_ID=none",
                     "TORCHELASTIC_USE_AGENT_STORE=True", "OMP_NUM_THREADS=1"},
     .by = "torchrun",
     .rank = 3,
     .world = 4,
     .local_rank = 1,
     .local_world = 2,
     .master = "localhost",
     .port = 37953,
     .channel = DDP_CHANNEL_store},
    {.name = "torchrun under srun",
     .environment = {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
                     "MASTER_ADDR=a", "TORCHELASTIC_RUN_ID=x", "SLURM_PROCID=0", "SLURM_STEP_ID=0",
                     "SLURM_STEP_NUM_TASKS=2", "PET_NPROC_PER_NODE=2"},
     .by = "torchrun",
     .rank = 1,
     .world = 2,
     .local_rank = 1,
     .local_world = 2,
     .master = "a",
     .port = 29500},
    {.name = "old torchrun",
     .environment = {"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=a",
                     "TORCHELASTIC_RUN_ID=x", "TORCHELASTIC_USE_AGENT_STORE=True",
                     "NCCL_ASYNC_ERROR_HANDLING=1"},
     .text = "older than torch 2.2"},
    {.name = "virtual local rank",
     .environment = {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=a", "MASTER_PORT=7"},
     .by = "torch environment",
     .rank = 1,
     .world = 2,
     .master = "a",
     .port = 7},
    {.name = "Open MPI",
     .environment = {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                     "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                     "PMIX_NAMESPACE=1061158913", "PMIX_RANK=1"},
     .by = "Open MPI",
     .rank = 1,
     .world = 2,
     .local_rank = 1,
     .local_world = 2,
     .job_key = "1061158913"},
    {.name = "Open MPI with MASTER_ADDR",
     .environment = {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                     "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
                     "PMIX_NAMESPACE=9", "MASTER_ADDR=h", "MASTER_PORT=1234"},
     .by = "Open MPI",
     .rank = 1,
     .world = 2,
     .local_world = 1,
     .master = "h",
     .port = 1234,
     .job_key = "9"},
    {.name = "Open MPI, two hosts, no address",
     .environment = {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                     "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
                     "PMIX_NAMESPACE=9"},
     .text = "set MASTER_ADDR (and MASTER_PORT) to the host of rank 0"},
    {.name = "Open MPI, two hosts, its PMIx",
     .environment = {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                     "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
                     "PMIX_NAMESPACE=9", "PMIX_RANK=1"},
     .by = "Open MPI",
     .channel = DDP_CHANNEL_pmix,
     .rank = 1,
     .world = 2,
     .local_world = 1,
     .job_key = "9"},
    {.name = "hydra, one host",
     .environment = {"PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=8", "MPI_LOCALRANKID=1",
                     "MPI_LOCALNRANKS=2"},
     .by = "hydra",
     .rank = 1,
     .world = 2,
     .local_rank = 1,
     .local_world = 2,
     .job_key = "*"},
    {.name = "Slurm, one host",
     .environment = {"SLURM_STEP_ID=0", "SLURM_JOB_ID=17", "SLURM_STEP_NUM_TASKS=2",
                     "SLURM_PROCID=1", "SLURM_LOCALID=1", "SLURM_NODEID=0",
                     "SLURM_STEP_TASKS_PER_NODE=2", "SLURM_STEP_NODELIST=n1"},
     .by = "Slurm",
     .rank = 1,
     .world = 2,
     .local_rank = 1,
     .local_world = 2,
     .job_key = "slurm-17.0"},
    {.name = "Slurm, three hosts",
     .environment = {"SLURM_STEP_ID=3", "SLURM_JOB_ID=17", "SLURM_STEP_NUM_TASKS=5",
                     "SLURM_PROCID=4", "SLURM_LOCALID=0", "SLURM_NODEID=2",
                     "SLURM_STEP_TASKS_PER_NODE=2(x2),1", "SLURM_STEP_NODELIST=gpu[001-002,7],x1"},
     .by = "Slurm",
     .rank = 4,
     .world = 5,
     .local_world = 1,
     .master = "gpu001",
     .port = -1,
     .job_key = "slurm-17.3"},
    {.name = "Slurm, arbitrary order of hosts",
     .environment = {"SLURM_STEP_ID=3", "SLURM_JOB_ID=17", "SLURM_STEP_NUM_TASKS=2",
                     "SLURM_PROCID=1", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
                     "SLURM_STEP_NODELIST=n[1-2]", "SLURM_DISTRIBUTION=arbitrary"},
     .text = "does not say where rank 0 is: set MASTER_ADDR"},
    {.name = "Slurm with an address",
     .environment = {"SLURM_STEP_ID=3", "SLURM_JOB_ID=17", "SLURM_STEP_NUM_TASKS=2",
                     "SLURM_PROCID=1", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
                     "SLURM_STEP_NODELIST=n[1-2]", "SLURM_DISTRIBUTION=arbitrary", "MASTER_ADDR=h",
                     "MASTER_PORT=5"},
     .by = "Slurm",
     .rank = 1,
     .world = 2,
     .local_world = 1,
     .master = "h",
     .port = 5,
     .job_key = "slurm-17.3"},
    {.name = "Slurm, two hosts, PMI-2",
     .environment = {"SLURM_STEP_ID=3", "SLURM_JOB_ID=17", "SLURM_STEP_NUM_TASKS=2",
                     "SLURM_PROCID=1", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
                     "SLURM_STEP_NODELIST=n[1-2]", "PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=0"},
     .by = "Slurm (PMI)",
     .channel = DDP_CHANNEL_pmi,
     .rank = 1,
     .world = 2,
     .local_world = 1,
     .job_key = "slurm-17.3"},
    {.name = "Slurm, two hosts, PMIx",
     .environment = {"SLURM_STEP_ID=3", "SLURM_JOB_ID=17", "SLURM_STEP_NUM_TASKS=2",
                     "SLURM_PROCID=1", "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
                     "SLURM_STEP_NODELIST=n[1-2]", "PMIX_RANK=1", "PMIX_NAMESPACE=slurm.pmix.17.3"},
     .by = "Slurm",
     .channel = DDP_CHANNEL_pmix,
     .rank = 1,
     .world = 2,
     .local_world = 1,
     .job_key = "slurm-17.3"},
    {.name = "hydra whose proxies srun started",
     .environment = {"SLURM_STEP_ID=0", "SLURM_JOB_ID=17", "SLURM_STEP_NUM_TASKS=2",
                     "SLURM_PROCID=1", "SLURM_LOCALID=0", "SLURM_STEP_TASKS_PER_NODE=1(x2)",
                     "PMI_RANK=3", "PMI_SIZE=4", "PMI_FD=0", "MPI_LOCALRANKID=1",
                     "MPI_LOCALNRANKS=2"},
     .by = "hydra",
     .channel = DDP_CHANNEL_pmi,
     .rank = 3,
     .world = 4,
     .local_rank = 1,
     .local_world = 2},
    {.name = "hydra, two hosts, its descriptor is gone",
     .environment = {"PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=999", "MPI_LOCALRANKID=0",
                     "MPI_LOCALNRANKS=1"},
     .text = "set MASTER_ADDR (and MASTER_PORT)"},
    {.name = "hydra, two hosts, an address",
     .environment = {"PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=0", "MPI_LOCALRANKID=0",
                     "MPI_LOCALNRANKS=1", "MASTER_ADDR=h"},
     .by = "hydra",
     .rank = 1,
     .world = 2,
     .local_world = 1,
     .master = "h",
     .port = 29500},
    {.name = "MVAPICH2",
     .environment = {"MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2",
                     "MV2_COMM_WORLD_LOCAL_RANK=1", "MV2_COMM_WORLD_LOCAL_SIZE=2"},
     .by = "MVAPICH2",
     .rank = 1,
     .world = 2,
     .local_rank = 1,
     .local_world = 2,
     .job_key = "*"},
    {.name = "PALS",
     .environment = {"PALS_RANKID=5", "PALS_LOCAL_RANKID=1", "PMI_RANK=5", "PMI_SIZE=8",
                     "PMI_LOCAL_SIZE=4", "MASTER_ADDR=h"},
     .by = "PALS",
     .rank = 5,
     .world = 8,
     .local_rank = 1,
     .local_world = 4,
     .master = "h",
     .port = 29500},
    {.name = "jsrun",
     .environment = {"JSM_NAMESPACE_RANK=1", "JSM_NAMESPACE_SIZE=2", "JSM_NAMESPACE_LOCAL_RANK=1",
                     "LSB_JOBID=8", "MASTER_ADDR=h"},
     .by = "jsrun",
     .rank = 1,
     .world = 2,
     .local_rank = 1,
     .master = "h",
     .port = 29500,
     .job_key = "8"},
    {.name = "Open MPI, RANK of something else",
     .environment = {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                     "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                     "PMIX_NAMESPACE=9", "RANK=0", "WORLD_SIZE=1"},
     .by = "Open MPI",
     .rank = 1,
     .world = 2,
     .local_rank = 1,
     .local_world = 2,
     .job_key = "9"},
    {.name = "sbatch without srun",
     .environment = {"SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=1"},
     .by = "no launcher",
     .world = 1,
     .local_world = 1},
    {.name = "srun of one task",
     .environment = {"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0",
                     "SLURM_LOCALID=0"},
     .by = "no launcher",
     .world = 1,
     .local_world = 1},
    {.name = "PyTorchJob, one process per pod",
     .environment = {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=job-master-0", "MASTER_PORT=23456"},
     .by = "torch environment, one rank per host",
     .rank = 1,
     .world = 2,
     .local_world = 1,
     .master = "job-master-0",
     .port = 23456},
    {.name = "PyTorchJob with nprocPerNode",
     .environment = {"RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=job-master-0", "MASTER_PORT=23456",
                     "PET_NNODES=2", "PET_NPROC_PER_NODE=2", "PET_NODE_RANK=1"},
     .by = "PET_* variables",
     .fan_out = 2},
    {.name = "TrainJob",
     .environment = {"PET_NNODES=2", "PET_NPROC_PER_NODE=3", "PET_NODE_RANK=0",
                     "PET_MASTER_ADDR=job-node-0-0.job", "PET_MASTER_PORT=29500"},
     .by = "PET_* variables",
     .fan_out = 3},
    {.name = "pods whose number is missing",
     .environment = {"PET_NNODES=2", "PET_NPROC_PER_NODE=3", "PET_MASTER_ADDR=a"},
     .text = "PET_NNODES=2 needs PET_NODE_RANK"},
    {.name = "pods without an address",
     .environment = {"PET_NNODES=2", "PET_NPROC_PER_NODE=3", "PET_NODE_RANK=0"},
     .text = "PET_NNODES=2 needs PET_MASTER_ADDR or MASTER_ADDR"},
    {.name = "as many hosts at least as at most",
     .environment = {"PET_NNODES=2:2", "PET_NPROC_PER_NODE=1", "PET_NODE_RANK=1",
                     "PET_MASTER_ADDR=a"},
     .by = "PET_* variables",
     .fan_out = 1},
    {.name = "one rank in all",
     .environment = {"PET_NNODES=1", "PET_NPROC_PER_NODE=1"},
     .by = "no launcher",
     .world = 1,
     .local_world = 1},
    {.name = "a rendezvous of torchrun",
     .environment = {"PET_NNODES=2", "PET_NPROC_PER_NODE=1", "PET_RDZV_BACKEND=c10d",
                     "PET_RDZV_ENDPOINT=job-worker-0:2379"},
     .text = "PET_RDZV_BACKEND=c10d needs torchrun"},
    {.name = "ranks on GPUs",
     .environment = {"PET_NPROC_PER_NODE=gpu"},
     .text = "PET_NPROC_PER_NODE=gpu: this program trains on CPUs"},
    {.name = "several ranks for each host",
     .environment = {"RANK=1", "WORLD_SIZE=2", "NPROC_PER_NODE=8", "MASTER_ADDR=a",
                     "MASTER_PORT=7"},
     .by = "NPROC_PER_NODE",
     .fan_out = 8},
    {.name = "one rank for each host",
     .environment = {"RANK=1", "WORLD_SIZE=2", "NPROC_PER_NODE=1", "MASTER_ADDR=a",
                     "MASTER_PORT=7"},
     .by = "torch environment, one rank per host",
     .rank = 1,
     .world = 2,
     .local_world = 1,
     .master = "a",
     .port = 7},
    {.name = "elastic",
     .environment = {"PET_NNODES=1:2", "PET_NPROC_PER_NODE=2"},
     .text = "torchrun"},
    {.name = "accelerate's one process",
     .environment = {"ACCELERATE_MIXED_PRECISION=no", "ACCELERATE_USE_CPU=True",
                     "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"},
     .text = "accelerate launch --multi_gpu"},
    {.name = "accelerate, one process asked for",
     .environment = {"ACCELERATE_MIXED_PRECISION=no", "ACCELERATE_USE_CPU=True"},
     .by = "no launcher",
     .world = 1,
     .local_world = 1},
    {.name = "empty is unset",
     .environment = {"RANK=", "WORLD_SIZE="},
     .by = "no launcher",
     .world = 1,
     .local_world = 1},
    {.name = "no world", .environment = {"RANK=0"}, .text = "RANK is set but WORLD_SIZE is not"},
    {.name = "no rank",
     .environment = {"WORLD_SIZE=2"},
     .text = "WORLD_SIZE=2 is set but RANK is not"},
    {.name = "rank too large",
     .environment = {"RANK=5", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=a"},
     .text = "RANK=5 is not below WORLD_SIZE=2"},
    {.name = "rank no number",
     .environment = {"RANK=a", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=a"},
     .text = "RANK=a: must be a number"},
    {.name = "local rank too large",
     .environment = {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2",
                     "MASTER_ADDR=a"},
     .text = "LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2"},
    {.name = "port out of range",
     .environment = {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "MASTER_ADDR=a",
                     "MASTER_PORT=66660"},
     .text = "MASTER_PORT=66660: must be a number from 1 to 65535"},
};

static bool like(const char *pattern, const char *text) {
  if (!pattern || !text) return pattern == text;
  return strcmp(pattern, "*") == 0 || strcmp(pattern, text) == 0;
}

static void check(const Case *c, const DdpLaunch *l, const DdpFanOut *fan, const DdpError *e) {
  if (!c->by) {
    if (!e || !strstr(e->message, c->text))
      fail_msg("%s: %s", c->name, e ? e->message : "no error");
    assert_int_equal(e->klass, DDP_USAGE);
    return;
  }
  if (e) fail_msg("%s: %s", c->name, e->message);
  if (fan->per_node != c->fan_out) fail_msg("%s: starts %d ranks", c->name, fan->per_node);
  if (c->fan_out) {
    assert_string_equal(fan->by, c->by);
    return;
  }
  if (strcmp(l->by, c->by) != 0 || l->rank != c->rank || l->world != c->world ||
      l->local_rank != c->local_rank || l->local_world != c->local_world ||
      l->channel != c->channel || !like(c->master, l->master_addr) ||
      !like(c->job_key, l->job_key) || (c->port >= 0 && l->master_port != c->port))
    fail_msg("%s: by %s rank %d of %d local %d of %d master %s:%d key %s channel %d", c->name,
             l->by, l->rank, l->world, l->local_rank, l->local_world,
             l->master_addr ? l->master_addr : "-", l->master_port, l->job_key ? l->job_key : "-",
             (int)l->channel);
}

static void test_environments(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    clearenv();
    for (int k = 0; k < VARIABLES && cases[i].environment[k]; k++)
      putenv((char *)(uintptr_t)cases[i].environment[k]);
    DdpFanOut fan = {0};
    DdpLaunch l;
    DdpError *e = ddp_detect(&fan, &l);
    check(&cases[i], &l, &fan, e);
    ddp_error_free(e);
  }
  clearenv();
}

/* "a b c" -> argv; returns what is left, or the error's text. */
static const char *flags(const char *line, DdpFanOut *fan, char *buffer, size_t size) {
  char *argv[16] = {"train"}, copy[256], *save = NULL;
  int argc = 1;
  snprintf(copy, sizeof copy, "%s", line);
  for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) argv[argc++] = w;
  DdpError *e = ddp_detect_flags(&argc, argv, fan);
  buffer[0] = 0;
  if (e) snprintf(buffer, size, "error: %s", e->message);
  for (int i = 1; !e && i < argc; i++)
    snprintf(buffer + strlen(buffer), size - strlen(buffer), "%s%s", i > 1 ? " " : "", argv[i]);
  assert_true(e || argv[argc] == NULL);
  ddp_error_free(e);
  return buffer;
}

static DdpError *three_devices(int *out) {
  *out = 3;
  return NULL;
}
static DdpError *no_device(int *out) {
  (void)out;
  return ddp_error(DDP_FAILED, "no GPU");
}
/* Programs for GPUs: one rank for each, unless CPUs are asked for. */
static void test_devices(void **state) {
  (void)state;
  char b[512];
  DdpFanOut f;
  ddp_launch_devices(three_devices);
  flags("--nproc-per-node auto", &f, b, sizeof b);
  assert_int_equal(f.per_node, 3);
  flags("--nproc-per-node gpu", &f, b, sizeof b);
  assert_int_equal(f.per_node, 3);
  flags("--nproc-per-node 2", &f, b, sizeof b);
  assert_int_equal(f.per_node, 2);
  flags("--nproc-per-node cpu", &f, b, sizeof b);
  assert_true(f.per_node >= 1);
  ddp_launch_devices(no_device);
  assert_string_equal(flags("--nproc-per-node auto", &f, b, sizeof b), "error: no GPU");
  ddp_launch_devices(NULL);
}

static void test_flags(void **state) {
  (void)state;
  char b[512];
  DdpFanOut f;
  assert_string_equal(flags("--lr 1 --nproc-per-node 3 --x", &f, b, sizeof b), "--lr 1 --x");
  assert_int_equal(f.per_node, 3);
  assert_int_equal(f.nodes, 1);
  assert_string_equal(flags("--nproc_per_node=2", &f, b, sizeof b), "");
  assert_int_equal(f.per_node, 2);
  assert_string_equal(flags("--lr 1", &f, b, sizeof b), "--lr 1");
  assert_int_equal(f.per_node, 0);
  flags("--nproc-per-node auto", &f, b, sizeof b);
  assert_true(f.per_node >= 1);
  flags("--nproc-per-node 2 --nnodes 3 --node-rank 2 --master-addr h --master-port 99", &f, b,
        sizeof b);
  assert_int_equal(f.nodes, 3);
  assert_int_equal(f.node_rank, 2);
  assert_int_equal(f.master_port, 99);
  static const char *const bad[][2] = {
      {"--nproc-per-node 0", "takes a number of ranks"},
      {"--nproc-per-node", "needs a value"},
      {"--nproc-per-node x", "not \"x\""},
      {"--nproc-per-node 1 --nproc-per-node 2", "given twice"},
      {"--nnodes 2", "needs --nproc-per-node"},
      {"--nproc-per-node 1 --nnodes 2", "needs --node-rank and --master-addr"},
      {"--nproc-per-node 1 --nnodes 2 --node-rank 2 --master-addr h", "from 0 to 1"},
      {"--nproc-per-node 1 --master-port 70000", "from 1 to 65535"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (!strstr(flags(bad[i][0], &f, b, sizeof b), bad[i][1])) fail_msg("%s: %s", bad[i][0], b);
  }
}

/* A world of one is no world: flags under it start ranks. */
static void test_one_and_flags(void **state) {
  (void)state;
  clearenv();
  putenv((char *)(uintptr_t) "OMPI_COMM_WORLD_RANK=0");
  putenv((char *)(uintptr_t) "OMPI_COMM_WORLD_SIZE=1");
  DdpFanOut fan = {.per_node = 2, .nodes = 1};
  DdpLaunch l;
  assert_null(ddp_detect(&fan, &l));
  assert_int_equal(fan.per_node, 2);
  clearenv();
}

static void test_slurm_lists(void **state) {
  (void)state;
  static const struct {
    const char *list, *first;
  } hosts[] = {{"n1", "n1"},
               {"n1,n2", "n1"},
               {"gpu[001-004,7],x1", "gpu001"},
               {"gpu[7,9-12]", "gpu7"},
               {"r[1-2]c[03-04]-ib,x", "r1c03-ib"},
               {"a.b.example,c", "a.b.example"}};
  static const struct {
    const char *list;
    int node, tasks;
  } tasks[] = {{"2", 0, 2},           {"2,1", 1, 1}, {"2(x3),1", 2, 2}, {"2(x3),1", 3, 1},
               {"4(x2),3(x2)", 3, 3}, {"2", 1, 0},   {"", 0, 0},        {"x", 0, 0}};
  char name[64];
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
    ddp_slurm_first_host(hosts[i].list, name, sizeof name);
    assert_string_equal(name, hosts[i].first);
  }
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
    assert_int_equal(ddp_slurm_tasks(tasks[i].list, tasks[i].node), tasks[i].tasks);
  for (int i = 0; i < DDP_LAUNCH_PORTS; i++) {
    int port = ddp_slurm_port("slurm-17.0", i);
    assert_in_range(port, 20000, 29999);
    for (int k = 0; k < i; k++) assert_int_not_equal(port, ddp_slurm_port("slurm-17.0", k));
  }
}

static void test_launched_twice(void **state) {
  (void)state;
  clearenv();
  putenv((char *)(uintptr_t) "OMPI_COMM_WORLD_RANK=0");
  putenv((char *)(uintptr_t) "OMPI_COMM_WORLD_SIZE=2");
  DdpFanOut fan = {.per_node = 2, .nodes = 1};
  DdpLaunch l;
  DdpError *e = ddp_detect(&fan, &l);
  assert_non_null(e);
  assert_non_null(strstr(e->message, "launched twice"));
  ddp_error_free(e);
  clearenv();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_environments),  cmocka_unit_test(test_flags),
      cmocka_unit_test(test_devices),       cmocka_unit_test(test_launched_twice),
      cmocka_unit_test(test_one_and_flags), cmocka_unit_test(test_slurm_lists),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
