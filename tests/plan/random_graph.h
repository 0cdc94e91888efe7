/* Random graphs over all ops that nests can lower, with a symbolic batch. */
#ifndef PLAN_RANDOM_GRAPH_H
#define PLAN_RANDOM_GRAPH_H
#include "ir.h"

/* The same seed gives the same graph. values: about how many; outputs: gradients and plain values,
   some of them shared, and new values of buffers. */
Graph *random_graph(Arena *a, uint64_t seed, int values, int outputs);
#endif
