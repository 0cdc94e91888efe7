/* Loop nests as kernels of a GPU. */
#ifndef EMIT_NEST_CUDA_H
#define EMIT_NEST_CUDA_H
#include "kernel.h"

void nest_cuda_functions(Emit *e, const Program *p, const Kernel *k, KernelCalls *calls);
#endif
