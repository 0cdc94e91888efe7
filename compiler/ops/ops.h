/* The one op table as data. Nobody outside compiler/ops switches over ops. */
#ifndef OPS_OPS_H
#define OPS_OPS_H
#include "ir.h"
#include "nest.h"

typedef enum OpFlag {
  OPF_commutative = 1 << 0,
  OPF_compare = 1 << 1,   /* result is bool */
  OPF_float = 1 << 2,     /* integer inputs become f32 (div, exp ...) */
  OPF_source = 1 << 3,    /* no inputs: input, param, const ... */
  OPF_random = 1 << 4,    /* never merged by cse */
  OPF_view = 1 << 5,      /* movement: no arithmetic, readable through index arithmetic */
  OPF_reduce = 1 << 6,
  OPF_library = 1 << 7,   /* lowered to a call of the runtime, never part of a loop nest */
  OPF_cheap = 1 << 8,     /* cheaper to compute again than to store */
  OPF_named = 1 << 9,     /* callable in the language by its own name and attributes */
  OPF_elementwise = 1 << 10,
  OPF_decompose = 1 << 11, /* replaced by `body` after grad */
} OpFlag;

/* Three spellings, three meanings (gradient of an input): */
#define GRAD_NONE "none"        /* not differentiable there: no gradient flows (comparisons, indices) */
#define GRAD_ZERO "zero"        /* differentiable with gradient zero (floor, sign) */
#define GRAD_MISSING "missing"  /* not written yet: asking for it is E0616 */

typedef struct AttrDef {
  const char *name;
  AttrKind kind;
  bool has_default;
  Attr value;
} AttrDef;

typedef struct OpDef {
  const char *name;
  int inputs;           /* -1: one or more (concat) */
  unsigned flags;
  const char *domain;   /* elementwise: where tests may sample: "all" "positive" "unit" "nonzero" */
  const char *c;        /* elementwise: C expression over a, b, c; F(exp) is exp of the dtype's float */
  const char *sample;   /* structured: "f32[3,4] f32[4,5] ; ta=false" for the generated tests */
  const char *grad[IR_MAX_INPUTS]; /* DSL text over g, x0.., y, attributes by name; see above */
  const char *body;     /* OPF_decompose: DSL text over x0.. and attributes, without this op */
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
  void (*interpret)(const Graph *g, const Value *v, int64_t batch, const double *const *in, double *out);
} OpDef;

const OpDef *op_def(OpKind op);
bool op_find(const char *name, OpKind *out);
int op_attr(OpKind op, const char *name); /* index of the attribute; -1 */
static inline bool op_has(OpKind op, OpFlag f) { return (op_def(op)->flags & (unsigned)f) != 0; }

/* Reference interpreter. `source` supplies what sources stand for (input, param, host, count,
   random draws): fills out[0..elements). With round_f32 every f32 result is rounded to float. */
typedef struct Interp {
  int64_t batch;
  bool round_f32;
  void (*source)(void *self, const Graph *g, Val v, double *out);
  void *self;
} Interp;
/* Results of every value, indexed by Val; in the arena. */
double **interp_run(Arena *a, const Graph *g, const Interp *how);

void ops_print_table(Text *out); /* markdown: op, inputs, attributes, forward, gradient */
#endif
