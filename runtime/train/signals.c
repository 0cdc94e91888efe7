/* Signals that ask a run to end. In: signals to the process. Out: while it trains, a wish that all ranks
   agree on after the update, and then end with a checkpoint; before and instead of training, an end at
   once with the same exit code, told to the other ranks. A second signal has its usual effect.
   No handler may run on a thread that computes: oneDNN's kernels borrow the stack pointer, and what the
   kernel of the system pushes there would lie in the heap. So signals are blocked everywhere and taken by
   one thread that does nothing else. */
#include "file.h"
#include "log.h"
#include "run.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* In the order in which they count when ranks got different ones. */
static const struct {
  int number;
  const char *name;
} kinds[RUN_STOPS + 1] = {
    {0, ""}, {SIGTERM, "SIGTERM"}, {SIGHUP, "SIGHUP"}, {SIGINT, "SIGINT"}, {0, "--stop_at_update"},
};

static sigset_t watched;
static atomic_int received; /* index of kinds */
static atomic_bool training;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* around the use of the group */
static DdpGroup *group;
static DdpLaunch launch;

static int kind_of(int number) {
  int k = 1;
  while (k < RUN_STOPS && kinds[k].number != number) k++;
  return k;
}

/* Nothing has been trained, so there is nothing to save and nobody to agree with. */
static void end_now(int kind) {
  DdpError *e = ddp_error_rank(DDP_STOPPED, launch.rank,
                               "stopped by %s in phase \"%s\": no update was finished, there is "
                               "nothing to save",
                               kinds[kind].name, group ? ddp_group_phase(group) : "start");
  if (group) ddp_group_abort(group, e);
  ddp_file_abandon();
  ddp_log(DDP_LOG_end, "%s", e->message);
  ddp_launch_report(&launch, e);
  _exit(DDP_STOPPED);
}

static void *wait_for_signals(void *unused) {
  (void)unused;
  for (;;) {
    int number = 0, none = 0;
    if (sigwait(&watched, &number) != 0) return NULL;
    int kind = kind_of(number);
    ddp_log_hurry();
    if (atomic_compare_exchange_strong(&received, &none, kind)) {
      pthread_mutex_lock(&lock);
      if (!atomic_load(&training)) end_now(kind);
      if (group) ddp_group_ask_stop(group, kind);
      pthread_mutex_unlock(&lock);
      continue;
    }
    ddp_file_abandon();
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &watched, NULL);
    raise(number); /* ends the process */
  }
}

DdpError *run_signals_open(const DdpLaunch *who) {
  sigset_t all, old;
  pthread_t thread;
  launch = *who;
  sigemptyset(&watched);
  for (int k = 1; k < RUN_STOPS; k++) {
    struct sigaction now;
    sigaction(kinds[k].number, NULL, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&watched, kinds[k].number); /* nohup stays in force */
  }
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int failed = pthread_create(&thread, NULL, wait_for_signals, NULL);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (failed) return ddp_error(DDP_FAILED, "cannot start the thread that waits for signals");
  pthread_detach(thread);
  pthread_sigmask(SIG_BLOCK, &watched, NULL);
  return NULL;
}

void run_signals_group(DdpGroup *g) {
  pthread_mutex_lock(&lock);
  group = g;
  pthread_mutex_unlock(&lock);
}

void run_signals_training(void) {
  pthread_mutex_lock(&lock);
  atomic_store(&training, true);
  pthread_mutex_unlock(&lock);
}

void run_stop_vote(const DdpRun *r, double votes[RUN_STOPS]) {
  for (int k = 1; k <= RUN_STOPS; k++) votes[k - 1] = 0;
  int kind = atomic_load(&received);
  if (kind) votes[kind - 1] = 1;
  if (r->config->stop_at && r->progress.update + 1 >= r->config->stop_at) votes[RUN_STOPS - 1] = 1;
}

int run_stop_of(const double votes[RUN_STOPS]) {
  for (int k = 1; k <= RUN_STOPS; k++) {
    if (votes[k - 1] > 0) return k;
  }
  return 0;
}

bool run_stop_soon(int stop) {
  return stop && stop < RUN_STOPS;
}

const char *run_stop_name(int stop) {
  return kinds[stop].name;
}
