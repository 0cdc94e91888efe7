/* Bytes under keys that all ranks see; kept by rank 0, carried by the control plane. */
#ifndef DDP_COMM_STORE_H
#define DDP_COMM_STORE_H
#include "ddp/status.h"
#include <stddef.h>

typedef struct DdpStore DdpStore;

DdpError *ddp_store_set(DdpStore *s, const char *key, const void *data, size_t size);
/* Waits for the key until the deadline (ddp_clock). *out: malloc, with a NUL behind it. */
DdpError *ddp_store_get(DdpStore *s, const char *key, double deadline, void **out, size_t *size);
#endif
