/* Schedules of measured values: torch's ReduceLROnPlateau and transformers' GreedyLR, step by step. */
#ifndef DDP_TRAIN_MEASURED_H
#define DDP_TRAIN_MEASURED_H
#include "ddp/job.h"
#include "ddp/status.h"

typedef struct DdpMeasured DdpMeasured;
/* rates: what the groups begin with, copied. kind and numbers as in the job. */
DdpError *ddp_measured_open(DdpMeasured **out, const char *kind, const double *numbers,
                            const double *rates, int32_t n);
void ddp_measured_close(DdpMeasured *m);
void ddp_measured_step(DdpMeasured *m, double metric); /* after an evaluation */
/* What a checkpoint keeps: everything that a step changes, 8 bytes an element. Returns how many. */
enum { DDP_MEASURED_PARTS = 11 };
typedef struct DdpMeasuredPart {
  const char *name;
  DdpDType dtype;
  void *data;
  int64_t n;
} DdpMeasuredPart;
int ddp_measured_parts(DdpMeasured *m, DdpMeasuredPart *out);
double ddp_measured_rate(const DdpMeasured *m, int32_t group);
#endif
