/* Runs a planned program in doubles: nests literally as nest.h says, calls through the op table's
   reference meaning. Memory is laid out as planned (one double for each byte of the block), so that
   two values that wrongly share memory destroy each other. */
#ifndef PLAN_PROGRAM_EVAL_H
#define PLAN_PROGRAM_EVAL_H
#include "ops.h"
#include "plan.h"

/* What sources hold, keyed by what they are (field, leaf, site, name), not by value number. */
void sample_source(void *self, const Graph *g, Val v, double *out);

typedef struct Results {
  double **at;       /* [outputs of the graph] */
  const char *fault; /* what the program did that it must not do; NULL */
  int chunked;       /* kernels that ran for some samples at a time, each by itself */
} Results;
/* together: products do what their epilogues say, and the nests behind them do not run. */
Results program_eval(Arena *a, const Program *p, int64_t batch, bool together);
/* Also, every kernel that may be (plan_chunkable) in chunks of so many samples; 0: none. */
Results program_eval_in_chunks(Arena *a, const Program *p, int64_t batch, bool together,
                               int64_t samples);
/* Outputs through the reference interpreter. */
double **graph_eval(Arena *a, const Graph *g, int64_t batch);
#endif
