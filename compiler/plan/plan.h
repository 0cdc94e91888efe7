/* The plan: kernels in order, offsets, ready order, buckets; the job's names and settings as data.
   The only thing that emit/ reads. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H
#include "job.h"
#include "nest.h"

/* Where a value lies. */
typedef enum Home {
  HOME_none,  /* never in memory: pulled into its users */
  HOME_input, /* a field of the batch: index = field */
  HOME_param,
  HOME_buffer, /* index = leaf */
  HOME_grad,   /* gradient arena: index = leaf */
  HOME_block,  /* activation block at `offset` */
  HOME_sum,    /* accumulator: index (train: 0 = the loss). Always added to, in double */
  HOME_state,  /* optimizer graphs: -1 = p, else state; updated in place: the source (input 0, 2 ..)
                    and the output have the same place. Input 1 (g): HOME_input, index 1 */
  HOME_out,    /* result array (metrics, schedules): element `index`, double */
  HOME_alias,  /* in the memory of `alias`: a reshape of it, for calls with strides any plan_view */
  HOME_arg,    /* bodies of loops: argument `index` */
  HOME_next,   /* bodies of loops: what argument over + index is in the next turn */
  HOME_yield,  /* bodies of loops: a part of the stack `index` */
} Home;
/* In a program whose loss is computed in chunks (Program.chunk). */
typedef enum ChunkRole {
  CHUNK_none, /* as without chunks; what has samples is written and read at those of the chunk */
  CHUNK_own,  /* in the block, with the memory of one chunk */
  CHUNK_sum,  /* in the block, summed over samples: chunks after the first add to it */
} ChunkRole;
typedef struct ValuePlace {
  Home home;
  ChunkRole chunk;
  int32_t index;
  Val alias;
  Val updates; /* the first value whose memory this one is stored over; 0: its own. Buffers and states of
                  optimizers; in the block, an operand that nobody reads afterwards (in_place.c) */
  int64_t offset, bytes; /* block: at the maximum batch, 64-byte aligned */
  int32_t first, last;   /* lifetime in kernel numbers */
  const char *name;      /* C identifier: "h1", "net_fc1_relu" */
  const char *local;     /* what a kernel calls it: "relu", "weight"; several values may have it */
} ValuePlace;

/* What a product does with its result in the same call, on targets whose products can (epilogue.c). */
typedef enum EpilogueKind {
  EPILOGUE_none,
  EPILOGUE_bias,  /* y = product + bias */
  EPILOGUE_gelu,  /* y = gelu(aux), aux = product + bias */
  EPILOGUE_dgelu, /* y = product * gelu'(aux); sums of its columns */
  EPILOGUE_bgrad, /* y = product; sums over what it sums over of its first or second operand */
} EpilogueKind;
typedef struct Epilogue {
  EpilogueKind kind;
  Val product, y, bias, aux, sums; /* NO_VAL: it has none. gelu: nor does it leave its aux then */
  bool first;                      /* sums of the first operand */
} Epilogue;

struct PlanLoop;
typedef enum KernelKind { KERNEL_nest, KERNEL_call } KernelKind;
typedef struct Kernel {
  KernelKind kind;
  Nest *nest; /* nest */
  /* nest: structural hash; equal keys are emitted once. It covers loops, index expressions,
     instructions, constants, dtypes, attributes of draws (but the site, an argument of the
     function) and of host scalars, which values share memory, and the kind of home that is written;
     not names, values, offsets. Kernels with equal keys have reads and writes in corresponding
     order. */
  uint64_t key;
  Val call;              /* call: the value of a library op (matmul, rows_grad ...) */
  struct PlanLoop *loop; /* of a scan */
  bool accumulate;       /* writes a gradient: adds to it on micro-batches after the first (a
                                call: with its value; by-products are written) */
  Epilogue epilogue;     /* of a product: it can do what the next kernel does as well */
  bool apart;            /* nest: what the product before it did not do */
  VEC(Val)
  reads, writes; /* nest: in order of first use / of roots; call: inputs / its value,
                                then the by-products that are read; bases, never aliases */
  VEC(int32_t)
  grads_ready; /* leaves whose gradient is complete after this kernel; in chunks, after all of them */
  const char *name; /* base for the C function: "bias_relu" */
  Span at;          /* line of the job */
} Kernel;

