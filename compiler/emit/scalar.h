/* Scalars of a nest as C expressions: which get a name of their own and which stand where they are
   used. Statements come out level by level, as the loops open. */
#ifndef EMIT_SCALAR_H
#define EMIT_SCALAR_H
#include "kernel.h"

/* How tightly a text holds together. */
typedef enum Binding { BIND_atom, BIND_product, BIND_sum, BIND_weak } Binding;
typedef struct Scalar {
  const char *text; /* NULL: not made yet */
  Binding binding;
  bool loads; /* reads memory */
} Scalar;

/* Loops around a place, outermost first: numbers in nest->loops. */
typedef struct LoopPath {
  uint32_t loop[16];
  uint32_t len;
} LoopPath;

typedef struct DrawRow { /* random numbers of one sample at one site */
  Val val;
  NestIndex ix;
  const char *name;
} DrawRow;

typedef struct Body { /* one kernel being written */
  Emit *e;
  const Program *p;
  const Nest *n;
  Text *out;
  const char *indent;
  Operands *operands;
  Names taken;              /* by operands; and what the text of a kernel uses itself */
  OperandName operand_name; /* NULL: the operands are parameters */
  void *self;
  Scalar *scalar;   /* by NestTemp */
  uint32_t *uses;   /* by NestTemp */
  uint32_t *depth;  /* by NestTemp: how many loops of the path must be open */
  const char **row; /* by root: scalar that an earlier stage left */
  const char **loop_name;
  const char *index;      /* type of indices: NULL: int64_t */
  const char **neighbour; /* by NestTemp: what was loaded with its neighbours; or all NULL */
  const char **once;      /* by NestTemp: where it lies computed, or NULL; or all NULL */
  const char **variable;  /* by NestTemp: what there is to hold it, or NULL; or all NULL */
  bool accumulates;       /* the kernel may add to gradients */
  VEC(DrawRow) draw_rows;
  uint32_t names; /* numbers given to temporaries */
} Body;

/* Before the statements of a stage, whose loops open in the order of the path. among: by root, those
   that are wanted now (NULL: all); the others' turn may come later. */
void scalar_begin_stage(Body *b, const Stage *s, const LoopPath *path, const bool *among);
/* Afterwards only the scalars of the stage that have a name here are wanted; false: there are none. */
bool scalar_want(Body *b, const Stage *s, const char *const *name);
/* Writes the statements that need exactly `depth` open loops. */
void scalar_statements(Body *b, const Stage *s, const LoopPath *path, uint32_t depth);
/* The scalar as an operand that binds at least as tightly as asked. */
const char *scalar_text(Body *b, NestTemp t, Binding at_least);
/* Gives it a name if it has none (for what is used twice in one statement). */
const char *scalar_name(Body *b, NestTemp t);
const char *scalar_index(Body *b, NestIndex ix, Binding at_least);
/* Name of an operand; adds it. */
const char *body_operand(Body *b, OperandKind kind, Val val, bool written);
bool body_in_place(const Body *b, Val val); /* read and written by this kernel */
/* Arrays for the nest of k; everything else is set by whoever makes the body. */
void body_begin(Body *b, const Kernel *k);
/* The loops around the innermost body of a stage, as in the nest, and their names. */
LoopPath body_path(Body *b, const Stage *s);
/* What is written comes first in the parameters. */
void body_written(Body *b);

/* ---------- what changes from step to step, in a device's memory (memory_scalar.c) ---------- */
/* Where a kernel reads it: "scalars->counts[0]". NULL: it is a setting, an argument. */
const char *body_in_memory(Body *b, const Value *v);
bool body_is_double(const Value *v); /* there */
/* How many loops must be open for it: the rates of a range differ from element to element. */
uint32_t body_host_depth(const Body *b, Val v, const LoopPath *path);
/* The gradient that a step of an optimizer reads: it counts times DdpRates.clip. */
bool body_is_gradient(const Body *b, Val v);
/* A kernel of an optimizer that changes parameters or states first looks at DdpRates.hold. */
void body_hold(Body *b);

/* Roots: where they lie, whether that is an accumulator of the step; the type in which a sum or a
   maximum is kept (losses and metrics in double), and what a maximum begins with. */
const ValuePlace *body_place(const Body *b, Val v);
bool root_is_sum(const Body *b, const NestRoot *r);
const char *root_type(const Body *b, const NestRoot *r);
const char *root_lowest(DType t);
bool root_checks_nan(const Nest *n, const NestRoot *r);
const char *root_stored(Body *b, const NestRoot *r, const char *value); /* as memory holds it */
bool root_is_read(const Nest *n, Val v); /* by a later stage, as a row value */
/* Whether it adds to what its memory holds: an operand that says so when the kernel runs; NULL: never. */
const char *root_adds(Body *b, const NestRoot *r);
void body_line(Body *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The statement that leaves the root's value where it belongs; the loops that it keeps are open. */
void body_store(Body *b, const NestRoot *r, const char *value);
#endif
