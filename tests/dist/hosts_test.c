/* Two hosts as two network namespaces joined by a wire: shared memory inside, Gloo between.
   Skipped where namespaces cannot be made. */
#include "run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { LIMIT = 30 };
static char names[2][32];

static bool ip(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool ip(const char *format, ...) {
  char command[256] = "ip ";
  va_list args;
  va_start(args, format);
  vsnprintf(command + 3, sizeof command - 3, format, args);
  va_end(args);
  Run r = run(command, NULL, 10);
  bool good = r.code == 0;
  run_free(&r);
  return good;
}

static int remove_hosts(void **state) {
  (void)state;
  for (int h = 0; h < 2; h++) {
    if (names[h][0]) ip("netns del %s", names[h]);
  }
  return 0;
}

static int make_hosts(void **state) {
  int id = (int)getpid() % 100000;
  bool good = run_installed("ip");
  for (int h = 0; good && h < 2; h++) {
    char name[32];
    snprintf(name, sizeof name, "ddp%d-%d", id, h);
    good = ip("netns add %s", name);
    if (good) memcpy(names[h], name, sizeof name);
  }
  good = good && ip("link add ddpa%d netns %s type veth peer name ddpb%d netns %s", id, names[0],
                    id, names[1]);
  for (int h = 0; good && h < 2; h++) {
    char side = (char)('a' + h);
    good = ip("-n %s addr add 10.77.0.%d/24 dev ddp%c%d", names[h], h + 1, side, id) &&
           ip("-n %s link set lo up", names[h]) &&
           ip("-n %s link set ddp%c%d up", names[h], side, id);
  }
  if (!good) remove_hosts(state);
  if (!good) names[0][0] = 0;
  return 0;
}

static void start(Run r[2], const int ranks[2], int port, const char *arguments) {
  for (int h = 0; h < 2; h++) {
    char command[512];
    snprintf(command, sizeof command,
             "ip netns exec %s %s --nproc-per-node %d --nnodes 2 --node-rank %d --master-addr "
             "10.77.0.1 --master-port %d %s",
             names[h], DIST_RANK, ranks[h], h, port, arguments);
    r[h] = run_start(command, NULL);
  }
  for (int h = 0; h < 2; h++) run_finish(&r[h], LIMIT);
}

/* All ranks of both hosts end well with the same line. */
static void both(int ranks, int port, const char *arguments, const char *path) {
  Run r[2];
  const int n[2] = {ranks, ranks};
  char bits[32] = "";
  start(r, n, port, arguments);
  for (int h = 0; h < 2; h++) {
    run_expect_code(&r[h], 0);
    run_expect(&r[h], path, ranks);
    const char *p = strstr(r[h].text, "bits ");
    if (p && !bits[0]) snprintf(bits, sizeof bits, "%.21s", p);
    if (bits[0]) run_expect(&r[h], bits, ranks);
    run_free(&r[h]);
  }
}

static void test_sums(void **state) {
  (void)state;
  if (!names[0][0]) skip();
  both(2, 29701, "do=reduce", "path shared memory + gloo");
  both(2, 29702, "do=values", "path shared memory + gloo");
  both(2, 29703, "do=loop", "path shared memory + gloo");
  both(2, 29706, "do=loop sums=1", "path shared memory + gloo");
  both(1, 29704, "do=reduce", "path gloo");
  both(2, 29705, "do=reduce backend=gloo", "path gloo");
}

static void test_failures(void **state) {
  (void)state;
  if (!names[0][0]) skip();
  for (int victim = 0; victim < 4; victim++) {
    Run r[2];
    const int n[2] = {2, 2};
    char arguments[64], text[64];
    snprintf(arguments, sizeof arguments, "do=loop kill=%d@5", victim);
    snprintf(text, sizeof text, "lost rank %d", victim);
    start(r, n, 29710 + victim, arguments);
    for (int h = 0; h < 2; h++) {
      run_expect_code(&r[h], h == victim / 2 ? 137 : 4);
      run_expect(&r[h], text, h == victim / 2 ? 1 : 2);
      assert_true(r[h].seconds < run_slack(5));
      run_free(&r[h]);
    }
    snprintf(arguments, sizeof arguments, "do=loop stop=%d@5 timeout=2", victim);
    snprintf(text, sizeof text, "rank %d did not arrive within 2 s", victim);
    start(r, n, 29720 + victim, arguments);
    for (int h = 0; h < 2; h++) {
      run_expect_code(&r[h], 5);
      run_expect(&r[h], text, h == victim / 2 ? 1 : 2);
      if (r[h].seconds < 2 || r[h].seconds > run_slack(5)) fail_msg("took %.1f s", r[h].seconds);
      run_free(&r[h]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_failures),
  };
  return cmocka_run_group_tests(tests, make_hosts, remove_hosts);
}
