/* In: marks between the parts of updates. Out: sums, minimum, median. Holds: one clock read per mark,
   nothing else that an update would feel. */
#include "timing.h"
#include "clock.h"
#include <math.h>

static const double shortest = 1e-7; /* seconds: the first bin begins here */

void ddp_timing_begin(DdpTiming *t) {
  t->begun = t->mark = ddp_clock();
}

void ddp_timing_lap(DdpTiming *t, DdpPart part) {
  double now = ddp_clock();
  t->part[part] += now - t->mark;
  ddp_trace_span(t->trace, ddp_timing_part_name(part), t->mark, now);
  t->mark = now;
}

void ddp_timing_end(DdpTiming *t, DdpPart part, bool full) {
  ddp_timing_lap(t, part);
  double took = t->mark - t->begun;
  t->whole += took;
  ddp_trace_span(t->trace, "update", t->begun, t->mark);
  t->updates++;
  if (!full) return;
  double bin = took > shortest ? log2(took / shortest) * DDP_TIMING_STEPS : 0;
  t->bins[bin < DDP_TIMING_BINS ? (int)bin : DDP_TIMING_BINS - 1]++;
  if (t->full == 0 || took < t->least) t->least = took;
  t->full++;
}

void ddp_timing_exposed(DdpTiming *t, double seconds) {
  t->exposed += seconds;
  t->exposed_n++;
}

/* The middle of the bin in which the middle update lies. */
double ddp_timing_median(const DdpTiming *t) {
  int64_t seen = 0;
  for (int i = 0; i < DDP_TIMING_BINS; i++) {
    seen += t->bins[i];
    if (2 * seen >= t->full && seen > 0) return shortest * exp2((i + 0.5) / DDP_TIMING_STEPS);
  }
  return 0;
}

const char *ddp_timing_part_name(DdpPart part) {
  static const char *const names[] = {
#define X(name) #name,
      DDP_PARTS(X)
#undef X
  };
  return names[part];
}
