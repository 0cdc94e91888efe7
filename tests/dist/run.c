/* In: a command line. Out: what it printed, how it ended, how long it took. */
#include "run.h"
#include "clock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static const char *const launcher_prefixes[] = {"OMPI_", "PMIX_",       "PMI_",         "SLURM_",
                                                "PET_",  "ACCELERATE_", "TORCHELASTIC_"};
static const char *const launcher_names[] = {
    "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
extern char **environ;

static void forget_launchers(void) {
  for (size_t i = 0; i < sizeof launcher_names / sizeof *launcher_names; i++)
    unsetenv(launcher_names[i]);
  for (size_t i = 0; i < sizeof launcher_prefixes / sizeof *launcher_prefixes; i++) {
    size_t n = strlen(launcher_prefixes[i]);
    for (char **e = environ; *e;) {
      char name[256];
      snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
      if (strncmp(*e, launcher_prefixes[i], n) == 0 && unsetenv(name) == 0)
        e = environ;
      else
        e++;
    }
  }
}

static void become(const char *command, const char *const *environment) {
  char *argv[64], *copy = strdup(command), *save = NULL;
  int n = 0;
  forget_launchers();
  for (int i = 0; environment && environment[i]; i++) putenv((char *)(uintptr_t)environment[i]);
  for (char *w = strtok_r(copy, " ", &save); w && n < 63; w = strtok_r(NULL, " ", &save))
    argv[n++] = w;
  argv[n] = NULL;
  execvp(argv[0], argv);
  fprintf(stderr, "cannot run %s: %s\n", argv[0], strerror(errno));
  _exit(127);
}

Run run_start(const char *command, const char *const *environment) {
  int pipes[2];
  assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
  pid_t parent = getpid(), pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setpgid(0, 0);
    dup2(pipes[1], 1);
    dup2(pipes[1], 2);
    become(command, environment);
  }
  setpgid(pid, pid);
  close(pipes[1]);
  return (Run){.pid = pid, .output = pipes[0], .start = ddp_clock(), .text = calloc(1, 1)};
}

/* false: end of output. */
static bool read_some(Run *r, int wait) {
  struct pollfd p = {.fd = r->output, .events = POLLIN};
  if (poll(&p, 1, wait) <= 0) return true;
  char buffer[4096];
  ssize_t n = read(r->output, buffer, sizeof buffer);
  if (n <= 0) return false;
  r->text = realloc(r->text, r->size + (size_t)n + 1);
  memcpy(r->text + r->size, buffer, (size_t)n);
  r->size += (size_t)n;
  r->text[r->size] = 0;
  return true;
}

void run_until(Run *r, const char *text, int times, double limit) {
  double end = ddp_clock() + run_slack(limit);
  while (run_count(r, text) < times) {
    if (read_some(r, 20) && ddp_clock() < end) continue;
    kill(-r->pid, SIGKILL);
    fail_msg("\"%s\" does not come %d times:\n%s", text, times, r->text);
  }
}

void run_finish(Run *r, double limit) {
  double end = r->start + run_slack(limit);
  int status = 0;
  bool open = true, running = true, late = false;
  while ((running || open) && !late) {
    if (open) open = read_some(r, 20);
    if (running && waitpid(r->pid, &status, open ? WNOHANG : 0) == r->pid) {
      running = false;
      r->seconds = ddp_clock() - r->start;
    }
    late = ddp_clock() > end;
  }
  kill(-r->pid, SIGKILL);
  if (running) waitpid(r->pid, &status, 0);
  close(r->output);
  if (late)
    r->code = -1;
  else
    r->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (late) printf("reached its limit of %g s, output:\n%s\n", run_slack(limit), r->text);
}

Run run(const char *command, const char *const *environment, double limit) {
  Run r = run_start(command, environment);
  run_finish(&r, limit);
  return r;
}

void run_free(Run *r) {
  free(r->text);
  r->text = NULL;
}

int run_count(const Run *r, const char *text) {
  int n = 0;
  for (const char *p = r->text; (p = strstr(p, text)); p += strlen(text)) n++;
  return n;
}

void run_expect(const Run *r, const char *text, int times) {
  if (run_count(r, text) >= times) return;
  fail_msg("\"%s\" occurs %d times, not %d, in:\n%s", text, run_count(r, text), times, r->text);
}

void run_expect_code(const Run *r, int code) {
  if (r->code != code) fail_msg("exit code %d, not %d:\n%s", r->code, code, r->text);
}

int run_processes(const char *text) {
  int found = 0;
  DIR *d = opendir("/proc");
  struct dirent *e;
  while (d && (e = readdir(d))) {
    char path[300], line[4096];
    long pid = strtol(e->d_name, NULL, 10);
    if (pid <= 0 || pid == (long)getpid()) continue;
    snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : -1;
    if (fd >= 0) close(fd);
    for (ssize_t i = 0; i < n; i++) line[i] = line[i] ? line[i] : ' ';
    line[n > 0 ? n : 0] = 0;
    if (n > 0 && strstr(line, text)) found++;
  }
  if (d) closedir(d);
  return found;
}

void run_expect_gone(const char *text) {
  double end = ddp_clock() + run_slack(8);
  while (run_processes(text) > 0) {
    if (ddp_clock() > end) fail_msg("processes with \"%s\" are left", text);
    poll(NULL, 0, 5);
  }
}

bool run_installed(const char *program) {
  if (strchr(program, '/')) return access(program, X_OK) == 0;
  const char *path = getenv("PATH");
  char copy[8192], full[8448], *save = NULL;
  snprintf(copy, sizeof copy, "%s", path ? path : "");
  for (char *p = strtok_r(copy, ":", &save); p; p = strtok_r(NULL, ":", &save)) {
    snprintf(full, sizeof full, "%s/%s", p, program);
    if (access(full, X_OK) == 0) return true;
  }
  return false;
}

double run_slack(double seconds) {
  const char *slowness = getenv("DDP_TEST_SLOWNESS");
  return slowness ? seconds * atof(slowness) : seconds;
}
