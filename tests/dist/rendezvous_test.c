/* Ranks that meet, or cannot: missing, twice, for another world, old entries in torchrun's store,
   a foreign server at rank 0's address. */
#include "run.h"
#include "store_server.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "net.h"

enum { LIMIT = 30, TEXTS = 10, TEXT = 96 };

typedef struct Environment {
  char texts[TEXTS][TEXT];
  const char *list[TEXTS + 1];
  int n;
} Environment;

static void add(Environment *e, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(e->texts[e->n], TEXT, format, args);
  va_end(args);
  e->list[e->n] = e->texts[e->n];
  e->list[++e->n] = NULL;
}

static Run rank_of(int number, int world, int port, const char *arguments, const char *extra,
                   const char *more) {
  Environment e = {.n = 0};
  char command[512];
  add(&e, "RANK=%d", number);
  add(&e, "WORLD_SIZE=%d", world);
  add(&e, "LOCAL_RANK=%d", number);
  add(&e, "LOCAL_WORLD_SIZE=%d", world);
  add(&e, "MASTER_ADDR=127.0.0.1");
  add(&e, "MASTER_PORT=%d", port);
  if (extra) add(&e, "%s", extra);
  if (more) add(&e, "%s", more);
  snprintf(command, sizeof command, "%s %s", DIST_RANK, arguments);
  return run_start(command, e.list);
}

/* extra: the id of a run of torchrun, whose agent keeps the store. */
static Run rank(int number, int world, int port, const char *arguments, const char *extra) {
  return rank_of(number, world, port, arguments, extra,
                 extra ? "TORCHELASTIC_USE_AGENT_STORE=True" : NULL);
}

/* Free a moment ago: nobody else on the machine asks for this one. */
static int free_port(void) {
  int port, fd = ddp_net_listen("127.0.0.1", 0, &port);
  assert_true(fd >= 0);
  close(fd);
  return port;
}

static void expect(Run *r, int code, const char *text) {
  run_finish(r, LIMIT);
  run_expect_code(r, code);
  run_expect(r, text, 1);
  run_free(r);
}

static void test_address(void **state) {
  (void)state;
  int port = free_port();
  Run r[3];
  for (int k = 2; k >= 0; k--) r[k] = rank(k, 3, port, "do=reduce", NULL);
  for (int k = 0; k < 3; k++) expect(&r[k], 0, "path shared memory");
}

static void test_missing(void **state) {
  (void)state;
  int port = free_port();
  Run a = rank(0, 4, port, "timeout=1.5", NULL), b = rank(2, 4, port, "timeout=1.5", NULL);
  static const char text[] =
      "rank 1, 3 did not come within 1.5 s (ddp_timeout); 2 of 4 ranks are here";
  run_finish(&b, LIMIT);
  run_expect(&b, text, 1);
  run_expect_code(&b, 5);
  assert_true(b.seconds >= 1.4 && b.seconds < run_slack(5));
  run_free(&b);
  expect(&a, 5, text);
}

static void test_missing_rank_0(void **state) {
  (void)state;
  int port = free_port();
  Run a = rank(1, 2, port, "timeout=1.5", NULL);
  run_finish(&a, LIMIT);
  run_expect(&a, "rank 0 was not found at 127.0.0.1:", 1);
  run_expect(&a, "within 1.5 s (ddp_timeout): Connection refused", 1);
  run_expect_code(&a, 5);
  assert_true(a.seconds >= 1.4 && a.seconds < run_slack(4));
  run_free(&a);
}

static void test_duplicate(void **state) {
  (void)state;
  int port = free_port();
  Run a = rank(0, 3, port, "timeout=20", NULL), b = rank(1, 3, port, "timeout=20", NULL);
  Run c = rank(1, 3, port, "timeout=20", NULL);
  expect(&a, 4, "two processes are rank 1");
  expect(&b, 4, "two processes are rank 1");
  expect(&c, 4, "two processes are rank 1");
}

static void test_other_world(void **state) {
  (void)state;
  int port = free_port();
  Run a = rank(0, 3, port, "timeout=20", NULL), b = rank(1, 2, port, "timeout=20", NULL);
  expect(&a, 4, "rank 1 was started for 2 ranks, rank 0 for 3");
  expect(&b, 4, "rank 1 was started for 2 ranks, rank 0 for 3");
}

