/* The C compiler of the host: emitted text -> program. */
#ifndef DRIVER_HOST_CC_H
#define DRIVER_HOST_CC_H
#include "arena.h"
#include <stdbool.h>

typedef struct HostCompile {
  const char *source;    /* file to compile */
  const char *output;    /* program to write */
  const char *march;     /* "native" */
  const char *directory; /* of the job, for relative data paths */
  bool verbose;
} HostCompile;

/* False after a message on stderr. */
bool host_compile(Arena *a, const HostCompile *c);
#endif
