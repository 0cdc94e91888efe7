/* Internal faults: one message with what was being worked on and where, then abort. */
#include "die.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char *context = "start";

void die_context(const char *what) {
  context = what;
}

void die_at(const char *file, int line, const char *format, ...) {
  const char *slash = file;
  for (const char *p = file; *p; p++)
    if (*p == '/') slash = p + 1;
  fprintf(stderr, "ddpc: internal fault in %s (%s:%d): ", context, slash, line);
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\nThis is a fault of the compiler, not of the job. Please report it.\n");
  abort();
}
