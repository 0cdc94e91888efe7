/* Whether two runs of a job left the same results. */
#ifndef DRIVER_SAME_OUTPUT_H
#define DRIVER_SAME_OUTPUT_H
#include "arena.h"
#include "vec.h"

typedef VEC(const char *) Lines;

/* model.safetensors, the checkpoint of the last update and the log of two output folders. Weights and states
   byte for byte; JSON as values, without times and what belongs to the place. Adds a line for every
   difference; returns how many files were compared. */
int outputs_compare(Arena *a, const char *x, const char *y, long long last_update, Lines *out);
#endif
