/* The PMI-1 client against a server that answers as hydra does and one that answers as Slurm does,
   and against servers that fail, hang up or wait for ever. */
#include "pmi.h"
#include "clock.h"
#include "run.h"
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

enum { LINES = 7, LINE = 2048 };

/* What comes in, and what goes out for it; NULL out: nothing, hang up for "". A cut in the middle:
   '|' in an answer. */
typedef struct Exchange {
  const char *in, *out;
} Exchange;

typedef struct Server {
  int fd;
  const Exchange *exchanges;
  char wrong[LINE];
} Server;

static bool take_line(int fd, char *out) {
  size_t n = 0;
  while (n + 1 < LINE && read(fd, out + n, 1) == 1) {
    if (out[n] == '\n') {
      out[n] = 0;
      return true;
    }
    n++;
  }
  out[n] = 0;
  return false;
}

static void give(int fd, const char *text) {
  size_t first = strcspn(text, "|");
  if (write(fd, text, first) < 0) return;
  if (text[first] && write(fd, text + first + 1, strlen(text + first + 1)) < 0) return;
}

static void *serve(void *argument) {
  Server *s = argument;
  char line[LINE];
  for (const Exchange *x = s->exchanges; x->in; x++) {
    if (!take_line(s->fd, line)) break;
    if (strcmp(line, x->in) != 0) {
      snprintf(s->wrong, sizeof s->wrong, "%s", line);
      break;
    }
    if (!x->out) { /* answers nothing, but stays */
      take_line(s->fd, line);
      break;
    }
    if (!*x->out) break;
    give(s->fd, x->out);
  }
  close(s->fd);
  return NULL;
}

/* rank 0 gives `text`, the others receive into it. */
static DdpError *share(const Exchange *exchanges, int rank, char *text, double wait) {
  int ends[2];
  pthread_t thread;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  Server s = {.fd = ends[1], .exchanges = exchanges};
  assert_int_equal(pthread_create(&thread, NULL, serve, &s), 0);
  DdpError *e = ddp_pmi_share(ends[0], rank, text, 1024, ddp_clock() + wait, wait);
  close(ends[0]);
  pthread_join(thread, NULL);
  if (s.wrong[0]) fail_msg("the server did not expect \"%s\"", s.wrong);
  return e;
}

#define INIT "cmd=init pmi_version=1 pmi_subversion=1"
#define PUT  "cmd=put kvsname=kvs_1 key=ddpc-ep value=0123,45,10.0.0.1,fd00::1"
#define GET  "cmd=get kvsname=kvs_1 key=ddpc-ep"

static const Exchange hydra_0[] = {
    {INIT, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
    {"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"},
    {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_1\n"},
    {PUT, "cmd=put_result rc=0 msg=success\n"},
    {"cmd=barrier_in", "cmd=barrier_out\n"},
    {"cmd=finalize", "cmd=finalize_ack\n"},
    {NULL, NULL}};
static const Exchange hydra_1[] = {
    {INIT, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
    {"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"},
    {"cmd=get_my_kvsname", "cmd=my_kvs|name kvsname=kvs_1\n"},
    {"cmd=barrier_in", "cmd=barrier_out\n"},
    {GET, "cmd=get_result rc=0 msg=success value=0123,45,10.0.0.1,fd00::1\n"},
    {"cmd=finalize", "cmd=finalize_ack\n"},
    {NULL, NULL}};
static const Exchange slurm_1[] = {
    {INIT, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"},
    {"cmd=get_maxes", "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n"},
    {"cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=kvs_1\n"},
    {"cmd=barrier_in", "cmd=barrier_out rc=0\n"},
    {GET, "cmd=get_result value=0123,45,10.0.0.1,fd00::1 rc=|0\n"},
    {"cmd=finalize", "cmd=finalize_ack rc=0\n"},
    {NULL, NULL}};

static void test_dialects(void **state) {
  (void)state;
  static const Exchange *const others[] = {hydra_1, slurm_1};
  char text[1024] = "0123,45,10.0.0.1,fd00::1";
  assert_null(share(hydra_0, 0, text, 5));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    text[0] = 0;
    assert_null(share(others[i], 1, text, 5));
    assert_string_equal(text, "0123,45,10.0.0.1,fd00::1");
  }
}

static void expect(const Exchange *exchanges, DdpClass klass, const char *part) {
  char text[1024] = "";
  double start = ddp_clock();
  DdpError *e = share(exchanges, 1, text, 0.5);
  if (!e || e->klass != klass || !strstr(e->message, part) || ddp_clock() - start > 3)
    fail_msg("after %g s: %s", ddp_clock() - start, e ? e->message : "no error");
  ddp_error_free(e);
}

static void test_faults(void **state) {
  (void)state;
  Exchange x[LINES];
  static const struct {
    int at; /* of hydra_1 */
    const char *answer;
    DdpClass klass;
    const char *part;
  } cases[] = {
      {0, "", DDP_PEER, "init: it hung up"},
      {0, NULL, DDP_TIMEOUT, "within 0.5 s (ddp_timeout)"},
      {0, "cmd=response_to_init rc=-1\n", DDP_PEER, "init: it answered \"cmd=response_to_init"},
      {2, "cmd=my_kvsname rc=0\n", DDP_PEER, "it gave no name"},
      {3, NULL, DDP_TIMEOUT, "not all ranks came"},
      {3, "", DDP_PEER, "barrier: it hung up"},
      {4, "cmd=get_result rc=-1 msg=key_ddpc-ep_not_found value=unknown\n", DDP_PEER, "get"},
      {4, "cmd=get_result rc=0\n", DDP_PEER, "rank 0 has left no address"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    memcpy(x, hydra_1, sizeof x);
    x[cases[i].at].out = cases[i].answer;
    if (!cases[i].answer || !*cases[i].answer || cases[i].klass == DDP_PEER)
      x[cases[i].at + 1].in = NULL;
    expect(x, cases[i].klass, cases[i].part);
  }
}

/* Rank 0 has more to say than the launcher keeps. */
static void test_too_long(void **state) {
  (void)state;
  static const Exchange x[] = {
      {INIT, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
      {"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=16\n"},
      {NULL, NULL}};
  char text[1024] = "0123,45,10.0.0.1,fd00::1";
  DdpError *e = share(x, 0, text, 5);
  assert_non_null(e);
  assert_non_null(strstr(e->message, "too many addresses"));
  ddp_error_free(e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dialects),
      cmocka_unit_test(test_faults),
      cmocka_unit_test(test_too_long),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
