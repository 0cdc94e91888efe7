/* SIGINT and SIGTERM. In: signals to the process. Out: during training the update is finished, then the
   run ends cleanly; a second one, or one at another time, has its usual effect.
   No handler may run on a thread that computes: oneDNN's kernels borrow the stack pointer, and what the
   kernel of the system pushes there would lie in the heap. So signals are blocked everywhere and taken by
   one thread that does nothing else. */
#include "run.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

static sigset_t watched;
static atomic_int received;
static atomic_bool training;

static void *wait_for_signals(void *unused) {
  (void)unused;
  for (;;) {
    int number = 0, none = 0;
    if (sigwait(&watched, &number) != 0) return NULL;
    if (atomic_load(&training) && atomic_compare_exchange_strong(&received, &none, number))
      continue;
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &watched, NULL);
    raise(number); /* ends the process */
  }
}

DdpError *run_signals_open(void) {
  static const int numbers[] = {SIGINT, SIGTERM};
  sigset_t all, old;
  pthread_t thread;
  sigemptyset(&watched);
  for (int i = 0; i < 2; i++) {
    struct sigaction now;
    sigaction(numbers[i], NULL, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&watched, numbers[i]); /* nohup stays in force */
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

void run_signals_training(bool on) {
  atomic_store(&training, on);
}

int run_signal(void) {
  return atomic_load(&received);
}
