/* The data of a job, read by the runtime's own readers: the same checks and messages as in a run. */
#ifndef DRIVER_SCAN_H
#define DRIVER_SCAN_H
#include "command.h"

typedef struct ScanSplit {
  const char *name;
  int64_t rows;
} ScanSplit;
typedef struct Scan {
  VEC(ScanSplit) splits;
  int64_t dropped; /* rows with missing values */
} Scan;
/* Of a number of ranks. */
typedef struct ScanSteps {
  int world;
  int64_t samples, updates, total; /* of one rank in an epoch; updates in an epoch; of the run */
  const char *why;                 /* NULL; else why there are no updates */
} ScanSteps;

/* False after a message on stderr. */
bool scan_job(Arena *a, const Job *job, Scan *out);
/* Whether reading all files takes no time that anybody notices, and they are there. */
bool scan_is_cheap(Arena *a, const Job *job);
ScanSteps scan_steps(Arena *a, const Job *job, const Scan *scan, int world);
void scan_print(Text *out, Arena *a, const Job *job, const Scan *scan);
json_t *scan_json(Arena *a, const Job *job, const Scan *scan);
#endif
