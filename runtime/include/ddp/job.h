/* What an emitted program hands to the runtime: tables and functions. The emitter writes these
   structs, ddp_main reads them; nothing else passes between the two. */
#ifndef DDP_JOB_H
#define DDP_JOB_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ddp/cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DDP_JOB_ABI = 13, DDP_MAX_RANK = 8 };

typedef enum DdpDType {
#define DTYPE(name, ctype, bytes, category, st) DDP_##name,
#include "dtype.def"
  DDP_DTYPE_COUNT
} DdpDType;

/* ---------- tensors and arenas ---------- */
typedef enum DdpRole {
  DDP_ROLE_param,
  DDP_ROLE_grad,
  DDP_ROLE_state,
  DDP_ROLE_param_bf16,
  DDP_ROLE_frozen,
  DDP_ROLE_buffer
} DdpRole;
typedef struct DdpArenaInfo {
  DdpRole role;
  int32_t state; /* DDP_ROLE_state: number */
  DdpDType dtype;
  int64_t elements; /* with padding between segments (64-byte aligned, zero) */
} DdpArenaInfo;

typedef struct DdpTensor {
  const char *name; /* state-dict name */
  DdpDType dtype;
  int32_t rank;
  int64_t shape[DDP_MAX_RANK];
  int64_t elements;
  DdpRole role; /* param (then also in grad and state arenas at the same offset), frozen, buffer */
  int64_t offset;    /* elements from the start of its arena; buffers: BYTES from the start */
  int32_t group;     /* -1 for buffers and frozen */
  int32_t tied_to;   /* index of the tensor it is an alias of (not saved), or -1 */
  int32_t optimizer; /* trained: in the job's optimizers */
  int64_t state[4];  /* trained: offsets of its states in their arenas */
} DdpTensor;

typedef enum DdpInitKind {
  DDP_INIT_fill,
  DDP_INIT_uniform,
  DDP_INIT_normal,
  DDP_INIT_trunc_normal,
  DDP_INIT_orthogonal,
  DDP_INIT_bernoulli,
  DDP_INIT_randint
} DdpInitKind;
typedef struct DdpInitStep {
  DdpInitKind kind;
  int32_t tensor; /* -1: drawn and thrown away */
  int64_t elements;
  double a, b;
  int64_t offset, step; /* fill: the first element and the distance to the next */
  double low, high;     /* trunc_normal: drawn again outside of these */
} DdpInitStep;

/* Weights that the job starts from, instead of drawn ones. */
typedef struct DdpLoadItem {
  int32_t tensor;
  const char *name; /* in the file */
} DdpLoadItem;
typedef struct DdpLoad {
  const char *file; /* relative to the job's directory */
  const DdpLoadItem *items;
  int32_t n_items;
  const char *const *others; /* NULL-terminated: what the file may have beside; NULL: nothing */
  const char *place;         /* "job.ddp:31" */
} DdpLoad;

typedef struct DdpParamGroup {
  const char *name;
  double learning_rate, weight_decay; /* NaN: the setting */
  int32_t optimizer;                  /* the first one of its kind; the tensor names its own */
} DdpParamGroup;

/* ---------- optimizer ---------- */
typedef struct DdpSettings DdpSettings; /* settings.h: one typed member per key */
/* What a step of the optimizer reads on a device, in its memory: a captured step reads it anew each time. */
typedef struct DdpRate {
  double lr, weight_decay;
} DdpRate;
typedef struct DdpRates {
  int64_t step;   /* from 1 */
  float clip;     /* gradients count times this; 1: as they are */
  float norm;     /* of all gradients, where it was asked for */
  int32_t hold;   /* 1: something was not finite, and a step changes nothing */
  DdpRate rate[]; /* by group */
} DdpRates;

typedef struct
    DdpSegment { /* one tensor (or a part of it) of one update; on devices also a range of the
                               arena with several tensors, for optimizers that go element by element */
  float *p;
  const float *g; /* averaged; on CPUs also clipped */
  float *state[4];
  int64_t n;
  char *block; /* workspace, as large as the job's step_block */
  double lr, weight_decay;
  int64_t step; /* from 1 */
  const DdpSettings *settings;
  /* on devices, where lr, weight_decay and step stand in device memory */
  void *stream;
  const DdpRates *rates;
  const uint16_t *groups; /* one for each DDP_GROUP_ELEMENTS of p: number in rates->rate */
  int32_t group;          /* of p, where it is one tensor */
  void *scratch;          /* DdpTarget.scratch bytes */
} DdpSegment;
typedef struct DdpOptimizer {
  const char *name;
  int32_t states;
  const char *state_name[4];
  double state_init[4];
  int64_t state_elements[4]; /* 0: as many as the tensor has */
  bool
      whole; /* looks at its tensor as a whole; else element by element, any part of it by itself */
  void (*step)(const DdpSegment *s);
} DdpOptimizer;

