/* A checked job: what sema makes of the syntax trees, and what passes and plan read.
   Graphs are still plain (no gradients); passes add to them. */
#ifndef SEMA_JOB_H
#define SEMA_JOB_H
#include "ast.h"
#include "ir.h"

/* A trained tensor, a frozen tensor or a buffer of a model, in state-dict order. */
typedef struct Leaf {
  const char *name;  /* "fc1.weight": path below the model, as in a state_dict */
  Type type;         /* every size known */
  bool buffer;       /* else a parameter */
  bool trained;      /* parameter with a gradient (not frozen) */
  bool unused;       /* not trained since the loss does not reach it (ddp_find_unused_parameters) */
  bool norm_owner;   /* owned by a LayerNorm (weight-decay rule of the Trainer) */
  int32_t tied_to;   /* index of the leaf it is an alias of; -1 */
  int32_t group;     /* index into Job.groups; -1 for buffers */
  int32_t optimizer; /* index into Job.optimizers, if it is trained */
  const char *model; /* name of the model block */
  Span at;
} Leaf;

typedef enum InitKind { /* as DdpInitKind */
                        INIT_fill,
                        INIT_uniform,
                        INIT_normal,
                        INIT_trunc_normal,
                        INIT_orthogonal,
                        INIT_bernoulli,
                        INIT_randint
} InitKind;
const char *init_kind_name(InitKind kind);

/* Draws in the order in which PyTorch's constructors make them; a later step may overwrite. */
typedef struct InitStep {
  InitKind kind;
  int32_t leaf; /* -1: drawn and thrown away (elements says how many) */
  int64_t elements;
  double a, b;          /* fill: a; uniform, randint: from a to b; normal: mean a, std b; bernoulli:
                           probability a; orthogonal: gain a */
  int64_t offset, step; /* fill: the first element and the distance to the next; else 0 and 1 */
  double low, high;     /* trunc_normal: drawn again outside of these */
} InitStep;

/* Parameter group: learning rate and decay of its parameters. NAN: the train key. */
typedef struct Group {
  const char *name; /* "decay", "no_decay", or from `group PATHS { }` */
  double learning_rate, weight_decay;
  int32_t optimizer; /* index into Job.optimizers: the first one of its definition */
} Group;

/* One optimizer definition with the arguments it was given. Where it goes element by element, its
   update is a graph over one flat tensor of B elements (the symbolic size stands for elements here)
   and serves tensors of every shape; else there is one Optimizer for each shape of tensor, with that
   shape in its graph.
     input 0 = p, input 1 = g, input 2.. = states; host "lr", "weight_decay", "step", "train.KEY";
     outputs OUT_state -1 = new p, OUT_state i = new state i. */
typedef struct Optimizer {
  const char *name;   /* "adamw" */
  const char *kernel; /* @kernel or NULL */
  bool whole;         /* for tensors of the type `tensor` only */
  Type tensor;
  Graph *update;
  VEC(const char *) states; /* "exp_avg", ... */
  VEC(double) state_init;   /* fill value of each */
  VEC(Type) state_type;
  /* Compile-time arguments a hand-written kernel asks for by name: momentum, nesterov ... */
  VEC(struct {
    const char *name;
    double value;
  })
  constants;
  Span at;
} Optimizer;

typedef struct Field {
  const char *name, *column; /* column: name in the file's header, or NULL */
  Type type;                 /* of one sample, no batch dimension; dtype as stored (u8, i64, f32) */
  bool has_range;
  double low, high;             /* low <= value < high for integers; inclusive for floats */
  int stored;                   /* bytes of a number in a file; 0: a category or a text */
  bool negative;                /* the stored type has negative numbers (int8, int16) */
  VEC(const char *) categories; /* also the characters of a text */
  int64_t classes;              /* of a category, or of integers from 0: how many; 0 */
  int32_t number;               /* of its inputs in graphs */
  bool text,
      ragged; /* a text, stored as bytes; a length that differs by sample (its dimension is -1) */
  bool used;
  Span at;
} Field;

typedef enum SourceKind {
#define SOURCE(name) SOURCE_##name,
#include "source.def"
#undef SOURCE
  SOURCE_COUNT
} SourceKind;

typedef struct DataSource { /* tree: split expressions over files */
  SourceKind kind;
  VEC(const char *) paths;  /* idx, npy: one per field in `fields`; else in order */
  VEC(const char *) fields; /* idx, npy: field names; cifar_bin: the labels of a record */
  bool header;              /* csv: names of columns; token_bin: that of llm.c */
  int64_t skip;
  const char *missing;          /* or NULL */
  int64_t width, stride, count; /* token_bin: bytes of a token; windows; synthetic: samples */
  bool stream;                  /* one row of tokens, without samples */
  bool windowed;                /* its samples are cut out of such a row */
  uint64_t seed;                /* shuffle, synthetic */
  enum { BOUND_none, BOUND_count, BOUND_percent } start_kind, stop_kind; /* slice */
  double start, stop;
  VEC(int32_t) children; /* indices into Dataset.sources */
  Span at;
} DataSource;

typedef struct Split {
  const char *name;
  int32_t source; /* index into Dataset.sources */
  Span at;
} Split;

typedef struct Dataset {
  const char *name;
  VEC(Field) fields;
  VEC(DataSource) sources;
  VEC(Split) splits;
  Span at;
} Dataset;

