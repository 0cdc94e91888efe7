/* Between the files of ops/: what a family of structured ops gives to the table, and helpers for
   type rules and the reference interpreter. */
#ifndef OPS_FAMILY_H
#define OPS_FAMILY_H
#include "ops.h"

typedef struct OpCode { /* the functions of one structured op */
  OpKind op;
  bool (*infer)(const Graph *g, Value *v, const char **error, int *code);
  void (*interpret)(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                    double *out);
  NestTemp (*lower)(Nest *n, Val v, const NestIndex *index);
  bool (*part_type)(const Graph *g, const Value *v, int index, Type *out);
  void (*interpret_part)(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                         int index, double *out);
  double (*flops)(const Graph *g, const Value *v, int64_t batch);
} OpCode;

/* Ended by an entry of OP_none. */
extern const OpCode family_sources[], family_cast[], family_reduce[], family_movement[],
    family_slices[], family_indexing[], family_matmul[], family_external[];

bool elementwise_infer(const Graph *g, Value *v, const char **error, int *code);
void elementwise_interpret(const Graph *g, const Value *v, int64_t batch, const double *const *in,
                           double *out);
/* The dtype in which an elementwise value is computed: its own, but what the inputs promote to for
   comparisons. Inputs (the condition of `where` aside) are converted to it. */
DType elementwise_compute_type(const Graph *g, const Value *v);
extern const OpCode family_windows[], family_conv[], family_pool[], family_order[], family_part[],
    family_scan[], family_attention[];
/* Sources with the attributes number, dtype, shape (input, param, buffer, arg). */
bool leaf_infer(const Graph *g, Value *v, const char **error, int *code);

/* ---------- type rules ---------- */
/* Sets the message and the number of the diagnostic; returns false. */
bool infer_fail(const Graph *g, const char **error, int *code, int number, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
const char *infer_type_text(const Graph *g, Type t);
const char *infer_dim_text(const Graph *g, Dim d);
static inline Type infer_in(const Graph *g, const Value *v, int i) {
  return value_at(g, v->in[i])->type;
}
/* Promotion of inputs first..inputs by PyTorch's rule: rank-0 tensors and, weaker still, rank-0
   constants widen only across categories. */
DType infer_promote(const Graph *g, const Value *v, int first);
/* PyTorch's broadcasting of sizes; ranks may differ. */
bool infer_broadcast(const Graph *g, Type a, Type *into, const char **error, int *code);
/* Axes: counted from the front, sorted, each once. Length -1 becomes all. */
bool infer_axes(const Graph *g, Attr *axes, int rank, bool sort, const char **error, int *code);
bool infer_has_axis(const Attr *axes, int axis);
/* v with its attributes copied into room for IR_MAX_ATTRS: a type rule may write into them. */
Value infer_copy(const Value *v, Attr *room);
/* Attribute k holds n numbers, none below `least`. */
bool infer_numbers(const Graph *g, const Value *v, int k, int n, int64_t least, const char **error,
                   int *code);

/* ---------- reference interpreter ---------- */
typedef struct Extent { /* sizes of a type at a batch, with row-major strides */
  int rank;
  int64_t size[IR_MAX_RANK], stride[IR_MAX_RANK], count;
} Extent;
Extent extent_of(Type t, int64_t batch);
static inline Extent extent_in(const Graph *g, const Value *v, int i, int64_t batch) {
  return extent_of(value_at(g, v->in[i])->type, batch);
}
void extent_split(const Extent *e, int64_t flat, int64_t *index);
int64_t extent_flat(const Extent *e, const int64_t *index);
/* What a number becomes when it is stored as this dtype (f32 is left in double). */
double interp_store(double x, DType t);
#endif
