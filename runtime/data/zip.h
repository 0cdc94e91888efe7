/* Members of zip files: stored or deflated, also with 64-bit sizes, as numpy writes them. */
#ifndef DDP_DATA_ZIP_H
#define DDP_DATA_ZIP_H
#include "ddp/status.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct DdpZip DdpZip;

/* Finds the list of members; damage is an error. */
DdpError *ddp_zip_open(DdpZip **out, const char *path);
/* Starts to read a member; *found is false when there is none of that name. One at a time. */
DdpError *ddp_zip_member(DdpZip *z, const char *name, bool *found);
/* Up to n bytes; *got = 0 at the end, where the checksum must be right. */
DdpError *ddp_zip_read(DdpZip *z, void *into, int64_t n, int64_t *got);
/* The most bytes that the member can hold. */
int64_t ddp_zip_limit(const DdpZip *z);
/* "a, b, c": what there is. */
const char *ddp_zip_names(const DdpZip *z);
void ddp_zip_close(DdpZip *z);
#endif
