/* What rank 0 tells: log.jsonl, lines on stdout, the progress line. On other ranks a report is NULL and
   every call does nothing. */
#ifndef DDP_TRAIN_REPORT_H
#define DDP_TRAIN_REPORT_H
#include "run.h"

/* Opens <output>/log.jsonl and writes the identity of the run as its first line. */
DdpError *report_open(DdpReport **out, const DdpRun *r);
/* One line of training: mean loss since the last one. */
DdpError *report_train(DdpReport *p, const DdpRun *r, double loss, double epoch);
DdpError *report_eval(DdpReport *p, const DdpRun *r, const double *metrics, double epoch,
                      double seconds, int64_t samples, int64_t steps);
/* The last line of the log and of the terminal. `stopped`: a signal's name, or NULL at the end. */
DdpError *report_end(DdpReport *p, const DdpRun *r, double mean_loss, double epoch,
                     const char *stopped);
/* What the trained model writes; behind the last line. */
DdpError *report_sample(DdpReport *p, const DdpRun *r, const char *text);
/* Redraws the progress line, at most ten times a second. */
void report_progress(DdpReport *p, const DdpRun *r, double loss);
void report_close(DdpReport *p);
#endif
