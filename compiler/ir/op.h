/* What the graph and the nests ask of an op: one row of the op table as data. The rows are in
   ops/table/ops.def, the functions behind them in ops/; ir links against them (op_def) without
   including anything of theirs. Nobody outside compiler/ops switches over ops. */
#ifndef IR_OP_H
#define IR_OP_H
#include "ir.h"
#include "nest.h"

typedef enum OpFlag {
  OPF_commutative = 1 << 0,
  OPF_compare = 1 << 1, /* result is bool */
  OPF_float = 1 << 2,   /* integer inputs become f32 (div, exp ...) */
  OPF_source = 1 << 3,  /* no inputs: input, param, const ... */
  OPF_random = 1 << 4,  /* never merged by cse */
  OPF_view = 1 << 5,    /* movement: no arithmetic, readable through index arithmetic */
  OPF_reduce = 1 << 6,
  OPF_library = 1 << 7, /* lowered to a call of the runtime, never part of a loop nest */
  OPF_cheap = 1 << 8,   /* cheaper to compute again than to store */
  OPF_named = 1 << 9,   /* callable in the language by its own name and attributes */
  OPF_elementwise = 1 << 10,
  OPF_decompose = 1 << 11, /* replaced by `body` after grad */
  OPF_integral = 1 << 12,  /* identity on integers (floor, round) */
  OPF_logical = 1 << 13,   /* inputs must be bool */
  OPF_bool = 1 << 14,      /* computes in bool too (where, maximum); arithmetic refuses it */
  OPF_linear = 1 << 15,    /* linear in all its inputs together (add, sum, reshape); op_is_linear */
  OPF_product = 1 << 16,   /* bf16, fp16: reads 16-bit inputs, as autocast's matmul and conv */
  OPF_full = 1 << 17,      /* bf16, fp16: computed in f32, as autocast's exp, pow and sum */
  OPF_half = 1 << 18,      /* library ops: the kernel reads 16-bit floats */
  OPF_strided = 1 << 19,   /* library: reads operands through strides (plan_view), the last is 1 */
  OPF_overwrites = 1 << 20, /* library: writes its result, cannot add to it */
  OPF_half_gpu = 1 << 21,   /* library ops: the kernel of GPUs reads 16-bit floats */
} OpFlag;

/* Three spellings, three meanings (gradient of an input): */
#define GRAD_NONE    "none" /* not differentiable there: no gradient flows (comparisons, indices) */
#define GRAD_ZERO    "zero" /* differentiable with gradient zero (floor, sign) */
#define GRAD_MISSING "missing" /* not written yet: asking for it is E0616 */

typedef struct AttrDef {
  const char *name;
  AttrKind kind;
  bool has_default; /* lists: a length of -1 means that infer fills it in */
  Attr value;
} AttrDef;

typedef struct OpDef {
  const char *name;
  int inputs; /* -1: one to IR_MAX_LISTED (concat); -2: one to IR_MAX_INPUTS (scan) */
  unsigned flags;
  const char *domain; /* elementwise: where tests may sample (ops.def) */
  const char *c; /* elementwise: C expression over a, b, c; F(exp) is exp of the dtype's float */
  const char *sample; /* structured: "f32[3,4] f32[4,5] ; ta=false" for the generated tests */
  const char *grad[IR_MAX_INPUTS]; /* DSL text over g, x0.., y, attributes by name; see above */
  const char *body; /* OPF_decompose: DSL text over x0.., y and attributes, without this op */
  int attrs;
  AttrDef attr[IR_MAX_ATTRS];
  /* Elementwise: the C expression compiled in double. */
  double (*eval)(double a, double b, double c);
  /* Result type from inputs; false: *error (text for the user) and *code (405 for E0405) are set.
     May normalise attributes (negative dims). */
  bool (*infer)(const Graph *g, Value *v, const char **error, int *code);
  /* Structured ops that loop nests can read or reduce through (nest.h); NULL: library call. */
  NestTemp (*lower)(Nest *n, Val v, const NestIndex *index);
  /* Reference meaning, in double: out and in are dense row-major. NULL for sources. */
  void (*interpret)(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                    double *out);
  /* Operations of a library call at this batch (a multiply-add is two), by-products included; NULL:
     see ops/flops.c. */
  double (*flops)(const Graph *g, const Value *v, int64_t batch);
  /* Library ops with by-products, which OP_part names by number (from 1): the type of one (false:
     there is none of this number) and its meaning from the inputs of v. NULL: no by-products. */
  bool (*part_type)(const Graph *g, const Value *v, int index, Type *out);
  void (*interpret_part)(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                         int index, double *out);
} OpDef;

const OpDef *op_def(OpKind op);
static inline int op_most_inputs(const OpDef *d) {
  return d->inputs == -1 ? IR_MAX_LISTED : d->inputs < 0 ? IR_MAX_INPUTS : d->inputs;
}
bool op_find(const char *name, OpKind *out);
int op_attr(OpKind op, const char *name); /* index of the attribute; -1 */
static inline bool op_has(OpKind op, OpFlag f) {
  return (op_def(op)->flags & (unsigned)f) != 0;
}
/* The number of the by-product that v, an OP_part, stands for. */
static inline int op_part_index(const Value *v) {
  return (int)v->attr[0].as.i;
}
/* Into room for IR_MAX_ATTRS, to be changed there. */
static inline void op_copy_attrs(const Value *v, Attr *to) {
  int n = op_def(v->op)->attrs;
  if (n) memcpy(to, v->attr, sizeof *to * (size_t)n);
}
/* Does f(a + b) = f(a) + f(b), f(k a) = k f(a) hold? A cast from float to integer is not linear. */
static inline bool op_is_linear(const Graph *g, const Value *v) {
  if (!op_has(v->op, OPF_linear)) return false;
  return v->op != OP_cast || dtype_category(v->type.dtype) == 'f' ||
         dtype_category(value_at(g, v->in[0])->type.dtype) != 'f';
}
#endif
