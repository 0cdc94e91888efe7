/* The passes of ddpc in order, as one table; --dump=STAGE stops after and prints a stage. */
#ifndef DRIVER_PIPELINE_H
#define DRIVER_PIPELINE_H
#include "plan.h"

/* Runs every pass on a checked job and makes the plan. dump: name of a stage or NULL; its text goes
   to dump_out. NULL when a pass reported errors, or the dump was made before the plan. */
Plan *pipeline_run(Job *job, const char *dump, Text *dump_out);
/* Only what can find a mistake in a checked job: means, gradients, and what no plan can be made for. */
void pipeline_check(Job *job);
/* Names for --help. */
void pipeline_stages(Text *out);
#endif
