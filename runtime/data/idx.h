/* idx files (the format of MNIST): big-endian header with type and sizes, then the values. */
#ifndef DDP_DATA_IDX_H
#define DDP_DATA_IDX_H
#include "table.h"

/* Reads one file per field and appends as many rows as all of them have. */
DdpError *ddp_idx_read(DdpTable *t, char *const *paths, const char *const *fields);
#endif
