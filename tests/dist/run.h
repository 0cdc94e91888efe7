/* Runs programs for a test: captured output, measured time, a hard limit after which everything of
   it is killed. */
#ifndef DDP_TEST_RUN_H
#define DDP_TEST_RUN_H
#include <stdbool.h>
#include <sys/types.h>

typedef struct Run {
  pid_t pid;  /* also its process group */
  int output; /* pipe: stdout and stderr */
  char *text; /* what came out so far */
  size_t size;
  int code; /* exit code, 128 + signal, or -1: the limit was reached */
  double start, seconds;
} Run;

/* command: split at blanks, no quoting. environment: NULL-terminated "NAME=value", or NULL;
   launchers' variables of the test's own environment are not passed on. */
Run run_start(const char *command, const char *const *environment);
/* Returns when the text has come that often, or fails the test. Limits are as run_slack says. */
void run_until(Run *r, const char *text, int times, double limit);
void run_finish(Run *r, double limit);
Run run(const char *command, const char *const *environment, double limit);
void run_free(Run *r);
/* How often a text occurs in the output. */
int run_count(const Run *r, const char *text);
/* Fails the test, showing command and output, unless the text occurs at least `times`. */
void run_expect(const Run *r, const char *text, int times);
void run_expect_code(const Run *r, int code);
/* Processes whose command line holds the text, this one excepted. */
int run_processes(const char *text);
/* Fails the test unless there is none, or none soon. */
void run_expect_gone(const char *text);
/* A limit on this build: under sanitizers everything takes longer (DDP_TEST_SLOWNESS). */
double run_slack(double seconds);
bool run_installed(const char *program);
#endif
