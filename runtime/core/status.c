/* Errors as values: makes, merges and frees them. In: class and text. Out: an owned DdpError, never
   NULL: when even the error cannot be allocated, a static one stands in. */
#include "ddp/status.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char no_memory_text[] = "out of memory while reporting another error";
static DdpError no_memory = {DDP_MEMORY, -1, no_memory_text};

static DdpError *error_make(DdpClass klass, int rank, const char *format, va_list args) {
  DdpError *e = malloc(sizeof *e);
  char *message = NULL;
  if (!e || vasprintf(&message, format, args) < 0) {
    free(e);
    return &no_memory;
  }
  *e = (DdpError){klass, rank, message};
  return e;
}

DdpError *ddp_error(DdpClass klass, const char *format, ...) {
  va_list args;
  va_start(args, format);
  DdpError *e = error_make(klass, -1, format, args);
  va_end(args);
  return e;
}

DdpError *ddp_error_rank(DdpClass klass, int rank, const char *format, ...) {
  va_list args;
  va_start(args, format);
  DdpError *e = error_make(klass, rank, format, args);
  va_end(args);
  return e;
}

void ddp_error_free(DdpError *e) {
  if (!e || e == &no_memory) return;
  free(e->message);
  free(e);
}

DdpError *ddp_error_first(DdpError *first, DdpError *second) {
  if (!first) return second;
  ddp_error_free(second);
  return first;
}
