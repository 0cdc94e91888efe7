/* Parameters that get no gradient: an error (E0613), or left as they are. */
#ifndef PASSES_UNGRADED_H
#define PASSES_UNGRADED_H
#include "job.h"

/* Does a gradient go from x to its input i? */
typedef bool (*GradPasses)(const Value *x, int i);
/* n: values of the training graph before gradients were added; gradient: by leaf, NO_VAL where none.
   With ddp_find_unused_parameters = true they are no longer trained afterwards, as frozen ones: no step,
   no decay, no share of the norm, no state, as in PyTorch, whose optimizers pass over a parameter without a
   gradient. It is an error nevertheless if no parameter has one. */
void ungraded_settle(Job *job, uint32_t n, const Val *gradient, GradPasses passes);
#endif
