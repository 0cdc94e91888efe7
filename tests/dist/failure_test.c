/* What happens to the others when a rank dies, fails, stops or hangs: they end in time, say which
   rank and which operation, and leave nothing. */
#include "run.h"
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>
#include <cmocka.h>

enum { LIMIT = 30, TIMEOUT = 2 };

/* A /dev/shm of our own, where all that is found is ours: names of other programs come and go. Without the right
   to have one nothing is looked for. */
static bool alone;

static int enter(void **state) {
  (void)state;
  alone = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
          mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") == 0;
  if (!alone) printf("no mount namespaces here: /dev/shm is not looked at\n");
  return 0;
}

static void expect_nothing_shared(void) {
  DIR *d = alone ? opendir("/dev/shm") : NULL;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] != '.') fail_msg("/dev/shm/%s is left", e->d_name);
  }
  if (d) closedir(d);
}

static Run job(int ranks, const char *arguments) {
  char command[512];
  snprintf(command, sizeof command, "%s --nproc-per-node %d do=loop %s", DIST_RANK, ranks,
           arguments);
  Run r = run(command, NULL, LIMIT);
  expect_nothing_shared();
  run_expect_gone(arguments + strspn(arguments, " "));
  return r;
}

static const char *const backends[] = {
    "",
#if DDP_TEST_GLOO
    "backend=gloo",
#endif
};
enum { BACKENDS = sizeof backends / sizeof *backends };

static void test_killed(void **state) {
  (void)state;
  for (size_t b = 0; b < BACKENDS; b++) {
    for (int victim = 0; victim < 4; victim++) {
      char arguments[128], lost[64], killed[64];
      snprintf(arguments, sizeof arguments, "%s kill=%d@5 timeout=60", backends[b], victim);
      snprintf(lost, sizeof lost, "lost rank %d", victim);
      snprintf(killed, sizeof killed, "rank %d was killed by signal 9", victim);
      Run r = job(4, arguments);
      run_expect_code(&r, 128 + SIGKILL);
      run_expect(&r, lost, 3);
      run_expect(&r, killed, 1);
      assert_true(r.seconds < run_slack(5));
      run_free(&r);
    }
  }
}

static void test_failed(void **state) {
  (void)state;
  for (size_t b = 0; b < BACKENDS; b++) {
    for (int culprit = 0; culprit < 3; culprit++) {
      char arguments[128], lost[96];
      snprintf(arguments, sizeof arguments, "%s fail=%d@3 timeout=60", backends[b], culprit);
      snprintf(lost, sizeof lost, "lost rank %d: loss is nan at update 3", culprit);
      Run r = job(3, arguments);
      run_expect_code(&r, 8);
      run_expect(&r, lost, 2);
      assert_true(r.seconds < run_slack(5));
      run_free(&r);
    }
  }
}

/* In time: not before the timeout, and soon after it. */
static void expect_timeout(const Run *r, int rank, const char *how) {
  char late[96];
  snprintf(late, sizeof late, "update 5: all-reduce of bucket 0: rank %d did not arrive within",
           rank);
  run_expect_code(r, 5);
  run_expect(r, late, 2);
  run_expect(r, how, 2);
  if (r->seconds < TIMEOUT || r->seconds > TIMEOUT + run_slack(3))
    fail_msg("took %.1f s", r->seconds);
}

static void test_stopped(void **state) {
  (void)state;
  for (size_t b = 0; b < BACKENDS; b++) {
    for (int victim = 0; victim < 3; victim++) {
      char arguments[128];
      snprintf(arguments, sizeof arguments, "%s stop=%d@5 timeout=%d", backends[b], victim,
               TIMEOUT);
      Run r = job(3, arguments);
      expect_timeout(&r, victim, "it is stopped");
      run_free(&r);
    }
  }
}

static void test_hanging(void **state) {
  (void)state;
  char arguments[128];
  snprintf(arguments, sizeof arguments, "hang=1@5 timeout=%d", TIMEOUT);
  Run r = job(3, arguments);
  expect_timeout(&r, 1, "it is alive, in phase \"forward\" of update 5");
  run_free(&r);
}

/* Two ranks are missing for two reasons: both are named. */
static void test_two_absent(void **state) {
  (void)state;
  char arguments[128];
  snprintf(arguments, sizeof arguments, "stop=2@5 hang=1@5 timeout=%d", TIMEOUT);
  Run r = job(4, arguments);
  expect_timeout(&r, 2, "it is stopped");
  run_expect(&r, "; neither did rank 1", 1);
  run_free(&r);
}

/* A rank that is known to save may take longer than the timeout. */
static void test_saving(void **state) {
  (void)state;
  for (size_t b = 0; b < BACKENDS; b++) {
    char arguments[128];
    snprintf(arguments, sizeof arguments, "%s slow=0@5 timeout=1.5", backends[b]);
    Run r = job(3, arguments);
    run_expect_code(&r, 0);
    run_expect(&r, "loop done", 3);
    run_free(&r);
  }
}

