/* The binary files of CIFAR-10 and CIFAR-100: records of one or two labels and an image of 3 x 32 x 32 bytes,
   channels first. */
#ifndef DDP_DATA_CIFAR_H
#define DDP_DATA_CIFAR_H
#include "table.h"

/* Appends the records of one file, plain or gzip. source.fields: the labels of a record in order; NULL: the
   size of the file says how many there are. */
DdpError *ddp_cifar_read(DdpTable *t, const char *path, const DdpSource *source);
#endif
