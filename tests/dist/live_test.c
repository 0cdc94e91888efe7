/* The launchers themselves, where they are installed: torchrun in its ways of starting, Open
   MPI. */
#include "run.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { LIMIT = 60 };

static void torchrun(const char *flags, const char *const *environment) {
  char command[512];
  snprintf(command, sizeof command, "%s --no-python %s --nproc-per-node 2 %s do=reduce",
           DDP_TORCHRUN, flags, DIST_RANK);
  Run r = run(command, environment, LIMIT);
  run_expect_code(&r, 0);
  run_expect(&r, "by torchrun path shared memory", 2);
  run_free(&r);
}

static void test_torchrun(void **state) {
  (void)state;
  if (!run_installed(DDP_TORCHRUN)) skip();
  static const char *const no_share[] = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", NULL};
  torchrun("", NULL);
  torchrun("--standalone", NULL);
  torchrun("--master-port 29611", NULL);
  torchrun("", no_share);
}

/* The rank that failed is named as the root cause, with its own message. */
static void test_torchrun_failure(void **state) {
  (void)state;
  if (!run_installed(DDP_TORCHRUN)) skip();
  char command[512];
  snprintf(command, sizeof command, "%s --no-python --nproc-per-node 3 %s do=loop fail=1@5",
           DDP_TORCHRUN, DIST_RANK);
  Run r = run(command, NULL, LIMIT);
  run_expect_code(&r, 1);
  const char *root = strstr(r.text, "Root Cause");
  if (!root || !strstr(root, "rank      : 1 ") || !strstr(root, "loss is nan at update 5"))
    fail_msg("%s", r.text);
  run_free(&r);
}

/* torchrun leaves its ranks alive when it is killed itself; they notice. */
static void test_torchrun_killed(void **state) {
  (void)state;
  if (!run_installed(DDP_TORCHRUN)) skip();
  char command[512], ranks[512];
  snprintf(command, sizeof command,
           "%s --no-python --nproc-per-node 2 %s do=loop hang=1@2 timeout=57", DDP_TORCHRUN,
           DIST_RANK);
  snprintf(ranks, sizeof ranks, "%s do=loop hang=1@2 timeout=57", DIST_RANK);
  Run r = run_start(command, NULL);
  run_until(&r, "by torchrun", 2, LIMIT);
  kill(r.pid, SIGKILL);
  run_expect_gone(ranks); /* the pipe stays open as long as one lives */
  run_finish(&r, LIMIT);
  run_expect(&r, "the launcher (pid", 1);
  run_free(&r);
}

static const char *const root_may[] = {"OMPI_ALLOW_RUN_AS_ROOT=1",
                                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL};
static const char *const root_may_with_address[] = {
    "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "MASTER_ADDR=127.0.0.1",
    "MASTER_PORT=29612", NULL};

static void test_mpirun(void **state) {
  (void)state;
  if (!run_installed(DDP_MPIRUN)) skip();
  char command[512];
  snprintf(command, sizeof command, "%s --oversubscribe -np 3 %s do=reduce", DDP_MPIRUN, DIST_RANK);
  Run r = run(command, root_may, LIMIT);
  run_expect_code(&r, 0);
  run_expect(&r, "by Open MPI path shared memory", 3);
  run_free(&r);
  r = run(command, root_may_with_address, LIMIT);
  run_expect_code(&r, 0);
  run_expect(&r, "by Open MPI path shared memory", 3);
  run_free(&r);
}

static void test_mpirun_killed(void **state) {
  (void)state;
  if (!run_installed(DDP_MPIRUN)) skip();
  char command[512];
  snprintf(command, sizeof command, "%s --oversubscribe -np 3 %s do=loop kill=1@5 timeout=60",
           DDP_MPIRUN, DIST_RANK);
  Run r = run(command, root_may, LIMIT);
  if (r.code == 0 || r.code == -1) fail_msg("%s", r.text);
  run_expect(&r, "lost rank 1", 1);
  assert_true(r.seconds < run_slack(10));
  run_expect_gone("kill=1@5 timeout=60");
  run_free(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_torchrun),        cmocka_unit_test(test_torchrun_failure),
      cmocka_unit_test(test_torchrun_killed), cmocka_unit_test(test_mpirun),
      cmocka_unit_test(test_mpirun_killed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
