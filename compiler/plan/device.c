/* What a rank takes on a GPU. In: the plan, what writing the program showed. Out: bytes, as runtime/train allocates them:
   the sizes of its structs are the runtime's own. Not counted, since the driver and the libraries decide: the CUDA
   context with the code, buffers of NCCL, workspaces of cuDNN; an allowance stands for them. What depends on flags
   of a run (gradients on the wire in 16 bits) or on the data (sums of each batch of an evaluation, 8 bytes a metric)
   is small and not counted either. */
#include "fuse.h"
#include "ddp/job.h"
#include <string.h>

enum {
  GPU_ALIGN = 256, /* of what cudaMalloc gives, and of the parts of a batch */
  HOST_ALIGN = 64, /* as memory is counted */
};
static const int64_t allowance = (int64_t)1 << 30;

static int64_t gpu(int64_t bytes) {
  return bytes ? plan_align(bytes, GPU_ALIGN)
               : GPU_ALIGN; /* an allocation of nothing is one, too */
}

bool plan_on_gpu(const Plan *plan) {
  return plan->job->target.cuda && plan->device.known;
}

static int64_t largest_batch(const Plan *plan) {
  int64_t batch = plan->train.batch_max;
  return plan->eval.g && plan->eval.batch_max > batch ? plan->eval.batch_max : batch;
}

/* One micro-batch, on the host and on the GPU alike. */
static int64_t batch_bytes(const Plan *plan) {
  int64_t batch = largest_batch(plan);
  int64_t sum = 2 * plan_align(batch * (int64_t)sizeof(int64_t), GPU_ALIGN);
  for (uint32_t i = 0; i < plan->job->dataset.fields.len; i++) {
    const Field *f = &plan->job->dataset.fields.at[i];
    if (f->used)
      sum +=
          plan_align(batch * type_elements_at(f->type, 1) * dtype_bytes(f->type.dtype), GPU_ALIGN);
  }
  return sum + plan_align((int64_t)sizeof(DdpScalars), GPU_ALIGN);
}

static int64_t rates_bytes(const Plan *plan) {
  return (int64_t)(sizeof(DdpRates) + plan->job->groups.len * sizeof(DdpRate));
}
static int64_t norms_bytes(const Plan *plan) {
  return ((int64_t)plan->ready.len + 1) * (int64_t)sizeof(double);
}
static int64_t sums_bytes(const Plan *plan) {
  return (plan->job->eval_sums > 0 ? plan->job->eval_sums : 1) * (int64_t)sizeof(double);
}

static int64_t param_elements(const Plan *plan) {
  for (uint32_t i = 0; i < plan->arenas.len; i++)
    if (plan->arenas.at[i].role == ARENA_param) return plan->arenas.at[i].elements;
  return 0;
}

static int64_t host(int64_t bytes) {
  return plan_align(bytes, HOST_ALIGN);
}

PlanGpu plan_gpu(const Plan *plan) {
  PlanGpu g = {0};
  if (!plan_on_gpu(plan)) return g;
  for (uint32_t i = 0; i < plan->arenas.len; i++)
    g.arenas += gpu(plan->arenas.at[i].elements * dtype_bytes(plan->arenas.at[i].dtype));
  g.block = gpu(plan_block_bytes(plan));
  g.kept = plan_kept_bytes(plan) ? gpu(plan_kept_bytes(plan)) : 0;
  g.average = plan_average_bytes(plan) ? gpu(plan_average_bytes(plan)) : 0;
  g.batches = DDP_BATCHES * gpu(batch_bytes(plan));
  g.optimizer = gpu(rates_bytes(plan)) + gpu(norms_bytes(plan)) +
                gpu((param_elements(plan) / DDP_GROUP_ELEMENTS + 1) * (int64_t)sizeof(uint16_t));
  g.sums = gpu(sums_bytes(plan)) + gpu((plan->job->train_counts + 1) * (int64_t)sizeof(double));
  g.scratch = gpu(plan->device.scratch);
  g.workspace = plan->device.products ? gpu(DDP_PRODUCT_WORKSPACE) : 0;
  g.all = g.arenas + g.block + g.kept + g.average + g.batches + g.optimizer + g.sums + g.scratch +
          g.workspace;
  g.pinned = DDP_BATCHES * host(batch_bytes(plan)) + host(norms_bytes(plan)) +
             host(rates_bytes(plan)) + host((int64_t)sizeof(DdpRates)) + host(sums_bytes(plan));
  g.beside = allowance;
  return g;
}

int64_t plan_room_bytes(const Plan *plan) {
  return plan_rank_bytes(plan) + plan_gpu(plan).beside;
}