static void test_port_taken(void **state) {
  (void)state;
  int port, listener = silent_server_start(&port);
  char text[128];
  snprintf(text, sizeof text,
           "MASTER_PORT %d is taken by another program (dist_rendezvous, pid %d)", port,
           (int)getpid());
  Run a = rank(0, 2, port, "timeout=25", NULL), b = rank(1, 2, port, "timeout=25", NULL);
  run_finish(&a, LIMIT);
  run_expect(&a, text, 1);
  run_expect_code(&a, 2);
  assert_true(a.seconds < run_slack(10)); /* not the timeout */
  run_free(&a);
  expect(&b, 4, "a program that is not rank 0 of a ddp job listens at 127.0.0.1:");
  close(listener);
}

/* Rank 1 meets what an earlier round left in the store, again and again, until rank 0 has written
   anew. */
static void stale(bool legacy, bool somebody_there) {
  int port, old_port = free_port(), old = -1;
  char value[128];
  StoreServer *s = store_server_start(legacy, &port);
  if (somebody_there) old = silent_server_start(&old_port);
  snprintf(value, sizeof value, "%016x,%d,127.0.0.1,127.0.0.1", 0x1234, old_port);
  store_server_set(s, "/ddpc/round/ep", value);
  Run b = rank(1, 2, port, "do=reduce", "TORCHELASTIC_RUN_ID=round");
  store_server_await_checks(s, somebody_there ? 1 : 4);
  Run a = rank(0, 2, port, "do=reduce", "TORCHELASTIC_RUN_ID=round");
  expect(&a, 0, "path shared memory");
  expect(&b, 0, "path shared memory");
  if (old >= 0) close(old);
  store_server_stop(s);
}

static void test_stale(void **state) {
  (void)state;
  stale(false, false);
  stale(true, false);
  stale(false, true);
}

static void test_no_store(void **state) {
  (void)state;
  int port, listener = silent_server_start(&port);
  Run a = rank(0, 2, port, "timeout=2", "TORCHELASTIC_RUN_ID=x");
  expect(&a, 5, "no store answers there");
  close(listener);
}

/* Some torchrun sets no TORCHELASTIC_USE_AGENT_STORE: whoever finds the port taken asks whether by its
   store, and only then. */
static void test_unnamed_store(void **state) {
  (void)state;
  int port;
  StoreServer *s = store_server_start(false, &port);
  Run b = rank_of(1, 2, port, "do=reduce", "TORCHELASTIC_RUN_ID=x", NULL);
  Run a = rank_of(0, 2, port, "do=reduce", "TORCHELASTIC_RUN_ID=x", NULL);
  expect(&a, 0, "path shared memory");
  expect(&b, 0, "path shared memory");
  store_server_stop(s);
}

/* Rank 0 of another job waits where this job's is expected: neither is disturbed. */
static void test_other_job(void **state) {
  (void)state;
  static const char nobody[] = "TORCHELASTIC_USE_AGENT_STORE=False";
  int port = free_port();
  Run a = rank_of(0, 2, port, "do=reduce", "TORCHELASTIC_RUN_ID=x", nobody);
  Run b = rank_of(1, 2, port, "timeout=25", "TORCHELASTIC_RUN_ID=y", nobody);
  expect(&b, 4, "rank 0 of another job listens at 127.0.0.1:");
  Run c = rank_of(0, 2, port, "timeout=25", "TORCHELASTIC_RUN_ID=y", nobody);
  expect(&c, 2, "is taken by another program (dist_rank, pid");
  Run d = rank_of(1, 2, port, "do=reduce", "TORCHELASTIC_RUN_ID=x", nobody);
  expect(&a, 0, "path shared memory");
  expect(&d, 0, "path shared memory");
}

/* Two jobs of our own launcher at once share nothing. */
static void test_two_jobs(void **state) {
  (void)state;
  char command[256];
  snprintf(command, sizeof command, "%s --nproc-per-node 2 do=reduce", DIST_RANK);
  Run a = run_start(command, NULL), b = run_start(command, NULL);
  expect(&a, 0, "path shared memory");
  expect(&b, 0, "path shared memory");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_address),        cmocka_unit_test(test_missing),
      cmocka_unit_test(test_missing_rank_0), cmocka_unit_test(test_duplicate),
      cmocka_unit_test(test_other_world),    cmocka_unit_test(test_port_taken),
      cmocka_unit_test(test_stale),          cmocka_unit_test(test_no_store),
      cmocka_unit_test(test_unnamed_store),  cmocka_unit_test(test_other_job),
      cmocka_unit_test(test_two_jobs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
