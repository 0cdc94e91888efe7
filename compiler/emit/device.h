/* The text of what runs on a device: kernels, the functions that launch them, the DdpTarget. */
#ifndef EMIT_DEVICE_H
#define EMIT_DEVICE_H
#include "kernel.h"

/* Setting tf32: whether factors that are f32 may count with 10 bits. */
bool device_tf32(const Emit *e);
/* What the text needs beside the plan's memory, once the functions are written. */
PlanDevice device_needs(const Emit *e);
/* What the text begins with. */
void device_write_header(Emit *e, Text *out);
/* The tables of matrix products. */
void device_write_products(const Emit *e, Text *out);
/* Its end: what the runtime needs beside the functions of the job. */
void device_write_target(Emit *e, Text *out);
/* Declarations of what the text defines, for the text of the host. */
void device_declare(Emit *e, Text *out);
#endif
