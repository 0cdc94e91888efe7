/* Parameters that get no gradient (E0613). */
#ifndef PASSES_UNGRADED_H
#define PASSES_UNGRADED_H
#include "job.h"

/* Does a gradient go from x to its input i? */
typedef bool (*GradPasses)(const Value *x, int i);
/* n: values of the training graph before gradients were added; gradient: by leaf, NO_VAL where none. */
void ungraded_report(const Job *job, uint32_t n, const Val *gradient, GradPasses passes);
#endif