/* Kernels that run once for every `samples` samples of a batch, in turn; count 0: none. */
typedef struct PlanChunk {
  uint32_t first, count;
  int64_t samples;
  int64_t whole_bytes, bytes; /* what only they write and read: for the batch, for a chunk */
} PlanChunk;

/* One graph, scheduled. g is the plan's own copy (outputs have values of their own, transposes are
   folded into products): use it, not the job's. */
typedef struct Program {
  const Graph *g;
  VEC(Kernel) kernels;
  VEC(ValuePlace) places; /* indexed by Val */
  int64_t block_bytes;    /* activation block at batch_max */
  int64_t alive_bytes;    /* of it, the most that is alive at one time */
  int64_t batch_max;
  PlanChunk chunk;
  bool backward;  /* body of a loop that runs backwards */
  uint32_t *seen; /* [values] number of the walk that was there last; [0] that number itself */
} Program;

/* Where what is carried lies. Numbers of stacks are those of yields; offsets are in the scratch. */
typedef struct LoopCarry {
  int after;  /* the stack whose parts it is after each turn; -1 */
  int before; /* else: the stack whose parts it is before each turn; -1 */
  int64_t last,
      other; /* what the last turn writes, if no result is kept; the second of two buffers */
} LoopCarry;

/* A scan: its body as a program, turn for turn in the same scratch. */
typedef struct PlanLoop {
  Program body;
  LoopCarry *carry;   /* by carried */
  ValuePlace scratch; /* in the block of the program around: the body's block, then buffers */
  bool read;          /* somebody reads result 0 */
} PlanLoop;
/* The memory of result k of a loop; NO_VAL: nobody reads it. */
Val plan_loop_result(const Program *p, const Kernel *k, int result);

typedef enum ArenaRole {
  ARENA_param,
  ARENA_grad,
  ARENA_state,
  ARENA_param_bf16,
  ARENA_frozen,
  ARENA_buffer
} ArenaRole;
typedef struct PlanArena {
  ArenaRole role;
  int32_t state; /* state: number within its optimizer */
  DType dtype;
  int64_t elements;
} PlanArena;

typedef struct Segment { /* one leaf's place in its arenas */
  int32_t leaf;
  int64_t offset, elements; /* in elements; offsets are multiples of 16 elements (64 bytes) */
  int64_t state[4];         /* trained: where its optimizer's states lie, each in its arena */
} Segment;

typedef struct Bucket {
  int32_t first, count; /* range of the ready order */
  int64_t begin, end;   /* elements of the gradient arena, [begin, end) */
  int32_t ready_after;  /* kernel of the training program after which it may start */
} Bucket;

typedef struct PlanDevice { /* of a program for GPUs: what writing it shows (emit_needs) */
  bool known;
  int64_t scratch;   /* bytes, for one kernel at a time */
  bool scratch_open; /* of them are more, which the compiler of the device counts */
  bool products;     /* through cuBLASLt, which has a workspace */
} PlanDevice;

typedef struct Plan {
  Job *job;
  Program train, eval, predict, counts, finish, schedule;
  VEC(Program) optimizers;
  VEC(PlanArena) arenas;
  VEC(int32_t) ready;    /* trained leaves in the order in which their gradients become ready */
  VEC(Segment) segments; /* in arena order: trained leaves by `ready`; then frozen; then buffers */
  int32_t *segment_of;   /* by leaf: its place in segments; -1: a tied one has none of its own */
  VEC(Bucket) buckets;   /* for the job's ddp_bucket_cap_mb; the runtime walks the same rule */
  uint64_t hash;         /* of everything ranks must agree on */
  PlanDevice device;
} Plan;

