/* Graphs of one op, made from the sample column of the op table; elementwise rows get shapes here.
   Every tensor is an `input` value; its contents are drawn by sample_fill. */
#ifndef TESTS_SAMPLE_H
#define TESTS_SAMPLE_H
#include "ops.h"

enum { SAMPLE_BATCH = 3, SAMPLES_MAX = 16 };
typedef struct Sample {
  Graph *g;
  OpKind op;
  Val y, in[IR_MAX_INPUTS];
  int inputs;
  int64_t limit[IR_MAX_INPUTS]; /* integers: 0 <= x < limit */
} Sample;

/* Number of samples written to out; dies on a sample that cannot be read or does not infer. */
int samples_of(Arena *a, OpKind op, Sample *out);
int samples_from(Arena *a, OpKind op, const char *text, Sample *out); /* of this column */

/* Contents of the inputs, in the domain of the op; away from ties, zeros and whole numbers, so that
   finite differences see no kink. The same seed gives the same numbers. */
void sample_fill(const Sample *s, uint64_t seed, double **in);
/* Result y for these inputs. */
const double *sample_run(Arena *a, const Sample *s, const Graph *g, Val y, double **in);
int64_t sample_count(const Graph *g, Val v);
#endif
