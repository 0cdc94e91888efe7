/* Types of elements (tables/dtype.def) as numbers. */
#ifndef DDP_CORE_DTYPE_H
#define DDP_CORE_DTYPE_H
#include "ddp/job.h"

int64_t ddp_dtype_bytes(DdpDType dtype); /* of one element */
#endif