/* ---------- data ---------- */
typedef struct DdpField {
  const char *name, *column; /* column of a file with a header; NULL: in order */
  DdpDType dtype;            /* as stored in memory: u8, i32, i64, f32 */
  int32_t rank;
  int64_t shape[DDP_MAX_RANK];
  int64_t elements; /* per sample */
  bool has_range;
  double low, high;              /* integers: low <= v < high; floats: low <= v <= high */
  const char *const *categories; /* NULL-terminated texts, or NULL */
  bool text;                     /* bytes of a text, then zeros; of a longer one the first */
  bool used;                     /* the graphs read it */
  const char *place;             /* "job.ddp:14" */
} DdpField;
typedef enum DdpSourceKind {
#define SOURCE(name) DDP_SOURCE_##name,
#include "source.def"
#undef SOURCE
  DDP_SOURCE_COUNT
} DdpSourceKind;
typedef enum DdpBound { DDP_BOUND_none, DDP_BOUND_count, DDP_BOUND_percent } DdpBound;
typedef struct DdpSource {
  DdpSourceKind kind;
  const char *const *paths;  /* NULL-terminated; relative to the job's directory or --data_root */
  const char *const *fields; /* idx, npy: field of each path; cifar_bin: the labels of a record */
  bool header;               /* csv: names of columns; token_bin: that of llm.c */
  int64_t skip;
  const char *missing;
  int64_t width;  /* token_bin: bytes of a token */
  int64_t stride; /* windows: from one sample to the next */
  int64_t count;  /* synthetic: samples */
  uint64_t seed;  /* shuffle: randperm of a PyTorch generator with this seed; synthetic */
  DdpBound start_kind, stop_kind;
  double start, stop; /* negative counts from the end; percent rounds down */
  int32_t children[8];
  int32_t n_children;
  const char *place;
} DdpSource;
typedef struct DdpSplit {
  const char *name;
  int32_t source;
} DdpSplit;

/* ---------- one micro-batch ---------- */
/* What `predict` computes for one sample. */
typedef struct DdpResult {
  const char *name;
  DdpDType dtype;
  int32_t rank;
  int64_t shape[DDP_MAX_RANK];
  int64_t elements;
} DdpResult;

/* What changes from step to step and kernels of a device read in its memory, never as arguments: a captured
   step is replayed with other numbers. */
enum { DDP_MAX_COUNTS = 16 };
typedef struct DdpScalars {
  uint64_t seed;
  int64_t update, epoch;
  double share, loss_scale;
  double counts[DDP_MAX_COUNTS];
} DdpScalars;

enum { DDP_NO_UPDATE = -1 }; /* draws of the evaluation: of the seed and the sample alone */
typedef struct DdpStep {
  int64_t batch;             /* B of this micro-batch, <= train_batch (eval: eval_batch) */
  const void *const *fields; /* [n_fields]: dense [B, shape], dtype as declared */
  const int64_t
      *sample; /* [B]: position of each sample in the update's global batch, or in the split */
  const int64_t *row;     /* [B]: which one of the data it is, whatever the order */
  float *params, *frozen; /* arenas */
  float *grads;
  char *buffers;
  char *block;          /* activations and workspace */
  const double *counts; /* [n_counts]: denominators of the whole update window */
  double share;         /* B / samples of the whole update window */
  double loss_scale;    /* fp16: gradients are computed times this */
  bool accumulate;      /* add to grads (micro-batches after the first) */
  uint64_t seed;        /* of run-time draws */
  int64_t update;       /* from 0; or DDP_NO_UPDATE */
  int64_t epoch;        /* likewise */
  double *sums;         /* train: sums[0] += loss part; eval: accumulators */
  const DdpSettings *settings;
  struct DdpReducer *reducer; /* NULL: nothing to reduce */
  struct DdpTrace *trace;     /* NULL: nobody looks */
  /* on devices; all memory above that is read or written by kernels (fields, sample, row, arenas, block,
     sums) is the device's then, and of counts, share, loss_scale, seed, update and epoch kernels read
     the copies in `scalars` */
  void *stream;              /* of computation; NULL on CPUs */
  const DdpScalars *scalars; /* device memory */
  void *scratch;             /* DdpTarget.scratch bytes, for one kernel at a time */
  const void **results;      /* [n_results], set by predict(): in the block until the next step */
} DdpStep;

