/* Parent mode. In: how many ranks, how many restarts. Out: the ranks, later one exit code and one line
   saying which rank failed first and why. Holds: no rank outlives the parent, whatever ends it: ranks
   have a parent-death signal, and a failing or interrupted job is ended by SIGTERM, then SIGKILL; a
   round of ranks begins when the last one of the round before is gone. */
#include "spawn.h"
#include "clock.h"
#include "log.h"
#include "net.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds. After a failure the others get a moment to say what they saw, then are ended. An
   interrupted job may take the time to save that torchrun and Slurm give as well, or
   --shutdown-timeout. */
static const double own_end = 1.0, term_to_kill = 2.0, shutdown = 30.0;

static DdpLaunchHooks hooks;

void ddp_launch_hooks(const DdpLaunchHooks *h) {
  hooks = *h;
}

typedef struct Child {
  pid_t pid; /* 0: reaped */
  int status;
} Child;

typedef struct Job {
  const DdpFanOut *fan;
  int ranks;      /* of this host in this round */
  int restarts;   /* so far */
  long oom_kills; /* of this machine when the round began */
  char key[64];   /* of the round */
  /* The round. */
  Child *children;
  int alive;
  pid_t group;             /* process group of all ranks */
  int culprit;             /* local index of the rank to blame, -1: none */
  int lost;                /* ranks that failed by themselves */
  double failed_at;        /* 0: nothing failed */
  double term_at, kill_at; /* 0: not planned */
  int signal;              /* that we passed on, 0: none */
  int stopped;             /* local index of a rank found stopped, -1: none */
  bool killed;
} Job;

static double shutdown_of(const Job *j) {
  return j->fan->shutdown ? (double)j->fan->shutdown : shutdown;
}

static bool status_failed(int status) {
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

/* All ranks stop together: the others are on their way. */
static bool status_stopped(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == DDP_STOPPED;
}

/* Ended because of another rank: a better culprit may still turn up. */
static bool status_victim(int status) {
  if (WIFSIGNALED(status)) return WTERMSIG(status) == SIGTERM;
  return WEXITSTATUS(status) == DDP_PEER || WEXITSTATUS(status) == DDP_TIMEOUT;
}

static bool stopped(pid_t pid) {
  char path[64], stat[512];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *f = fopen(path, "r");
  if (!f) return false;
  size_t n = fread(stat, 1, sizeof stat - 1, f);
  fclose(f);
  stat[n] = 0;
  const char *p = strrchr(stat, ')');
  return p && p[1] == ' ' && (p[2] == 'T' || p[2] == 't');
}

static int global_rank(const Job *j, int i) {
  return j->fan->node_rank * j->ranks + i;
}

static void signal_all(const Job *j, int number) {
  for (int i = 0; i < j->ranks; i++) {
    if (j->children[i].pid) kill(j->children[i].pid, number);
  }
}

/* Processes of this machine that the kernel has killed for memory, in any control group; -1: not told. */
static long oom_kills(void) {
  char line[128];
  long n = -1;
  FILE *f = fopen("/proc/vmstat", "re");
  while (f && fgets(line, sizeof line, f) && sscanf(line, "oom_kill %ld", &n) != 1) {
  }
  if (f) fclose(f);
  return n;
}

static void describe(const Job *j, int status, char *out, size_t size) {
  if (WIFSIGNALED(status))
    snprintf(out, size, "was killed by signal %d (%s)%s", WTERMSIG(status),
             strsignal(WTERMSIG(status)),
             WTERMSIG(status) == SIGKILL && oom_kills() > j->oom_kills
                 ? " while the kernel killed processes because memory ran out"
                 : "");
  else
    snprintf(out, size, "ended with exit code %d", WEXITSTATUS(status));
}

static void on_exit_of(Job *j, int i, int status) {
  j->children[i] = (Child){.status = status};
  j->alive--;
  if (status_stopped(status) && j->kill_at <= 0) j->kill_at = ddp_clock() + shutdown_of(j);
  if (!status_failed(status) || status_stopped(status) || j->signal) return;
  j->lost += !status_victim(status) && j->term_at <= 0;
  if (j->culprit < 0 ||
      (status_victim(j->children[j->culprit].status) && !status_victim(status) && j->term_at <= 0))
    j->culprit = i;
  if (j->failed_at <= 0) j->failed_at = ddp_clock();
}

static void reap(Job *j) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    for (int i = 0; i < j->ranks; i++) {
      if (j->children[i].pid == pid) on_exit_of(j, i, status);
    }
  }
}

