/* Loop nests as loops of one thread. */
#ifndef EMIT_NEST_LOOPS_H
#define EMIT_NEST_LOOPS_H
#include "kernel.h"

/* A function for each nest: all there is on CPUs. */
void nest_loops_functions(Emit *e, const Program *p, const Kernel *k, KernelCalls *calls);
/* The body alone; its operands become those of `call`. */
void nest_loops(Emit *e, const Program *p, const Kernel *k, KernelCall *call, Text *out);
#endif
