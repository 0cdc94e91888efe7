/* In: a command, a moment and a kind of break. Out: how it ended. Holds: nothing that was started outlives
   the call, nor ddpc itself; a run that hangs ends at its limit. The program gets a session of its own,
   by which its ranks are found. */
#include "trial.h"
#include "command.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static const struct {
  int first, second;
} breaks[] = {
#define BREAK(name, weight, one, two, ranks, says) {one, two},
#include "breaks.def"
};

/* ---------- processes of the session ---------- */

/* Reads the session of a process; -1: it is gone, or a zombie. `rank`: by its name, -1 for what is none. */
static pid_t session_of(const char *pid, int *rank) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  FILE *f = fopen(path, "r");
  if (!f) return -1;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  char *name = strchr(text, '('), *end = strrchr(text, ')'), state;
  int parent, group, session;
  if (!name || !end || sscanf(end + 1, " %c %d %d %d", &state, &parent, &group, &session) != 4)
    return -1;
  *end = 0;
  if (sscanf(name, "(ddp rank %d", rank) != 1) *rank = -1;
  return state == 'Z' || state == 'X' ? -1 : session;
}

/* The process of a rank, 0 if there is none now. With `number`, that signal goes to every process of the
   session instead; returns how many there were. */
static int look(pid_t session, int rank, int number) {
  int found = 0, k;
  DIR *d = opendir("/proc");
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] < '1' || e->d_name[0] > '9' || session_of(e->d_name, &k) != session) continue;
    int pid = atoi(e->d_name);
    if (number < 0) {
      if (k == rank) found = pid;
    } else {
      if (number) kill(pid, number);
      found++;
    }
  }
  if (d) closedir(d);
  return found;
}

/* ---------- one run ---------- */

static void become(const Trial *t, pid_t parent, const sigset_t *old) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  setsid();
  int fd = open(t->console, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (fd >= 0) {
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
  }
  int in = open("/dev/null", O_RDONLY);
  if (in >= 0) dup2(in, STDIN_FILENO);
  signal(SIGINT,
         SIG_DFL); /* a shell ignores it for what it starts in the background, nohup SIGHUP */
  signal(SIGHUP, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  sigprocmask(SIG_SETMASK, old, NULL);
  execv(t->words[0], (char *const *)(uintptr_t)t->words);
  _exit(127);
}

/* Whether the program ended by then; SIGCHLD is blocked. */
static bool ends_by(pid_t pid, double end, int *status) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  for (;;) {
    pid_t p = waitpid(pid, status, WNOHANG);
    if (p == pid || (p < 0 && errno != EINTR)) return true;
    double left = end - run_clock();
    if (left <= 0) return false;
    struct timespec wait = {.tv_sec = (time_t)left};
    wait.tv_nsec = (long)((left - (double)wait.tv_sec) * 1e9);
    sigtimedwait(&child, NULL, &wait);
  }
}

/* Nobody may outlive the program for long. */
static int leftovers(pid_t session) {
  double end = run_clock() + 3;
  struct timespec nap = {.tv_nsec = 2000000};
  int n;
  while ((n = look(session, 0, 0)) > 0 && run_clock() < end) nanosleep(&nap, NULL);
  return n ? look(session, 0, SIGKILL) : 0;
}

static void watch(Trial *t, pid_t pid, double start) {
  int status = 0, first = breaks[t->how].first, second = breaks[t->how].second;
  double end = start + t->limit;
  bool over = ends_by(pid, first ? start + t->after : end, &status);
  if (!over && first) {
    int victim = t->how == BREAK_kill_rank ? look(pid, t->rank, -1) : pid;
    t->broken = victim > 0 && kill(victim, first) == 0;
    if (second && !ends_by(pid, run_clock() + t->second, &status))
      kill(pid, second);
    else
      over = second != 0;
  }
  if (!over && !ends_by(pid, end, &status)) {
    t->hung = true;
    look(pid, 0, SIGKILL);
    ends_by(pid, run_clock() + 60, &status);
  }
  t->seconds = run_clock() - start;
  t->code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool trial_run(Trial *t) {
  sigset_t child, old;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, &old);
  fflush(NULL);
  double start = run_clock();
  pid_t parent = getpid(), pid = fork();
  if (pid == 0) become(t, parent, &old);
  t->broken = t->hung = false;
  t->left = 0;
  if (pid > 0) {
    watch(t, pid, start);
    t->left = leftovers(pid);
  } else {
    fprintf(stderr, "ddpc: cannot start %s: %s\n", t->words[0], strerror(errno));
  }
  sigprocmask(SIG_SETMASK, &old, NULL);
  return pid > 0;
}
