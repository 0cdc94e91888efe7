/* What the commands share: the command line, the analysis of a job, output. A command is a function
   cmd_NAME(Run *) in cmd_NAME.c and a row of commands.def. */
#ifndef DRIVER_COMMAND_H
#define DRIVER_COMMAND_H
#include "options.h"
#include "plan.h"
#include <jansson.h>

enum { DONE = 0, WRONG_JOB = 1, WRONG_USE = 2 }; /* exit status */

typedef struct Run {
  Arena *arena;
  Options options;
  const char *march;
  double started;
} Run;

#define COMMAND(name, ...) int cmd_##name(Run *r);
#include "commands.def"

/* Seconds of a clock that is never set. */
double run_clock(void);
/* With --verbose: how long the step took that ends now. */
void run_say_time(Run *r, const char *what);
/* Prints the diagnostics; `code`, or WRONG_JOB when there were errors. */
int run_flush(int code);
/* The one file that the command is about; NULL after a message. */
const char *run_file(const Run *r);
/* NULL when there were errors; they are not printed yet. */
Job *run_analyse(Run *r, const char *path, bool check_only);
/* --memory in bytes, 0 where it is not given; false after a message. */
bool run_memory(const Run *r, int64_t *bytes);
/* run_file, analysis and passes; NULL after messages, with the exit status in *code. */
Plan *run_plan(Run *r, int *code);
/* E0905 where the plan takes more than the target's `memory`. */
void run_check_memory(const Plan *plan);
bool run_switch(const Run *r, OptionKind option);
/* To a file; NULL or "-": the standard output. */
int run_write(const char *path, const Text *t);
/* As JSON, two blanks a level; frees it. */
int run_write_json(const char *path, json_t *j);
/* A text that may hold bytes that are no UTF-8. */
json_t *run_json_text(const char *s);
/* {"path", "line", "column"}, or null where there is no place. */
json_t *run_json_place(Span at);
/* "job.ddp:31", "" where there is no place. */
const char *run_place(Arena *a, Span at);
#endif
