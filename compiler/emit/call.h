/* Library ops as calls of the kernels in runtime/kernels/cpu. */
#ifndef EMIT_CALL_H
#define EMIT_CALL_H
#include "kernel.h"

/* Writes the call of kernel k (KERNEL_call). `name` gives the text of a value's memory. */
void call_write(Emit *e, const Program *p, const Kernel *k, Text *out, const char *indent,
                OperandName name, void *self, const char *tail);
#endif
