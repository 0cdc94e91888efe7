/* What is left of a rank that crashes. In: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT. Out: one line that says
   where it was, the flight record, the launcher's error file; then the signal takes its course, so that
   launchers see it and a core is written where the system keeps one.
   Holds: only what a signal handler may call; all memory is there beforehand; a stack of its own on every
   thread that computes, since the thread's own may be what is broken (and oneDNN's kernels borrow the stack
   pointer). A handler that somebody else has installed, a sanitizer's, stays. */
#include "file.h"
#include "run.h"
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK = 64 << 10, PATIENCE = 10 }; /* seconds for the handler: a disk may hang */

/* There when the program links OpenMP: its own threads run the function. */
extern void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags)
    __attribute__((weak));

static const struct {
  int number;
  const char *name, *means;
} crashes[] = {
    {SIGSEGV, "SIGSEGV", "memory that is not its own, or a stack that is full"},
    {SIGBUS, "SIGBUS",
     "memory behind a file or between ranks that is not there: a file was cut while "
     "in use, or memory is full"},
    {SIGFPE, "SIGFPE", "an integer divided by zero"},
    {SIGILL, "SIGILL", "an instruction that this processor does not have"},
    {SIGABRT, "SIGABRT", "a library gave up; what it said stands above"},
};
enum { CRASHES = sizeof crashes / sizeof *crashes };

static DdpLaunch launch;
static _Atomic(DdpGroup *) group;
static atomic_flag begun = ATOMIC_FLAG_INIT;

typedef struct Line {
  size_t n;
  char text[512];
} Line;

static void add(Line *l, const char *text) {
  while (*text && l->n + 1 < sizeof l->text) l->text[l->n++] = *text++;
  l->text[l->n] = 0;
}

static void add_number(Line *l, uint64_t v, unsigned base) {
  char digits[24];
  int n = (int)sizeof digits - 1;
  digits[n] = 0;
  do digits[--n] = "0123456789abcdef"[v % base];
  while (v /= base);
  add(l, digits + n);
}

static void describe(Line *l, int number, const siginfo_t *info, DdpGroup *g) {
  int k = 0;
  while (k < CRASHES - 1 && crashes[k].number != number) k++;
  add(l, "rank ");
  add_number(l, (uint64_t)launch.rank, 10);
  add(l, " crashed: ");
  add(l, crashes[k].name);
  if (info->si_code <= 0 && number != SIGABRT) {
    add(l, " sent by process ");
    add_number(l, (uint64_t)info->si_pid, 10);
  } else {
    add(l, ", ");
    add(l, crashes[k].means);
    if (number != SIGABRT) {
      add(l, "; address 0x");
      add_number(l, (uint64_t)(uintptr_t)info->si_addr, 16);
    }
  }
  int64_t update = g ? ddp_group_update(g) : -1;
  if (update >= 0) {
    add(l, "; update ");
    add_number(l, (uint64_t)update, 10);
  }
  add(l, "; phase: ");
  add(l, g ? ddp_group_phase(g) : "start");
}

static void say(const Line *what) {
  Line l = {0};
  if (launch.world > 1) {
    add(&l, "[rank ");
    add_number(&l, (uint64_t)launch.rank, 10);
    add(&l, "] ");
  }
  add(&l, "error: ");
  add(&l, what->text);
  add(&l, "\n");
  ssize_t k = write(STDERR_FILENO, l.text, l.n);
  (void)k; /* nobody reads: nothing better to do */
}

static void on_crash(int number, siginfo_t *info, void *context) {
  (void)context;
  while (atomic_flag_test_and_set(&begun)) pause(); /* another thread crashed first */
  signal(SIGALRM, SIG_DFL);
  alarm(PATIENCE);
  DdpGroup *g = atomic_load(&group);
  Line l = {0};
  describe(&l, number, info, g);
  say(&l);
  ddp_file_abandon();
  if (g) ddp_group_crash(g, 128 + number, l.text);
  ddp_launch_crash(l.text);
  signal(number, SIG_DFL);
  raise(number); /* comes when this handler returns */
}

static void take_stack(void *unused) {
  (void)unused;
  stack_t now, own = {.ss_size = STACK};
  if (sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
  own.ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own.ss_sp != MAP_FAILED) sigaltstack(&own, NULL); /* for as long as the thread lives */
}

void run_crash_open(const DdpLaunch *who) {
  launch = *who;
  ddp_launch_crash_ready(who);
  take_stack(NULL);
  for (int k = 0; k < CRASHES; k++) {
    struct sigaction now, own = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&own.sa_mask);
    if (sigaction(crashes[k].number, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
      sigaction(crashes[k].number, &own, NULL);
  }
}

void run_crash_threads(int threads) {
  if (GOMP_parallel && threads > 1) GOMP_parallel(take_stack, NULL, (unsigned)threads, 0);
}

void run_crash_group(DdpGroup *g) {
  atomic_store(&group, g);
}