/* Ends what has not ended by itself. */
static void end_rest(Job *j) {
  double now = ddp_clock();
  if (j->failed_at > 0 && j->term_at <= 0 && now >= j->failed_at + own_end) {
    j->term_at = now;
    j->kill_at = now + term_to_kill;
    for (int i = 0; i < j->ranks; i++) {
      pid_t pid = j->children[i].pid;
      if (pid && stopped(pid)) { /* takes no other signal */
        j->stopped = i;
        j->lost++;
        kill(pid, SIGKILL);
      } else if (pid) {
        kill(pid, SIGTERM);
      }
    }
  }
  if (j->kill_at > 0 && !j->killed && now >= j->kill_at) {
    for (int i = 0; i < j->ranks; i++) {
      if (j->children[i].pid)
        ddp_log(DDP_LOG_warning, "rank %d did not end; killing it", global_rank(j, i));
    }
    signal_all(j, SIGKILL);
    j->killed = true;
  }
}

static void on_signal(Job *j, const struct signalfd_siginfo *s) {
  int number = (int)s->ssi_signo;
  if (number == SIGCHLD) {
    reap(j);
  } else if (number == SIGUSR1 || number == SIGUSR2) {
    signal_all(j, number);
  } else if (number == SIGTSTP) { /* Ctrl-Z stops the whole job, fg continues it */
    signal_all(j, SIGSTOP);
    raise(SIGSTOP);
    signal_all(j, SIGCONT);
  } else {
    signal_all(j, j->signal ? SIGKILL : number); /* asked twice: at once */
    signal_all(j, SIGCONT);
    if (j->kill_at <= 0) j->kill_at = ddp_clock() + shutdown_of(j);
    j->signal = number;
  }
}

static void watch(Job *j, int signals) {
  while (j->alive > 0) {
    struct pollfd p = {.fd = signals, .events = POLLIN};
    bool ending = j->failed_at > 0 || j->kill_at > 0;
    if (poll(&p, 1, ending ? 50 : -1) > 0) {
      struct signalfd_siginfo s;
      if (read(signals, &s, sizeof s) == (ssize_t)sizeof s) on_signal(j, &s);
    }
    end_rest(j);
  }
}

static int exit_code(const Job *j) {
  if (j->culprit < 0) {
    int code = 0;
    for (int i = 0; i < j->ranks; i++) {
      int s = j->children[i].status;
      if (status_failed(s) && (!code || code == DDP_STOPPED))
        code = WIFEXITED(s) ? WEXITSTATUS(s) : 128 + WTERMSIG(s);
    }
    return code;
  }
  int s = j->children[j->culprit].status;
  char what[160];
  describe(j, s, what, sizeof what);
  if (j->stopped >= 0)
    ddp_log(DDP_LOG_error,
            "rank %d was stopped (SIGSTOP, a debugger?) and has been killed; first to "
            "end was rank %d, which %s",
            global_rank(j, j->stopped), global_rank(j, j->culprit), what);
  else
    ddp_log(DDP_LOG_error, "rank %d %s; the other ranks were ended", global_rank(j, j->culprit),
            what);
  return WIFEXITED(s) ? WEXITSTATUS(s) : 128 + WTERMSIG(s);
}

static void set_number(const char *name, int v) {
  char text[16];
  snprintf(text, sizeof text, "%d", v);
  setenv(name, text, 1);
}

/* What the rank will be, and the names torchrun gives it for programs that it may start. */
static void become_rank(const Job *j, int i, const char *key, DdpLaunch *out) {
  const DdpFanOut *fan = j->fan;
  *out = (DdpLaunch){.by = fan->by,
                     .rank = global_rank(j, i),
                     .world = j->ranks * fan->nodes,
                     .local_rank = i,
                     .local_world = j->ranks,
                     .restarts = j->restarts,
                     .first_world = fan->per_node * fan->nodes,
                     .master_addr = fan->master_addr,
                     .master_port = fan->master_addr ? fan->master_port : 0,
                     .job_key = key,
                     .child = true};
  set_number("RANK", out->rank);
  set_number("WORLD_SIZE", out->world);
  set_number("LOCAL_RANK", i);
  set_number("LOCAL_WORLD_SIZE", j->ranks);
  set_number("TORCHELASTIC_RESTART_COUNT", j->restarts);
  set_number("GROUP_RANK", fan->node_rank);
  if (fan->master_addr) {
    setenv("MASTER_ADDR", fan->master_addr, 1);
    set_number("MASTER_PORT", fan->master_port);
  }
  setenv("TORCHELASTIC_USE_AGENT_STORE", "False", 1);
  char name[16]; /* what ps and top show */
  snprintf(name, sizeof name, "ddp rank %d", out->rank);
  prctl(PR_SET_NAME, name);
  ddp_log_rank(out->rank, out->world);
}

