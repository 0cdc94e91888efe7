/* What is known of every backend by name (tables/backend.def), and what this machine has of it. */
#ifndef DDP_COMM_BACKEND_H
#define DDP_COMM_BACKEND_H
#include "ddp/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct DdpBackendInfo {
  const char *name;
  bool later; /* not supported yet */
  const char *target, *devices, *file, *library, *driver, *install;
} DdpBackendInfo;

extern const DdpBackendInfo ddp_backend_infos[];
extern const int ddp_backend_count;
/* NULL: no such name. */
const DdpBackendInfo *ddp_backend_info(const char *name);
/* "no /dev/nvidia0, no libnccl.so.2", "" when nothing is missing. Loads the libraries to see. */
void ddp_backend_missing(const DdpBackendInfo *b, char *out, size_t size);
/* NULL when the name (NULL: the default) is one that a program for the target ("cpu", "cuda") can use: that of its
   devices, or one between CPUs, which carries values of the hosts on every target. */
DdpError *ddp_backend_check(const char *name, const char *target);
#endif
