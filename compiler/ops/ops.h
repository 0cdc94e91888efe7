/* The one op table as data (op.h says what a row holds), its reference interpreter and its printed
   form. Nobody outside compiler/ops switches over ops. */
#ifndef OPS_OPS_H
#define OPS_OPS_H
#include "op.h"

/* Floating-point operations of a value at this batch. */
double op_flops(const Graph *g, Val v, int64_t batch);

/* A library op whose operands have their samples one behind the other, called for some of them. */
typedef enum OpSamples {
  SAMPLES_mixed,  /* computes something else, or nobody has said that it does not */
  SAMPLES_apart,  /* computes these samples of the result */
  SAMPLES_summed, /* computes their part of a result that is a sum over samples */
} OpSamples;
OpSamples op_samples(const Graph *g, const Value *v);

/* Reference interpreter. `source` supplies what sources stand for (input, param, host, count,
   random draws): fills out[0..elements). With round_f32 every f32 result is rounded to float; 16-bit ones always
   are rounded. */
typedef struct Interp {
  int64_t batch;
  bool round_f32;
  void (*source)(void *self, const Graph *g, Val v, double *out);
  void *self;
  /* Of the body of a loop: the number of the turn, and how the graph around it runs. `source` of the
     outermost is asked for draws of bodies too; interp_current() then says which turn it is. */
  int64_t turn;
  const struct Interp *outer;
} Interp;
/* Results of every value, indexed by Val; in the arena. Sources that need no answer from outside
   (const, dimval, arange) are not asked for. */
double **interp_run(Arena *a, const Graph *g, const Interp *how);
const Interp *interp_current(void); /* of the innermost run in progress; NULL */

/* The by-product that v, an OP_part, stands for; `value`: results of the values before it. */
void part_interpret(const Graph *g, const Value *v, int64_t batch, double *const *value,
                    double *out);

/* One element of an elementwise value (cast too) from one element of each input, as it would be
   stored at run time. */
double op_eval(const Graph *g, const Value *v, const double *in);

void ops_print_table(Text *out); /* markdown: op, inputs, attributes, forward, gradient */
#endif
