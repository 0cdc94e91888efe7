/* Loop nests as C functions: one for each nest. */
#ifndef EMIT_NEST_CPU_H
#define EMIT_NEST_CPU_H
#include "kernel.h"

void nest_cpu_functions(Emit *e, const Program *p, const Kernel *k, KernelCalls *calls);
#endif
