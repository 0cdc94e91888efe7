/* Inside reverse mode: what grad.c and grad_scan.c share. */
#ifndef PASSES_GRAD_H
#define PASSES_GRAD_H
#include "job.h"
#include "ops.h"

typedef struct Grad {
  Job *job;
  Graph *g;
  uint32_t n;   /* values of the forward graph */
  bool *needed; /* a trained parameter is upstream, along differentiable inputs */
  Val *sum;     /* gradient so far; NO_VAL */
  Val *leaf;    /* by leaf: gradient */
} Grad;

/* May a gradient flow from x to its input i? */
bool grad_passes(const Value *x, int i);
/* The gradient of v goes on to its inputs. */
void grad_visit(Grad *b, Val v);
/* Marks in `needed`, from `first` on, what depends on what is marked already. */
void grad_mark(const Graph *g, Val first, uint32_t n, bool *needed);
/* c in the shape and dtype of what it is the gradient of. */
Val grad_fit(Grad *b, Val c, Type want, const Value *like);
void grad_contribute(Grad *b, Val *to, Val c);
/* The gradients of all results of the loop v go on to its inputs. */
void grad_through_scan(Grad *b, Val v);
#endif
