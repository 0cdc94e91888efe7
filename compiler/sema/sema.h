/* Syntax tree -> Job. All errors go to diag; NULL when there was one. */
#ifndef SEMA_SEMA_H
#define SEMA_SEMA_H
#include "job.h"

typedef struct SemaDefine { /* -D name=value */
  const char *name, *value;
} SemaDefine;

typedef struct SemaOptions {
  const SemaDefine *defines;
  int n_defines;
  const char *target; /* --target, or NULL */
  /* Folder of the headers that C code of jobs includes (ddp/op.h, std/native); NULL after a message. */
  const char *(*include)(Arena *arena);
  bool no_kernels; /* bodies instead of the kernels that `@kernel` names */
  bool check_only; /* libraries and fragments are fine; no model needed */
} SemaOptions;

/* Reads the job file and everything it imports. */
Job *sema_analyse(Arena *arena, const char *path, const SemaOptions *options);

/* Embedded library: text of "std/nn.ddp" (generated from stdlib/ at build time), or NULL. */
const char *stdlib_find(const char *path, size_t *length);

/* Evaluates a gradient rule or decomposition of the op table in graph g: names are g (incoming
   gradient), x0.., y and the attributes of value y. Returns NO_VAL after an internal fault only.
   Used by passes/grad and passes/decompose; the result has the shape the expression gives. */
Val sema_eval_rule(Graph *g, const char *text, Val y, Val gradient, Scope scope);

/* Gradient of an OP_extern for one of its inputs: where it comes from. */
typedef enum ExternalGrad {
  EXTERNAL_GRAD_none,  /* the header says that none flows */
  EXTERNAL_GRAD_named, /* the header says what it is */
  EXTERNAL_GRAD_body,  /* the operator's body is differentiated */
  EXTERNAL_GRAD_missing,
} ExternalGrad;
ExternalGrad sema_external_grad(const Value *v, int input);
/* EXTERNAL_GRAD_named as a graph: OP_input k = its inputs, then y, then g; NULL after a report. */
const Graph *sema_external_gradient(const Value *v, int input);
void sema_external_missing(const Value *v, int input); /* E0910 */
#endif
