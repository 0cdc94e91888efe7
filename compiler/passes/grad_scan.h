/* Between grad_scan.c and grad_hoist.c: a loop whose gradient is being made. */
#ifndef PASSES_GRAD_SCAN_H
#define PASSES_GRAD_SCAN_H
#include "grad.h"
#include "scan.h"

typedef struct BackCarried {
  Val seed, next; /* values of g: the argument, and what it is in the next turn */
  int input;      /* of the forward loop, whose gradient it is in the end */
} BackCarried;

typedef struct ScanGrad {
  Grad *b;
  Val v, back; /* the loop; the backward loop, once it is made */
  Value x;
  Scan s;
  Graph *g;   /* the body, forwards and then backwards */
  uint32_t n; /* values of the forward part */
  Grad inner; /* reverse mode in g */
  Val arg[IR_MAX_INPUTS];
  Val *of_result; /* by result: its gradient outside */
  Val *seed;      /* by result: argument in g for (a part of) that gradient */
  int seeds;
  BackCarried *carried;
  int n_carried, n_yields, back_over;
  bool hoisted[IR_MAX_INPUTS];
  bool *stacked; /* by value of g: a sum over the turns reads its stack */
  bool *saved;   /* by forward value: kept by the forward loop */
  int *result;   /* by forward value: the result of the forward loop that keeps it */
  bool *live;    /* by value of g: stands in the body of the backward loop */
  int *yielded;  /* by value of g: number of the yield of the backward loop; -1 */
} ScanGrad;

typedef enum HoistMode { HOIST_check, HOIST_mark, HOIST_build } HoistMode;
/* The sum over all turns of value v of g, taken over stacks. check: can it be (not NO_VAL)? mark: which
   stacks that needs. build: the value outside. */
Val grad_hoist(ScanGrad *sg, Val v, HoistMode mode);
/* Outside: all turns of v, stacked. */
Val grad_stack(ScanGrad *sg, Val v);
bool grad_is_forward(const ScanGrad *sg, Val v);
bool grad_is_carried(const ScanGrad *sg, Val v); /* an argument that is carried */
bool grad_is_seed(const ScanGrad *sg, Val v);
#endif