Plan *plan_make(Job *job);
/* The module that most parameters are in, "transformer."; "": there is none. Names of the text leave it out. */
const char *plan_common_module(const Job *job);
const char *plan_short_name(const char *name, const char *common);
/* By value: is it part of what the loss is computed from, not of its gradients? */
bool *plan_forward(const Program *p, Arena *a);
int64_t plan_step_block(const Plan *plan); /* workspace of the optimizer steps, in bytes */
/* PyTorch's rule: a parameter is added, then the bucket closes if it has reached the limit; limits
   first, then cap. Pure: sizes in bytes in ready order -> number of buckets, ends[] exclusive. */
int plan_buckets(const int64_t *bytes, int n, int64_t first_cap, int64_t cap, int32_t *ends);
/* `ddpc plan`: tables for people. */
void plan_print(Text *out, const Plan *plan);
/* The setting that keeps the optimizer from stepping each bucket as it arrives; NULL: none does. */
const char *plan_steps_late(const Plan *plan);
/* How many gradients are complete before the loss is. */
int32_t plan_loss_after(const Plan *plan);
/* What the tables say, for tools. Bytes of one rank beside the data; of them, the samples of a batch,
   and the average of the weights. */
int64_t plan_rank_bytes(const Plan *plan);
int64_t plan_block_bytes(
    const Plan *plan); /* activations and workspace, one after the other in one block */
int64_t plan_sample_bytes(const Plan *plan);
int64_t plan_average_bytes(const Plan *plan); /* ema_decay: the trained weights once more */
/* Buffers as they were before an update that may be given up: with several micro-batches, on_nan = skip. */
int64_t plan_kept_bytes(const Plan *plan);
/* ---- device.c: one rank on a GPU, every allocation rounded up as the runtime's are; 0 elsewhere */
typedef struct PlanGpu {
  int64_t arenas, block, kept, average; /* as on CPUs */
  int64_t batches;            /* two micro-batches: samples, positions, rows, numbers of the step */
  int64_t optimizer;          /* what its steps read: rates, groups of parameters, norms */
  int64_t sums;               /* of losses and metrics, denominators */
  int64_t scratch, workspace; /* of kernels, of cuBLASLt */
  int64_t all;                /* these together */
  int64_t pinned;             /* page-locked memory of the host */
  int64_t beside;             /* an allowance: the context, code, buffers of NCCL and cuDNN */
} PlanGpu;
PlanGpu plan_gpu(const Plan *plan);
bool plan_on_gpu(const Plan *plan);
/* What must fit into a rank's memory. */
int64_t plan_room_bytes(const Plan *plan);
const Segment *plan_segment(const Plan *plan, int32_t leaf);   /* NULL: tied to another */
int64_t plan_bucket_of(const Plan *plan, int32_t leaf);        /* counted from 1; 0: in none */
const char *plan_group_name(const Job *job, const Leaf *leaf); /* "decay", "frozen", "buffer" ... */
const char *plan_arena_name(const Plan *plan, const PlanArena *x, Arena *a);
const char *plan_kernel_text(const Program *p, const Kernel *k,
                             Arena *a);                     /* "matmul [B, 64], ..." */
int64_t plan_call_flops(const Program *p, const Kernel *k); /* of a library call, else 0 */
void plan_dump_nests(Text *out, const Plan *plan);
/* "gelu_aux_bias": what of it there is; "": none. */
const char *plan_epilogue_text(const Epilogue *e, Arena *a);
/* Elements of a sample, where the value is nothing but samples, one behind the other; 0: it has none;
   -1: neither. */
int64_t plan_sample_elements(const Graph *g, Val v);
/* Operands of calls that read through strides (OPF_strided): element [i, j ..] of v is element
   offset + i * stride[0] + j * stride[1] .. of `base`, which it is views of. False: it is not, or the
   strides are not linear in B. */
typedef struct View {
  Dim offset, stride[IR_MAX_RANK];
} View;
bool plan_view(const Graph *g, Val v, Val base, View *out);
/* The value behind v, through views, that lies in memory (stop says so) or may as well be put there, and
   of which v is a view whose last dimension has stride 1. v itself where there is none. */
Val plan_view_base(const Graph *g, Val v, bool (*stop)(void *self, Val v), void *self);
/* The value of by-product `index` (from 1) of a call; NO_VAL when nobody reads it. */
Val plan_part(const Program *p, const Kernel *call, int index);
#endif
