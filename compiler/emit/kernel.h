/* Loop nests as C. Functions with the same text are emitted once, whatever they are called with. */
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
  const char *const *parameters;
  uint32_t n_parameters;
  const char *body;
  const char *key;      /* parameters and body in one text */
  VEC(const char *) at; /* places of the job it is called for */
} Function;

typedef struct Helper { /* a scalar function: an op whose expression names an operand twice */
  OpKind op;
  DType in, result;
  const char *name, *body;
} Helper;

typedef struct Emit {
  const Plan *plan;
  const EmitOptions *options;
  const Target *target;
  Arena *arena;
  VEC(Function) functions; /* in order of first use */
  VEC(Helper) helpers;
  VEC(const char *) headers; /* that calls need beside those which every program includes */
  Names globals;
  const char **leaf_name; /* identifier of each leaf */
} Emit;

/* Makes the function for the kernel, or finds the one there is; `operands` are its arguments. */
const char *kernel_function(Emit *e, const Program *p, const Kernel *k, Operands *operands);
/* The body alone, where it stands: `name` gives the text of an operand. Nests without loops only
   (metrics, schedules). */
typedef const char *(*OperandName)(void *self, OperandKind kind, Val val);
void kernel_inline(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                   OperandName name, void *self);

/* Includes of kernels, and all functions made so far. */
void emit_includes(const Emit *e, Text *out);
void emit_functions(Emit *e, Text *out);

/* The value whose memory this is: aliases and values updated in place come out equal. */
Val kernel_base(const Program *p, Val v);
/* The value whose name stands for the memory of v: a result that took the place of an operand has a
   name of its own, buffers and states keep theirs. */
Val kernel_named(const Program *p, Val v);
/* NAME(arg, arg, ...)TAIL with lines up to 100 columns. */
void write_call(Text *t, const char *indent, const char *head, const char *const *args, uint32_t n,
                const char *tail);
#endif