typedef struct Metric {
  const char *name;
  Val eval_value; /* in Job.eval, before passes/means cuts it into sums */
  Span at;
} Metric;

/* `output`: a tensor of the evaluation with the batch in front, for `--predict`. */
typedef struct JobOutput {
  const char *name;
  Type type; /* of the batch; passes may leave a reshape of it to the reader */
  Span at;
} JobOutput;

/* A C header with operators, and what stands beside it. */
typedef struct NativeHeader {
  const char *path;             /* where it lies */
  const char *include;          /* as the program includes it: below the job's folder, or std/... */
  uint32_t source;              /* its text */
  const char *c_file, *cu_file; /* NULL: there is none */
  bool compiled;                /* its functions are called: c_file belongs to the program */
} NativeHeader;

typedef struct JobLoadItem {
  int32_t leaf;
  const char *name; /* of its tensor in the file */
} JobLoadItem;

/* `load` in the model block, carried out when the program starts. */
typedef struct JobLoad {
  const char *file; /* relative to the job's folder */
  VEC(JobLoadItem) items;
  VEC(const char *) others; /* names that the file may have beside: `except`, tied leaves */
  Span at;
} JobLoad;

/* What the program is made for: `--target`, with the block of that name. */
typedef struct JobTarget {
  const char *name;
  bool cuda;
  const char *march;       /* CPU: a -march of the C compiler */
  VEC(const char *) archs; /* CUDA: "sm_90", oldest first, at least one */
  bool emulated;           /* CUDA: for the emulator of GPUs instead */
  bool epilogues;          /* products can go on computing with their results: plan/epilogue.c */
  int64_t world_size;      /* ranks that it is meant for; 0: not said */
  int64_t memory;          /* bytes that a rank may use; 0: not said */
  Span at;                 /* of the name of its block; else nowhere */
} JobTarget;

/* One line of `sweep`: every run of the sweep takes one value of each axis. */
typedef struct SweepAxis {
  const char *name;         /* "train.learning_rate", or the name of a param: as for -D */
  const char *key;          /* "learning_rate": as a flag of the program */
  bool compile_time;        /* each value needs a program of its own */
  VEC(const char *) values; /* as -D and flags take them */
  Span at;
} SweepAxis;

typedef struct JobSetting { /* every key of train and runtime, also those not written */
  const char *key;
  const char *value; /* text as the runtime parses it: "5e-4", "true", "none", "steps" */
  enum { FROM_default, FROM_spec, FROM_define } origin;
  bool is_final, fixed; /* fixed: read at compile time, no run-time override */
  const char *fixed_by; /* "`if momentum != 0` in std/optim", or NULL */
  Span at;
} JobSetting;

/* Gradient checkpointing. */
typedef struct JobRecompute {
  bool on;
  double memory_budget; /* share of the activations that may be kept: 0 as few as possible */
  const Graph *before;  /* the training graph without it; NULL: nothing is computed again */
} JobRecompute;

/* A call whose hand-written kernel does not cover it: the body of the definition is compiled. */
typedef struct KernelRemark {
  const char *kernel, *why;
  Span at;
} KernelRemark;

typedef struct Job {
  const char *path;      /* of the job file as given */
  const char *directory; /* relative data paths start here */
  Arena *arena;
  VEC(AstFile *) files; /* job first, then imports in order of reading */
  Dataset dataset;      /* one for now; several are refused by name */
  VEC(Leaf) leaves;     /* parameters and buffers in state-dict order */
  VEC(InitStep) init;
  VEC(JobLoad) loads; /* in the order written; later ones overwrite */
  VEC(Group) groups;
  VEC(Optimizer) optimizers;
  VEC(Metric) metrics;
  VEC(JobOutput) outputs;
  VEC(JobSetting) settings;
  JobTarget target;
  JobRecompute recompute;
  VEC(SweepAxis) sweep;      /* the last axis runs fastest; empty: no sweep */
  VEC(NativeHeader) natives; /* in order of reading */
  Graph *train,
      *eval; /* forward graphs: OUT_value 0 = loss; OUT_buffer; eval: OUT_value 1+i = metric i */
  /* A schedule that the runtime carries out, with its numbers; NULL: `schedule` says all. */
  const char *measured;
  VEC(double) measured_numbers;
  Graph *predict;  /* OUT_result i = outputs i; NULL: there are none */
  Graph *schedule; /* f64 rank 0: host "step" "warmup" "total" "base_lr"; OUT_value 0 = factor */
  int64_t train_batch, eval_batch; /* maxima of B */
  const char *eval_split;          /* "validation", or NULL */
  /* filled by passes/means */
  Graph *counts;        /* OUT_sum k: denominators of one micro-batch (data only) */
  Graph *finish;        /* OUT_metric i from host "sum.K" */
  int32_t train_counts; /* number of denominators */
  int32_t eval_sums;    /* number of accumulators of the evaluation; metric 0 is the loss */
  Span single_at; /* training divides by zero there when a batch is one sample; no file: nowhere */
  VEC(double) count_per_sample; /* denominators that are a constant times B; NAN where not */
  VEC(KernelRemark) remarks;
  const char *spec; /* resolved text for --spec */
  uint64_t spec_hash;
} Job;

const char *job_setting(const Job *job, const char *key); /* its value text */
bool job_setting_is(const Job *job, const char *key, const char *value);
#endif
