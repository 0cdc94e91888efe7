/* Bytes of a file, gzip or plain by its first bytes, whatever its name says. */
#ifndef DDP_DATA_STREAM_H
#define DDP_DATA_STREAM_H
#include "ddp/status.h"
#include <stdint.h>

typedef struct DdpStream DdpStream;

DdpError *ddp_stream_open(DdpStream **out, const char *path);
/* Up to n bytes; *got = 0 at the end. A truncated or damaged gzip file is an error. */
DdpError *ddp_stream_read(DdpStream *s, void *into, int64_t n, int64_t *got);
/* The most bytes that the file can hold (exact for plain files). */
int64_t ddp_stream_limit(DdpStream *s);
void ddp_stream_close(DdpStream *s);
#endif
