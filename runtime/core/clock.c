/* CLOCK_MONOTONIC as seconds. */
#include "clock.h"
#include <time.h>

static const double unusual = 1.0;

double ddp_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double ddp_clock_paused(double *last) {
  double now = ddp_clock(), gap = now - *last;
  *last = now;
  return gap > unusual ? gap : 0;
}