static bool start_rank(Job *j, int i, pid_t parent, const sigset_t *old) {
  pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(DDP_FAILED); /* it died before the line above */
    setpgid(0, j->group);
    sigprocmask(SIG_SETMASK, old, NULL);
    return true;
  }
  if (pid < 0) return false;
  if (!j->group) j->group = pid;
  setpgid(pid, j->group);
  j->children[i].pid = pid;
  j->alive++;
  return false;
}

/* ---------- restarts ---------- */

/* Same run, same bits: what comes from flags, data or numbers would come again. */
static bool comes_again(int code) {
  return code == DDP_USAGE || code == DDP_DATA || code == DDP_NUMERIC;
}

/* Ranks of the next round: as many as are left, if that is allowed and the job can be cut so. */
static int next_ranks(const Job *j) {
  int n = j->ranks - (j->lost > 0 ? j->lost : 1), least = j->fan->min_per_node;
  if (least >= j->ranks) return j->ranks;
  if (n < least) n = least;
  while (n >= least && hooks.fits && !hooks.fits(hooks.self, n, j->fan->per_node)) n--;
  return n >= least ? n : j->ranks;
}

static bool again(Job *j, int code) {
  const DdpFanOut *fan = j->fan;
  if (!fan->max_restarts || j->culprit < 0 || j->signal) return false;
  if (comes_again(code)) {
    ddp_log(DDP_LOG_error, "not restarted: it would end with exit code %d again", code);
    return false;
  }
  if (j->restarts == fan->max_restarts) {
    ddp_log(DDP_LOG_error, "not restarted: none is left (--max-restarts %d)", fan->max_restarts);
    return false;
  }
  int ranks = next_ranks(j);
  j->restarts++;
  ddp_log(DDP_LOG_warning, "restart %d of %d, with %d rank%s%s", j->restarts, fan->max_restarts,
          ranks, ranks == 1 ? "" : "s", ranks < j->ranks ? " (--min-nproc-per-node)" : "");
  j->ranks = ranks;
  return true;
}

static void round_begin(Job *j) {
  memset(j->children, 0, (size_t)j->fan->per_node * sizeof *j->children);
  snprintf(j->key, sizeof j->key, "own-%016llx", (unsigned long long)ddp_net_nonce());
  j->oom_kills = oom_kills();
  j->alive = j->lost = 0;
  j->group = 0;
  j->culprit = j->stopped = -1;
  j->failed_at = j->term_at = j->kill_at = 0;
  j->killed = false;
  fflush(NULL); /* or every rank would print what waits in the buffers */
}

/* true: this process is a rank. */
static bool round_start(Job *j, const sigset_t *old, DdpLaunch *out, DdpError **error) {
  static char key[sizeof j->key];
  pid_t parent = getpid();
  round_begin(j);
  for (int i = 0; i < j->ranks && !*error; i++) {
    if (start_rank(j, i, parent, old)) {
      memcpy(key, j->key, sizeof key);
      become_rank(j, i, key, out);
      return true;
    }
    if (!j->children[i].pid)
      *error =
          ddp_error(DDP_FAILED, "cannot start rank %d: %s", global_rank(j, i), strerror(errno));
  }
  if (*error) signal_all(j, SIGKILL);
  return false;
}

/* Signals that the parent takes instead of dying of them; what is ignored stays so. */
static int signals_open(sigset_t *old) {
  static const int numbers[] = {SIGCHLD, SIGINT,  SIGTERM, SIGHUP,
                                SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP};
  sigset_t watched;
  sigemptyset(&watched);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction inherited;
    sigaction(numbers[i], NULL, &inherited);
    if (inherited.sa_handler != SIG_IGN || numbers[i] == SIGCHLD) sigaddset(&watched, numbers[i]);
  }
  sigprocmask(SIG_BLOCK, &watched, old);
  return signalfd(-1, &watched, SFD_CLOEXEC);
}

DdpError *ddp_spawn(const DdpFanOut *fan, DdpLaunch *out, int *parent_exit) {
  sigset_t old;
  int signals = signals_open(&old);
  Job j = {.fan = fan, .ranks = fan->per_node};
  j.children = calloc((size_t)fan->per_node, sizeof *j.children);
  if (!j.children || signals < 0)
    return ddp_error(DDP_FAILED, "cannot start ranks: %s", strerror(errno));
  DdpError *error = NULL;
  *parent_exit = -1;
  if (fan->max_restarts && hooks.begin) hooks.begin(hooks.self);
  do {
    if (round_start(&j, &old, out, &error)) break;
    watch(&j, signals);
    if (!error) *parent_exit = exit_code(&j);
  } while (!error && again(&j, *parent_exit));
  close(signals);
  free(j.children);
  if (out->child) *parent_exit = -1;
  if (!out->child) sigprocmask(SIG_SETMASK, &old, NULL);
  return error;
}
