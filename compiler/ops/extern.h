/* Calls of functions from C headers: what an OP_extern stands for. The op's attribute `call` is an index
   into one table of the process. sema fills it; passes, plan and emission read it. Everything that was
   known at the call is settled here: types, sizes (linear in B), numbers. */
#ifndef OPS_EXTERN_H
#define OPS_EXTERN_H
#include "ir.h"

typedef enum ExternalKind {
  EXTERNAL_result, /* memory of the result */
  EXTERNAL_input,  /* memory of input `input` */
  EXTERNAL_size,   /* int64_t: `size` */
  EXTERNAL_number, /* `number` of type `dtype` (f32, f64, i32, i64, bool) */
} ExternalKind;

typedef struct ExternalArg {
  ExternalKind kind;
  int input;
  Dim size;
  double number;
  DType dtype;
} ExternalArg;

typedef struct ExternalCall {
  const char *name;     /* of the operator, for people */
  const char *function; /* of C */
  Type result;
  int inputs;
  Type in[IR_MAX_INPUTS];
  VEC(ExternalArg) args; /* in the order of the C parameters */
  /* What the operator means: a graph over OP_input k = its inputs, with OUT_value 0; NULL when its
     header does not say. */
  const Graph *meaning;
  void *origin; /* sema's: where gradients come from */
} ExternalCall;

int64_t external_add(const ExternalCall *call);
const ExternalCall *external_at(int64_t index);
int64_t external_count(void);
/* The call behind a value of op OP_extern. */
const ExternalCall *external_of(const Value *v);
/* Copies the graph of a meaning or a gradient into `to`: OP_input k becomes in[k], the rest is copied
   with this place and scope. Returns the value of OUT_value 0. */
Val external_inline(Graph *to, const Graph *from, const Val *in, Span at, Scope scope);
#endif
