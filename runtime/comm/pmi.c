/* In: the launcher's descriptor, rank 0's text. Out: that text on every rank.
   Holds: a request is one line and has one line as its answer; answers are read by key, since hydra
   and Slurm order them differently; the client says goodbye, so that the launcher takes the end of
   the descriptor for no accident. */
#include "pmi.h"
#include "clock.h"
#include "log.h"
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 2048, NAME = 256 };
static const double progress_every = 10.0;
static const char key[] = "ddpc-ep";

typedef struct Pmi {
  int fd;
  double start, deadline, timeout;
  char buffer[LINE]; /* what has come, after the line that is being looked at */
  size_t filled;
} Pmi;

static DdpError *broken(const char *what, const char *why) {
  return ddp_error(DDP_PEER,
                   "rendezvous: the launcher's PMI (PMI_FD): %s: %s; set MASTER_ADDR and "
                   "MASTER_PORT to do without it",
                   what, why);
}

/* Waits for the descriptor. *late: the deadline has passed. */
static bool ready(Pmi *p, short events, bool *late) {
  double next = ddp_clock() + progress_every;
  for (;;) {
    double now = ddp_clock(), until = next < p->deadline ? next : p->deadline;
    struct pollfd q = {.fd = p->fd, .events = events};
    int n = poll(&q, 1, until > now ? (int)((until - now) * 1e3) + 1 : 0);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
    *late = ddp_clock() >= p->deadline;
    if (*late) return false;
    if (ddp_clock() < next) continue;
    ddp_log(DDP_LOG_info, "waiting for the other ranks in the launcher's barrier since %.0f s",
            ddp_clock() - p->start);
    next += progress_every;
  }
}

static DdpError *missing(const Pmi *p, const char *what) {
  return ddp_error(DDP_TIMEOUT,
                   "rendezvous: not all ranks came to the launcher's PMI within %g s "
                   "(ddp_timeout), or it does not answer (%s)",
                   p->timeout, what);
}

static DdpError *send_line(Pmi *p, const char *what, const char *line) {
  size_t n = strlen(line);
  while (n) {
    bool late = false;
    if (!ready(p, POLLOUT, &late)) return late ? missing(p, what) : broken(what, strerror(errno));
    ssize_t k = write(p->fd, line, n);
    if (k < 0 && errno != EINTR && errno != EAGAIN) return broken(what, strerror(errno));
    if (k > 0) line += k, n -= (size_t)k;
  }
  return NULL;
}

static DdpError *receive_line(Pmi *p, const char *what, char *out) {
  for (;;) {
    char *end = memchr(p->buffer, '\n', p->filled);
    if (end) {
      size_t n = (size_t)(end - p->buffer);
      memcpy(out, p->buffer, n);
      out[n] = 0;
      p->filled -= n + 1;
      memmove(p->buffer, end + 1, p->filled);
      return NULL;
    }
    if (p->filled == LINE) return broken(what, "its answer is too long");
    bool late = false;
    if (!ready(p, POLLIN, &late)) return late ? missing(p, what) : broken(what, strerror(errno));
    ssize_t k = read(p->fd, p->buffer + p->filled, LINE - p->filled);
    if (k == 0) return broken(what, "it hung up");
    if (k < 0 && errno != EINTR && errno != EAGAIN) return broken(what, strerror(errno));
    if (k > 0) p->filled += (size_t)k;
  }
}

/* Value of "name=" in "cmd=... name=value name=value"; false: not there. */
static bool field(const char *line, const char *name, char *out, size_t size) {
  size_t n = strlen(name);
  for (const char *s = line; s && *s; s = strchr(s, ' ') ? strchr(s, ' ') + 1 : NULL) {
    if (strncmp(s, name, n) != 0 || s[n] != '=') continue;
    size_t length = strcspn(s + n + 1, " ");
    if (length >= size) return false;
    memcpy(out, s + n + 1, length);
    out[length] = 0;
    return true;
  }
  return false;
}

/* One request; the answer must be the command `answer` without an error code. */
static DdpError *ask(Pmi *p, const char *what, const char *answer, char reply[LINE],
                     const char *format, ...) __attribute__((format(printf, 5, 6)));
static DdpError *ask(Pmi *p, const char *what, const char *answer, char reply[LINE],
                     const char *format, ...) {
  char line[LINE], command[NAME], code[NAME];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(line, sizeof line - 1, format, args);
  va_end(args);
  if (n < 0 || (size_t)n >= sizeof line - 1) return broken(what, "the request is too long");
  line[n] = '\n';
  line[n + 1] = 0;
  DDP_TRY(send_line(p, what, line));
  DDP_TRY(receive_line(p, what, reply));
  if (!field(reply, "cmd", command, sizeof command) || strcmp(command, answer) != 0 ||
      (field(reply, "rc", code, sizeof code) && strcmp(code, "0") != 0)) {
    char why[300];
    snprintf(why, sizeof why, "it answered \"%.200s\"", reply);
    return broken(what, why);
  }
  return NULL;
}

DdpError *ddp_pmi_share(int fd, int rank, char *text, size_t size, double deadline,
                        double timeout) {
  Pmi p = {.fd = fd, .start = ddp_clock(), .deadline = deadline, .timeout = timeout};
  char reply[LINE], space[NAME], most[NAME];
  DDP_TRY(ask(&p, "init", "response_to_init", reply, "cmd=init pmi_version=1 pmi_subversion=1"));
  DDP_TRY(ask(&p, "get_maxes", "maxes", reply, "cmd=get_maxes"));
  if (rank == 0 && field(reply, "vallen_max", most, sizeof most) &&
      strlen(text) >= strtoul(most, NULL, 10))
    return broken("put", "rank 0 has too many addresses");
  DDP_TRY(ask(&p, "get_my_kvsname", "my_kvsname", reply, "cmd=get_my_kvsname"));
  if (!field(reply, "kvsname", space, sizeof space))
    return broken("get_my_kvsname", "it gave no name");
  if (rank == 0)
    DDP_TRY(ask(&p, "put", "put_result", reply, "cmd=put kvsname=%s key=%s value=%s", space, key,
                text));
  DDP_TRY(ask(&p, "barrier", "barrier_out", reply, "cmd=barrier_in"));
  if (rank > 0) {
    DDP_TRY(ask(&p, "get", "get_result", reply, "cmd=get kvsname=%s key=%s", space, key));
    if (!field(reply, "value", text, size)) return broken("get", "rank 0 has left no address");
  }
  return ask(&p, "finalize", "finalize_ack", reply, "cmd=finalize");
}
