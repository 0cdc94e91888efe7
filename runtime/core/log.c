/* Messages on stderr. In: level and text. Out: whole lines, with the rank in front and a progress
   line erased and redrawn around them. */
#include "log.h"
#include "env.h"
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char prefix[32];
static char progress[256];
static int level = -1;

static atomic_bool hurry;

void ddp_log_hurry(void) {
  atomic_store(&hurry, true);
}

bool ddp_log_ready(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLOUT};
  int n;
  while ((n = poll(&p, 1, 100)) == 0 && !atomic_load(&hurry)) {
  }
  return n != 0;
}

static void write_all(const char *text, size_t n) {
  while (n > 0 && ddp_log_ready(STDERR_FILENO)) {
    ssize_t k = write(STDERR_FILENO, text, n);
    if (k <= 0) return; /* nobody reads: nothing better to do */
    text += k;
    n -= (size_t)k;
  }
}

void ddp_log_rank(int rank, int world) {
  pthread_mutex_lock(&lock);
  if (world > 1)
    snprintf(prefix, sizeof prefix, "[rank %d] ", rank);
  else
    prefix[0] = 0;
  pthread_mutex_unlock(&lock);
}

DdpLogLevel ddp_log_level(void) {
  static const char *const names[] = {"debug", "info", "warning", "error"};
  if (level < 0) {
    level = DDP_LOG_info;
    const char *text = ddp_env(DDP_ENV_DDP_LOG);
    for (int i = 0; i < 4; i++) {
      if (strcmp(text, names[i]) == 0) level = i;
    }
  }
  return (DdpLogLevel)level;
}

void ddp_log_set_level(DdpLogLevel lowest) {
  pthread_mutex_lock(&lock);
  level = (int)lowest;
  pthread_mutex_unlock(&lock);
}

/* Every line of a message gets the prefix, so that grep for a rank finds all of it. */
static char *prefixed(const char *head, const char *message, size_t *length) {
  size_t lines = 1, n = strlen(message);
  for (const char *p = message; *p; p++) lines += *p == '\n';
  char *out = malloc(n + lines * (strlen(prefix) + strlen(head) + 1) + strlen(progress) + 32);
  if (!out) return NULL;
  char *w = out;
  if (progress[0]) w += sprintf(w, "\r\033[K");
  for (const char *line = message; line; head = "") {
    const char *end = strchr(line, '\n');
    int k = end ? (int)(end - line) : (int)strlen(line);
    w += sprintf(w, "%s%s%.*s\n", prefix, head, k, line);
    line = end && end[1] ? end + 1 : NULL;
  }
  if (progress[0]) w += sprintf(w, "%s", progress);
  *length = (size_t)(w - out);
  return out;
}

void ddp_log(DdpLogLevel at, const char *format, ...) {
  static const char *const heads[] = {"debug: ", "", "warning: ", "error: ", ""};
  if (at < ddp_log_level()) return;
  va_list args;
  va_start(args, format);
  char *message = NULL;
  int n = vasprintf(&message, format, args);
  va_end(args);
  if (n < 0) return;
  pthread_mutex_lock(&lock);
  size_t length = 0;
  char *text = prefixed(heads[at], message, &length);
  if (text) write_all(text, length);
  pthread_mutex_unlock(&lock);
  free(text);
  free(message);
}

void ddp_log_progress(const char *line) {
  char text[sizeof progress + 8];
  pthread_mutex_lock(&lock);
  bool had = progress[0] != 0;
  snprintf(progress, sizeof progress, "%s", line);
  if (had || progress[0]) {
    int n = snprintf(text, sizeof text, "\r\033[K%s", progress);
    write_all(text, (size_t)n);
  }
  pthread_mutex_unlock(&lock);
}
