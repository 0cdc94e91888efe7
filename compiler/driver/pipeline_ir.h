/* Passes as filters: textual graphs in, textual graphs out. */
#ifndef DRIVER_PIPELINE_IR_H
#define DRIVER_PIPELINE_IR_H
#include "job.h"

bool pipeline_has_stage(const char *name);
/* Reads the graphs of a source, runs that one stage and prints. False after errors in diag. */
bool pipeline_run_ir(Arena *a, uint32_t source, const char *stage, Text *out);
/* A job around the graphs of a file, by their names (train, eval, counts, finish, schedule): its leaves
   are those that the graphs read, all trained; its fields those that they read. NULL after errors. */
Job *job_from_ir(Arena *a, uint32_t source);
#endif
