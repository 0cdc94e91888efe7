/* The evaluation half of pass_means. */
#ifndef PASSES_METRICS_H
#define PASSES_METRICS_H
#include "job.h"
/* Cuts loss and metrics of Job.eval at their batch sums: OUT_sum accumulators and Job.finish. */
void metrics_cut(Job *job);
#endif
