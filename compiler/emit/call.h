/* Library ops as calls of the runtime's kernels: a table of rows for each target (call_cpu.c, call_cuda.c).
   No other file knows which ops there are. */
#ifndef EMIT_CALL_H
#define EMIT_CALL_H
#include "conv.h"
#include "kernel.h"
#include "pool.h"

typedef struct Call { /* one that is being written */
  Emit *e;
  const Program *p;
  const Kernel *k;
  const Value *v;
  Text *out;
  const char *indent, *tail;
  OperandName name;
  void *self;
} Call;

typedef struct CallRow {
  OpKind op;
  void (*write)(const Call *c); /* NULL: the end of a table */
  const char *header;           /* of the target's kernels, where not every program includes it */
} CallRow;
/* Of a product with an epilogue: both in one call, "if (!done) {"; and what closes that, behind the two apart. */
typedef struct EpilogueCalls {
  void (*open)(const Call *c), (*close)(const Call *c);
} EpilogueCalls;
extern const EpilogueCalls epilogues_cuda;
extern const CallRow calls_cpu[], calls_cuda[];

/* Writes the call of kernel k (KERNEL_call). `name` gives the text of a value's memory. */
void call_write(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                OperandName name, void *self, const char *tail);

/* What stands before and behind the kernels that k's epilogue would do. */
void call_epilogue_open(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                        OperandName name, void *self);
void call_epilogue_close(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                         OperandName name, void *self);

/* ---------- what rows have in common ---------- */
typedef struct Arguments { /* of a call, each with a comma behind it */
  const char *at[32];
  uint32_t n;
} Arguments;
const char *call_memory(const Call *c, Val v);
Type call_type(const Call *c, Val v);
const char *call_size(const Call *c, Dim d); /* "64 * B" */
Dim call_product(Type t, int from, int to);  /* of some dimensions */
bool call_flag(const Call *c, const char *attr);
const char *call_number(const Call *c, double number, DType dtype);
const char *call_accumulate(const Call *c);      /* "step->accumulate", "first > 0", "false" */
const char *call_part(const Call *c, int index); /* memory of a by-product, or NULL */
/* Where operand v lies: "qkv + 128", and its strides. */
const char *call_view(const Call *c, Val v, View *view);
const char *call_heads(const Call *c, const char *type, Val v);
/* The initializers "{2, 1, 3, ...}" of DdpConv and DdpPool. */
const char *call_conv(const Call *c, const ConvShape *s);
const char *call_pool(const Call *c, const PoolShape *s);
/* Collective: the same on all targets. */
/* function: takes the step, where the sum goes, what is summed, how many */
void call_all_sum(const Call *c, const char *function);

/* Arguments in the order of all targets' functions, behind those that p has. A convolution: the operand that the
   op computes is written. */
void call_rows_add(const Call *c, Arguments *p);
void call_scatter_add(const Call *c, Arguments *p);
const char *call_conv_result(const Call *c); /* "DDP_CONV_BIG" */
void call_conv_operands(const Call *c, const ConvShape *s, Arguments *p);
const char *call_pool_function(const Call *c);
void call_pool_operands(const Call *c, const PoolShape *s, Arguments *p);
/* What is written by attention, and by its gradient behind what it reads; heads: as of call_heads. */
void call_attention_results(const Call *c, Arguments *p);
void call_attention_gradients(const Call *c, const char *heads, Arguments *p);
/* Initializers of a DdpAttention in the order of its members; q is input `first`. draws: with its draw. */
void call_attention(const Call *c, Arguments *p, int first, bool draws);
#endif