/* The step for samples first .. first + most - 1, or as many as there are. `fields` and the block are those
   of the whole micro-batch; gradients are added to from the second part on. */
static inline DdpStep ddp_step_part(const DdpStep *step, int64_t first, int64_t most) {
  DdpStep part = *step;
  part.batch = step->batch - first < most ? step->batch - first : most;
  if (step->sample) part.sample = step->sample + first;
  if (step->row) part.row = step->row + first;
  part.accumulate = step->accumulate || first > 0;
  return part;
}

/* Called by the emitted backward as soon as a gradient is complete (ddp/reducer.c). */
void ddp_grad_ready(DdpStep *step, int32_t tensor);
/* out = in summed over ranks, in the same place of the program on all of them, between the buckets that have
   begun before and those that begin after. An error is kept until the gradients are waited for. */
void ddp_all_sum(DdpStep *step, float *out, const float *in, int64_t n);

/* Kernel k of forward_backward() has ended: where a trace looks at the clock. */
void ddp_trace_kernel(struct DdpTrace *trace, int32_t kernel);
#define DDP_RAN(k)                                                                                 \
  do {                                                                                             \
    if (__builtin_expect(step->trace != NULL, 0)) ddp_trace_kernel(step->trace, k);                \
  } while (0)

/* ---------- a job for a device ---------- */
/* Sizes that the runtime allocates by, `ddpc plan` counts and kernels index with. */
enum {
  DDP_BATCHES = 2,         /* on devices: one is filled while kernels read the other */
  DDP_GROUP_ELEMENTS = 16, /* of an arena, that share a number in DdpSegment.groups */
  /* Of the library of products, as much as the fastest algorithms ask for. Which one is chosen depends on it, and with
     that the bits: one size for all GPUs. All products run on one stream, one after another. */
  DDP_PRODUCT_WORKSPACE = 32 << 20,
};

struct DdpDevice;
struct DdpBackend;
typedef struct DdpRange { /* of an arena, in elements */
  int64_t begin, end;
} DdpRange;
typedef struct DdpSettle { /* whether and how the optimizer steps, found out on the device */
  DdpRates *rates;
  const double
      *squares; /* [n] of the gradients of tensors, in the order of the model; NULL: nobody asks */
  int32_t n;
  double max_norm; /* above 0: gradients are clipped */
  bool holds;      /* what is not finite keeps the optimizer from stepping */
  const double
      *loss; /* this and the next one are looked at, where they are not NULL, beside the norm */
  const float *told; /* the element of the gradients that DdpArenaKernels.tell has marked */
} DdpSettle;
/* Kernels that the runtime needs beside the job's own: compiled with the job, for the same devices
   (runtime/kernels/cuda/arena.h). All enqueue on `stream` and return. Pointers are device memory, but for
   `ranges`, which the host reads before the call returns. */
typedef struct DdpArenaKernels {
  /* sums[k] = sum of squares of x over range k: in double, in an order fixed by the range. scratch: as
     DdpStep.scratch, free again for what is enqueued next */
  void (*square_sums)(const float *x, const DdpRange *ranges, int32_t n, double *sums,
                      void *scratch, void *stream);
  void (*scale)(float *x, int64_t n, float by, void *stream);
  void (*fill)(float *x, int64_t n, float with, void *stream);
  /* ema: lerp(average, x, 1 - decay), as train/ema.c on CPUs */
  void (*average)(float *average, const float *x, int64_t n, double decay, void *stream);
  /* to and from the 16-bit type in which gradients travel; narrow: as ddp_sum_compress of comm/sum.h, from is
     the part of one of so many ranks */
  void (*narrow)(void *to, const float *from, int64_t n, DdpDType dtype, int ranks, void *stream);
  void (*widen)(float *to, const void *from, int64_t n, DdpDType dtype, void *stream);
  /* *at = NaN where the loss is not finite: in a gradient that is summed over ranks it tells all of them */
  void (*tell)(float *at, const double *loss, void *stream);
  /* norm, clip and hold of the rates, to the bit as train/norm.c has them */
  void (*settle)(const DdpSettle *s, void *stream);
} DdpArenaKernels;

