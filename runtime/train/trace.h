/* `--profile FILE`: what a run did when, as a Chrome trace (chrome://tracing, Perfetto): for each rank what its
   computing thread did (updates, their parts, kernels, collectives) and which collectives were under way.
   Without the flag there is no trace, and nothing looks at a clock for it. */
#ifndef DDP_TRAIN_TRACE_H
#define DDP_TRAIN_TRACE_H
#include <stdint.h>

typedef struct DdpTrace DdpTrace;

/* All of these do nothing without a trace. name: a string constant. */
void ddp_trace_span(DdpTrace *t, const char *name, double begin, double end);
/* What comes belongs to this update, counted from 0. */
void ddp_trace_update(DdpTrace *t, int64_t update);
/* Kernels are measured from the end of what was traced before; here begins a list of them. */
void ddp_trace_mark(DdpTrace *t);
#endif
