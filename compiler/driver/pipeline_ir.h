/* Passes as filters: textual graphs in, textual graphs out. */
#ifndef DRIVER_PIPELINE_IR_H
#define DRIVER_PIPELINE_IR_H
#include "job.h"

bool pipeline_has_stage(const char *name);
/* Reads the graphs of a source, runs that one stage and prints. False after errors in diag. */
bool pipeline_run_ir(Arena *a, uint32_t source, const char *stage, Text *out);
enum { PIPELINE_MOST_GRAPHS = 64 };
/* A job around graphs, which take their places by name (train, eval, counts, finish, schedule,
   optimizer.NAME): its leaves are those that the graphs read, all trained; its fields those that they
   read. */
Job *job_from_ir(Arena *a, uint32_t source, Graph *const *graphs, int n);
#endif
