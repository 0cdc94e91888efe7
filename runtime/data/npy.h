/* numpy's arrays: a .npy file for each field, or one .npz with an array for each. The first dimension counts
   samples. */
#ifndef DDP_DATA_NPY_H
#define DDP_DATA_NPY_H
#include "table.h"

/* Both append as many rows as all arrays have. */
DdpError *ddp_npy_read(DdpTable *t, char *const *paths, const char *const *fields);
DdpError *ddp_npz_read(DdpTable *t, const char *path);
#endif
