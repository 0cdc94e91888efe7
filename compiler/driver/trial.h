/* One run of a compiled program on this machine: to its end, or broken off on the way. */
#ifndef DRIVER_TRIAL_H
#define DRIVER_TRIAL_H
#include "arena.h"
#include <stdbool.h>

typedef enum BreakKind {
#define BREAK(name, ...) BREAK_##name,
#include "breaks.def"
  BREAK_COUNT
} BreakKind;

typedef struct Trial {
  const char *console;      /* file that what the program says is added to */
  const char *const *words; /* command, NULL at the end */
  double limit;             /* seconds after which the run has hung and is killed */
  BreakKind how;
  double after;  /* seconds from the start to the break */
  double second; /* from the first signal to the second one, where the kind has two */
  int rank;      /* that is killed, where the kind is about one */
  /* out */
  int code;       /* exit code, or 128 + signal */
  double seconds; /* that it took */
  bool broken;    /* the break came before the end */
  bool hung;
  int left; /* processes that were still there three seconds after the end; killed */
} Trial;

/* False after a message: it could not be started. */
bool trial_run(Trial *t);
#endif