typedef struct DdpTarget {
  const char *name;               /* "cuda" */
  const struct DdpDevice *device; /* device/device.h */
  const struct DdpBackend
      *backend;    /* comm.h: reduces in the device's memory; opened when ranks are several */
  const int *sm;   /* compute capabilities with code in the binary (80, 90 ..), 0 at the end */
  int ptx;         /* of the newest PTX; 0: none */
  int64_t scratch; /* bytes */
  bool products;   /* are there products for the library of the device? */
  DdpArenaKernels arena;
  int (*init)(void); /* attributes of kernels, once the device is chosen; a cudaError_t */
} DdpTarget;

/* ---------- the job ---------- */
typedef struct DdpSettingText { /* resolved settings, typed by settings.def */
  const char *key, *value;
  const char *place; /* "job.ddp:31", "-D", or NULL for a default */
  bool fixed;        /* no run-time override; fixed_by says why */
  const char *fixed_by;
} DdpSettingText;

typedef struct DdpJob {
  int32_t abi;             /* DDP_JOB_ABI */
  const char *name;        /* file name of the job */
  const char *directory;   /* of the job file as given to ddpc; "" = current */
  const char *compiler;    /* "ddpc 0.1.0" */
  const char *march;       /* what the binary was compiled for */
  uint32_t cpu;            /* DDP_CPU_COMPILED */
  const char *const *spec; /* resolved text in lines, NULL at the end */
  uint64_t spec_hash, plan_hash;

  const DdpTensor *tensors; /* state-dict order */
  int32_t n_tensors;
  const DdpArenaInfo *arenas;
  int32_t n_arenas;
  const int32_t *ready; /* trained tensors in the order their gradients become ready */
  int32_t n_ready;
  const DdpInitStep *init;
  int32_t n_init;
  const DdpLoad *loads; /* in order; --init_from takes the place of all */
  int32_t n_loads;
  const DdpParamGroup *groups;
  int32_t n_groups;
  const DdpOptimizer *optimizers;
  int32_t n_optimizers;

  const DdpField *fields;
  int32_t n_fields;
  const DdpSource *sources;
  int32_t n_sources;
  const DdpSplit *splits; /* "train" is required; eval_split names the evaluation's */
  int32_t n_splits;
  const char *eval_split; /* NULL: none */

  const DdpSettingText *settings;
  int32_t n_settings;

  int64_t train_batch, eval_batch;
  const char *single_at; /* place that divides by zero when a batch is one sample; NULL: none */
  int64_t train_block, eval_block, step_block; /* bytes of the block of activations and workspace */
  int32_t n_counts;                            /* denominators of the loss */
  const double *count_per_sample; /* [n_counts]: constant per sample, or NaN: ask window_counts */
  int32_t n_sums;                 /* accumulators of the evaluation */
  const char *const *kernels;     /* of forward_backward(), for traces */
  int32_t n_kernels;
  int32_t loss_after;         /* how many gradients are complete before the loss is */
  const char *const *metrics; /* names; [0] is "loss" */
  int32_t n_metrics;

  void (*forward_backward)(DdpStep *step);
  /* Writes this micro-batch's, on devices to their memory; NULL if constant. */
  void (*window_counts)(const DdpStep *step, double *counts);
  void (*evaluate)(DdpStep *step); /* adds to step->sums; NULL without eval */
  void (*predict)(DdpStep *step);  /* sets step->results; NULL without outputs */
  const DdpResult *results;
  int32_t n_results;
  void (*metric_values)(const double *sums, double *out);
  double (*schedule)(double step, double warmup, double total, double base_lr);
  const DdpTarget *target; /* NULL: this processor */
  const char *measured;    /* a schedule that looks at metrics ("plateau", "greedy"), or NULL */
  const double *measured_numbers; /* in the order of its definition in stdlib/schedule.ddp */
} DdpJob;

/* Folder of the backend plugins (libddp_gloo.so), compiled into the job by -DDDP_PLUGIN_PATH="..."; the
   runtime also looks into DDP_PLUGIN_DIR and beside the executable. */
extern const char ddp_plugin_path[] __attribute__((weak));
#ifdef DDP_PLUGIN_PATH
const char ddp_plugin_path[] = DDP_PLUGIN_PATH;
#endif

/* The whole life of a process of the job. */
int ddp_main(const DdpJob *job, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
