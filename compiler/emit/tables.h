/* The job's data as C tables: tensors, arenas, order of gradients, initial values, groups, optimizers,
   fields, sources, splits, settings. */
#ifndef EMIT_TABLES_H
#define EMIT_TABLES_H
#include "kernel.h"

void tables_write(Emit *e, Text *out);      /* what the functions below them refer to */
void tables_write_late(Emit *e, Text *out); /* what refers to functions: optimizers */
/* enum {P_NAME, ...}: the numbers of the tensors; a part of tables_write. */
void tables_write_numbers(const Emit *e, Text *out);
void tables_write_job(Emit *e, Text *out); /* the DdpJob */
#endif
