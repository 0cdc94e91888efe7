/* Numbers by chance, for measuring and for trying a job out without its data. */
#ifndef DDP_DATA_SYNTHETIC_H
#define DDP_DATA_SYNTHETIC_H
#include "table.h"

/* Appends source.count rows. Each value is a hash of source.seed, its field, row and element: whole numbers
   are even over the field's range, floats too, or, without a range, near to normal with deviation 1. */
DdpError *ddp_synthetic_make(DdpTable *t, const DdpSource *source);
#endif
