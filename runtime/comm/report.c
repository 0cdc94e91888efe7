/* In: why this rank ends. Out: torchrun's error file and Kubernetes' termination message.
   Holds: the error file is whole or absent (a broken one crashes torchrun), and a rank that ends
   because of another one never has the earlier stamp, or torchrun would blame it. */
#include "launch.h"
#include "clock.h"
#include "env.h"
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double victim_wait = 3.0; /* for the launcher's SIGTERM */

/* Bytes of the UTF-8 character at s, 0: none. Names of files may be any bytes; a reader of JSON
   stops at one that is no character. */
static size_t character(const unsigned char *s) {
  size_t n = s[0] < 0x80   ? 1
             : s[0] < 0xC2 ? 0
             : s[0] < 0xE0 ? 2
             : s[0] < 0xF0 ? 3
             : s[0] < 0xF5 ? 4
                           : 0;
  for (size_t i = 1; i < n; i++) {
    if ((s[i] & 0xC0) != 0x80) return 0;
  }
  bool too_long = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
  bool no_character = (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF4 && s[1] > 0x8F);
  return too_long || no_character ? 0 : n;
}

static void json_text(FILE *f, const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  fputc('"', f);
  while (*s) {
    size_t n = character(s);
    if (*s == '"' || *s == '\\')
      fprintf(f, "\\%c", *s);
    else if (*s == '\n')
      fputs("\\n", f);
    else if (*s < 0x20)
      fprintf(f, "\\u%04x", *s);
    else if (n)
      fwrite(s, 1, n, f);
    else
      fputc('?', f);
    s += n ? n : 1;
  }
  fputc('"', f);
}

static void error_file(const char *path, const char *message, long stamp) {
  char temporary[4096];
  int n = snprintf(temporary, sizeof temporary, "%s.tmp%d", path, (int)getpid());
  if (n < 0 || (size_t)n >= sizeof temporary) return;
  FILE *f = fopen(temporary, "we");
  if (!f) return;
  fputs("{\"message\": {\"message\": ", f);
  json_text(f, message);
  fputs(", \"extraInfo\": {\"py_callstack\": ", f);
  json_text(f, message);
  fprintf(f, ", \"timestamp\": \"%ld\"}}}\n", stamp);
  bool good = !ferror(f);
  good = fclose(f) == 0 && good;
  if (!good || rename(temporary, path)) unlink(temporary);
}

/* Kubernetes makes the file; where there is none, nobody reads one. */
static void termination_log(const char *message) {
  int fd = open(ddp_env(DDP_ENV_DDP_TERMINATION_LOG), O_WRONLY | O_CLOEXEC | O_APPEND);
  if (fd < 0) return;
  dprintf(fd, "%s\n", message);
  close(fd);
}

/* torchrun ends the others within a tenth of a second; dying of its signal shows that we are a
   victim. On another host than the failing rank nothing comes, so do not wait for long. */
static void wait_for_term(void) {
  sigset_t term;
  signal(SIGTERM, SIG_DFL);
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_UNBLOCK, &term, NULL);
  double end = ddp_clock() + victim_wait;
  while (ddp_clock() < end) {
    struct timespec t = {.tv_nsec = 20000000};
    nanosleep(&t, NULL);
  }
}

void ddp_launch_report(const DdpLaunch *l, const DdpError *e) {
  const char *path = getenv("TORCHELASTIC_ERROR_FILE");
  bool victim = e->rank >= 0 && e->rank != l->rank;
  termination_log(e->message);
  if (l->child || !path || !*path) return;
  /* A rank that timed out (another is stopped) ends first: nobody's failure is under way. */
  if (victim && e->klass == DDP_PEER) wait_for_term();
  error_file(path, e->message, (long)time(NULL) + (victim ? 1 : 0));
}

/* ---------- a crash ---------- */

static struct {
  const char *termination_log;
  char path[4096], temporary[4096]; /* empty: no launcher wants an error file */
} crash;

void ddp_launch_crash_ready(const DdpLaunch *l) {
  const char *path = getenv("TORCHELASTIC_ERROR_FILE");
  crash.termination_log = ddp_env(DDP_ENV_DDP_TERMINATION_LOG);
  if (l->child || !path || !*path) return;
  int n = snprintf(crash.temporary, sizeof crash.temporary, "%s.tmp%d", path, (int)getpid());
  if (n > 0 && (size_t)n < sizeof crash.temporary)
    snprintf(crash.path, sizeof crash.path, "%s", path);
}

static bool put(int fd, const char *text) {
  size_t n = strlen(text);
  return write(fd, text, n) == (ssize_t)n;
}

static const char *decimal(time_t v, char text[24]) {
  int n = 23;
  text[n] = 0;
  do text[--n] = (char)('0' + v % 10);
  while (v /= 10);
  return text + n;
}

void ddp_launch_crash(const char *message) {
  char stamp[24];
  int fd =
      crash.termination_log ? open(crash.termination_log, O_WRONLY | O_CLOEXEC | O_APPEND) : -1;
  if (fd >= 0) {
    bool said = put(fd, message) && put(fd, "\n");
    (void)said; /* nobody is left to be told */
    close(fd);
  }
  if (!crash.path[0]) return;
  fd = open(crash.temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return;
  bool good = put(fd, "{\"message\": {\"message\": \"") && put(fd, message) &&
              put(fd, "\", \"extraInfo\": {\"py_callstack\": \"") && put(fd, message) &&
              put(fd, "\", \"timestamp\": \"") && put(fd, decimal(time(NULL), stamp)) &&
              put(fd, "\"}}}\n");
  good = close(fd) == 0 && good;
  if (!good || rename(crash.temporary, crash.path)) unlink(crash.temporary);
}
