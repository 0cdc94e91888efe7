/* Loop nests as functions of the target's language. Functions with the same text are emitted once,
   whatever they are called with. */
#ifndef EMIT_KERNEL_H
#define EMIT_KERNEL_H
#include "emit.h"
#include "write.h"

typedef enum OperandKind {
  OPERAND_memory, /* a value's memory: read, written or both */
  OPERAND_sum,    /* an accumulator of the step, double, always added to */
  OPERAND_host,   /* scalar of the step */
  OPERAND_draw,   /* random numbers of one site */
  OPERAND_batch,
  OPERAND_accumulate, /* add to gradients instead of overwriting them */
  OPERAND_more,       /* likewise to sums over samples, in chunks after the first */
  /* on devices */
  OPERAND_scalars, /* of the step, in device memory */
  OPERAND_rates,   /* of the optimizer, likewise */
  OPERAND_groups,  /* groups of the elements of a range */
  OPERAND_group,   /* of one tensor */
  OPERAND_scratch,
  OPERAND_stream, /* of a launch; no parameter */
} OperandKind;
typedef struct Operand {
  OperandKind kind;
  Val val;   /* memory (kernel_base), sum, host, draw */
  Val shown; /* memory: the value that the call names: what is stored, else what is read */
  bool written, read;
  const char *name; /* inside the kernel */
} Operand;
typedef VEC(Operand) Operands;

typedef struct Function {
  const char *name;
  const char *head; /* what stands in front of the name */
  const char *const *parameters;
  uint32_t n_parameters;
  const char *body;
  const char *key;      /* head, parameters and body in one text */
  const char *shapes;   /* of its memory, for people: "y [B, 64] from x [B, 64]", or "" */
  VEC(const char *) at; /* places of the job it is called for */
} Function;

typedef struct Helper { /* a scalar function: an op whose expression names an operand twice */
  OpKind op;
  DType in, result;
  const char *name, *body;
} Helper;

typedef struct Product {           /* one table for all products of one shape */
  const char *name, *shape, *init; /* for people; the members behind its name */
  const char *first;               /* kernel that it was made for */
} Product;

typedef struct Emit {
  const Plan *plan;
  const EmitOptions *options;
  const Target *target;
  Arena *arena;
  VEC(Function) functions; /* in order of first use */
  VEC(Helper) helpers;
  VEC(const char *) headers; /* that calls need beside those which every program includes */
  VEC(Product) products;     /* devices: shapes of matrix products, in order of first use */
  VEC(const char *) scratch; /* devices: bytes that calls need, constants of the text */
  Names globals;
  const char **leaf_name; /* identifier of each leaf */
  int64_t nest_scratch;   /* devices: bytes that the kernels of nests need, the most of all */
  int64_t call_scratch;   /* likewise those of calls */
  bool scratch_open;      /* a call needs bytes whose number is not known here */
} Emit;

/* One call of what a nest became: a function, or a kernel of a device with its grid. */
typedef struct KernelCall {
  const char *function;
  Operands operands;
  const char *index;        /* type of B and of indices; NULL: int64_t */
  const char *grid, *block; /* devices: C texts; NULL: an ordinary call */
  bool batch;               /* they name B */
} KernelCall;
typedef struct KernelCalls {
  KernelCall *at;
  uint32_t len, cap;
} KernelCalls;

/* The text of an operand where a kernel is called. */
typedef const char *(*OperandName)(void *self, OperandKind kind, Val val);

/* Makes the functions for the kernel, or finds those there are: what is to be called, in order. On
   CPUs that is one function; a sum over many blocks of a device takes two. */
void kernel_functions(Emit *e, const Program *p, const Kernel *k, KernelCalls *calls);
/* The calls, a line each: NAME(..); or DDP_LAUNCH(NAME, ..); */
void kernel_launch(Emit *e, const KernelCalls *calls, Text *out, const char *indent,
                   OperandName name, void *self);
/* For targets: the function with this text and the operands of `call`, in the order of its parameters
   afterwards; made, or found. suffix: behind the kernel's name, "" for the first function of a nest. */
void kernel_share(Emit *e, const Program *p, const Kernel *k, const char *suffix, const char *head,
                  const char *body, KernelCall *call);
/* The body alone, where it stands: `name` gives the text of an operand. Nests without loops only
   (metrics, schedules). */
void kernel_inline(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                   OperandName name, void *self);

/* "/ * job.ddp, compiled by ...", a comment that goes on; a line between sections. */
void emit_title(const Emit *e, Text *out);
void emit_section(Text *out, const char *title);
/* Includes of kernels, and all functions made so far. */
void emit_includes(const Emit *e, Text *out);
void emit_functions(Emit *e, Text *out);

/* Notes that the text includes this header of the target's kernels. */
void emit_need(Emit *e, const char *header);
/* Notes that a call uses DdpTarget.scratch: `bytes` is a constant expression of the target's text. */
void emit_scratch(Emit *e, const char *bytes);
/* The same where their number is known, by the same formula (runtime/kernels/scratch.h): the plan counts it. */
void emit_scratch_known(Emit *e, const char *bytes, int64_t number);

/* The value whose memory this is: aliases and values updated in place come out equal. */
Val kernel_base(const Program *p, Val v);
/* The value whose name stands for the memory of v: a result that took the place of an operand has a
   name of its own, buffers and states keep theirs. */
Val kernel_named(const Program *p, Val v);
/* HEADarg, arg, ...TAIL with lines up to 100 columns; HEAD ends in a bracket that TAIL closes. */
void write_list(Text *t, const char *indent, const char *head, const char *const *args, uint32_t n,
                const char *tail);
/* NAME(arg, arg, ...)TAIL with lines up to 100 columns. */
void write_call(Text *t, const char *indent, const char *head, const char *const *args, uint32_t n,
                const char *tail);
#endif
