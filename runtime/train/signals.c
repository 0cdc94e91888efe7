/* SIGINT and SIGTERM during training: the update is finished, then the run ends cleanly. A second
   signal has its usual effect. */
#include "run.h"
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t received;

static void on_signal(int number) {
  received = number;
}

void run_signals_catch(void) {
  struct sigaction act;
  memset(&act, 0, sizeof act);
  act.sa_handler = on_signal;
  act.sa_flags = (int)(SA_RESTART | SA_RESETHAND);
  sigaction(SIGINT, &act, NULL);
  sigaction(SIGTERM, &act, NULL);
}

int run_signal(void) {
  return received;
}
