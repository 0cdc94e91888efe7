/* The compilers: emitted texts -> program. */
#ifndef DRIVER_HOST_CC_H
#define DRIVER_HOST_CC_H
#include "arena.h"
#include "job.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct HostCompile {
  const char *source; /* C file to compile */
  const char *device; /* .cu file of a program for GPUs, or NULL */
  const char *output; /* program to write */
  const JobTarget *target;
  const char *directory; /* of the job, for relative data paths and headers of operators */
  /* Sources of operators, compiled apart and linked; their objects lie beside the output. */
  const char *const *natives;
  uint32_t n_natives;
  bool headers; /* the program includes headers of operators */
  bool verbose;
} HostCompile;

/* False after a message on stderr. */
bool host_compile(Arena *a, const HostCompile *c);
#endif