/* Another rank dies while rank 0 saves: what is saved becomes complete, then rank 0 ends. */
static void test_lost_while_saving(void **state) {
  (void)state;
  char rank[2][16], port[32];
  Run ranks[2];
  snprintf(port, sizeof port, "MASTER_PORT=%d", 20000 + (int)getpid() % 10000);
  for (int i = 0; i < 2; i++) {
    snprintf(rank[i], sizeof rank[i], "RANK=%d", i);
    const char *environment[] = {rank[i], "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", port, NULL};
    ranks[i] = run_start(DIST_RANK " do=loop slow=0@5 save=4.5 lost=1@5 timeout=20", environment);
  }
  for (int i = 0; i < 2; i++) run_finish(&ranks[i], LIMIT);
  run_expect_code(&ranks[1], 128 + SIGKILL);
  run_expect(&ranks[0], "saved", 1);
  run_expect(&ranks[0], "lost rank 1", 1);
  run_expect_code(&ranks[0], 4);
  for (int i = 0; i < 2; i++) run_free(&ranks[i]);
}

static void test_other_program(void **state) {
  (void)state;
  for (int odd = 1; odd < 3; odd++) {
    char arguments[128], text[128];
    snprintf(arguments, sizeof arguments, "text=%d:learning_rate=0.2 timeout=60", odd);
    snprintf(text, sizeof text,
             "rank %d runs another program: learning_rate is 0.2 on rank %d and 0.1 on rank 0", odd,
             odd);
    Run r = job(3, arguments);
    run_expect_code(&r, 4);
    run_expect(&r, text, 3);
    assert_true(r.seconds < run_slack(5));
    run_free(&r);
  }
}

/* Signals to the launcher reach the ranks; its death ends them. */
static void test_launcher_signals(void **state) {
  (void)state;
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    char command[256];
    snprintf(command, sizeof command, "%s --nproc-per-node 3 do=loop hang=1@2 timeout=5%zu",
             DIST_RANK, i);
    Run r = run_start(command, NULL);
    run_until(&r, "by own launcher", 3, LIMIT);
    kill(r.pid, signals[i]);
    run_finish(&r, LIMIT);
    if (r.code == 0 || r.code == -1) fail_msg("signal %d: code %d", signals[i], r.code);
    assert_true(r.seconds < run_slack(10));
    run_expect_gone(strstr(command, "do=loop"));
    run_free(&r);
  }
}

/* Long before ddp_timeout it is told that a rank is not heard of, and when it is again. */
static void test_silence_is_told(void **state) {
  (void)state;
  Run r = run_start(
      DIST_RANK " --nproc-per-node 3 do=loop stop=2@5 updates=100000000 size=200 timeout=40", NULL);
  run_until(&r, "rank 2 (pid ", 1, LIMIT);
  run_until(&r, "has not been heard of for 10 s: it is stopped; after 40 s the job ends", 1, LIMIT);
  kill(atoi(strstr(r.text, "rank 2 (pid ") + strlen("rank 2 (pid ")), SIGCONT);
  run_until(&r, "rank 2 is heard of again", 1, LIMIT);
  kill(r.pid, SIGTERM);
  run_finish(&r, LIMIT);
  run_free(&r);
}

/* Ctrl-Z for longer than ddp_timeout, then fg: nobody takes the others for stopped. */
static void test_job_stopped(void **state) {
  (void)state;
  for (int b = 0; b < BACKENDS; b++) {
    char command[256];
    snprintf(command, sizeof command,
             DIST_RANK " --nproc-per-node 3 do=loop updates=100000000 size=200 timeout=2 %s",
             backends[b]);
    Run r = run_start(command, NULL);
    run_until(&r, "training", 3, LIMIT); /* while opening, a stop counts */
    for (int i = 0; i < 3; i++) {
      kill(r.pid, SIGTSTP);
      poll(NULL, 0, 2700); /* this is the length of the stop */
      kill(r.pid, SIGCONT);
      poll(NULL, 0, 300); /* so much of running between */
    }
    kill(r.pid, SIGTERM);
    run_finish(&r, LIMIT);
    if (run_count(&r, "did not arrive") || run_count(&r, "heard of")) fail_msg("%s", r.text);
    run_free(&r);
  }
}

/* A rank waits for a late one asleep: on a blocking thread over Gloo, in the kernel over shared memory. */
static void test_waiting_costs_nothing(void **state) {
  (void)state;
  for (int b = 0; b < BACKENDS; b++) {
    char command[256];
    snprintf(command, sizeof command,
             DIST_RANK " --nproc-per-node 3 do=loop late=1@5 save=2 timeout=20 %s", backends[b]);
    Run r = run(command, NULL, LIMIT);
    run_expect_code(&r, 0);
    run_expect(&r, "waited with ", 2);
    for (const char *p = r.text; (p = strstr(p, "waited with ")); p++) {
      double seconds = atof(p + strlen("waited with "));
      if (seconds > 0.1) fail_msg("2 s of waiting took %g s of CPU%s", seconds, backends[b]);
    }
    run_free(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_killed),
      cmocka_unit_test(test_failed),
      cmocka_unit_test(test_stopped),
      cmocka_unit_test(test_hanging),
      cmocka_unit_test(test_two_absent),
      cmocka_unit_test(test_saving),
      cmocka_unit_test(test_lost_while_saving),
      cmocka_unit_test(test_other_program),
      cmocka_unit_test(test_launcher_signals),
      cmocka_unit_test(test_silence_is_told),
      cmocka_unit_test(test_job_stopped),
      cmocka_unit_test(test_waiting_costs_nothing),
  };
  return cmocka_run_group_tests(tests, enter, NULL);
}
