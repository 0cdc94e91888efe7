/* Collectives of 1 to 4 ranks over shared memory and Gloo: right sums, the same bits on every
   rank, in every run. DIST_RANK is the program of rank.c. */
#include "run.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LIMIT = 30 };

static Run job(int ranks, const char *arguments) {
  char command[512];
  snprintf(command, sizeof command, "%s --nproc-per-node %d %s", DIST_RANK, ranks, arguments);
  return run(command, NULL, LIMIT);
}

static void expect_path(const Run *r, int ranks, bool gloo) {
  if (ranks == 1)
    run_expect(r, "path one rank", 1);
  else
    run_expect(r, gloo ? "path gloo" : "path shared memory", ranks);
}

/* The "bits" line of the first rank that printed; all ranks must agree. */
static void bits_of(const Run *r, int ranks, char out[32]) {
  const char *p = strstr(r->text, "bits ");
  assert_non_null(p);
  snprintf(out, 32, "%.21s", p);
  run_expect(r, out, ranks);
}

static void sums_of(int ranks, bool gloo, char bits[32]) {
  Run r = job(ranks, gloo ? "do=reduce backend=gloo" : "do=reduce");
  run_expect_code(&r, 0);
  expect_path(&r, ranks, gloo);
  bits_of(&r, ranks, bits);
  run_free(&r);
}

static void test_shm_sums(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= 4; ranks++) {
    char first[32], again[32];
    sums_of(ranks, false, first);
    sums_of(ranks, false, again);
    assert_string_equal(first, again);
  }
}

/* 16 bits on the wire: other sums than in float32, the same on every rank and in every run; Gloo's, where a
   sum has one order. */
static void test_wire(void **state) {
  (void)state;
  char plain[32], bits[2][32];
  sums_of(2, false, plain);
  for (int ranks = 2; ranks <= 4; ranks++) {
    for (int half = 0; half < 2; half++) {
      for (int gloo = 0; gloo <= DDP_TEST_GLOO; gloo++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "do=reduce wire=%s%s", half ? "f16" : "bf16",
                 gloo ? " backend=gloo" : "");
        Run r = job(ranks, arguments);
        run_expect_code(&r, 0);
        expect_path(&r, ranks, gloo);
        bits_of(&r, ranks, bits[gloo]);
        run_free(&r);
      }
      if (ranks == 2) assert_string_not_equal(bits[0], plain);
      if (ranks == 2 && DDP_TEST_GLOO) assert_string_equal(bits[0], bits[1]);
    }
  }
}

static void test_values(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= 4; ranks++) {
    Run r = job(ranks, "do=values");
    run_expect_code(&r, 0);
    run_expect(&r, "values right", ranks);
    run_free(&r);
  }
}

static void test_loop(void **state) {
  (void)state;
  static const char *const sizes[] = {"do=loop size=1", "do=loop size=37", "do=loop size=100003"};
  for (int ranks = 1; ranks <= 4; ranks++) {
    for (size_t i = 0; i < 3; i++) {
      Run r = job(ranks, sizes[i]);
      run_expect_code(&r, 0);
      run_expect(&r, "loop done", ranks);
      run_free(&r);
    }
  }
}

#if DDP_TEST_GLOO
static void test_gloo(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 4; ranks++) {
    char first[32], again[32];
    sums_of(ranks, true, first);
    sums_of(ranks, true, again);
    assert_string_equal(first, again);
    if (ranks == 2) { /* a sum of two has one order only */
      char shm[32];
      sums_of(2, false, shm);
      assert_string_equal(first, shm);
    }
    Run r = job(ranks, "do=values backend=gloo");
    run_expect_code(&r, 0);
    run_expect(&r, "values right", ranks);
    run_free(&r);
    r = job(ranks, "do=loop backend=gloo size=1000");
    run_expect_code(&r, 0);
    run_expect(&r, "loop done", ranks);
    run_free(&r);
  }
}
#endif

/* Communication beside backward: see do_hidden of rank.c. */
static void test_hidden(void **state) {
  (void)state;
  for (int ranks = 2; ranks <= 4; ranks++) {
    for (int gloo = 0; gloo <= DDP_TEST_GLOO; gloo++) {
      Run r = job(ranks, gloo ? "do=hidden backend=gloo" : "do=hidden");
      run_expect_code(&r, 0);
      expect_path(&r, ranks, gloo);
      run_expect(&r, "hidden", ranks);
      run_free(&r);
    }
  }
}

static void test_all_sum(void **state) {
  (void)state;
  for (int ranks = 1; ranks <= 4; ranks++) {
    for (int gloo = 0; gloo <= (DDP_TEST_GLOO && ranks > 1); gloo++) {
      Run r = job(ranks, gloo ? "do=loop sums=1 size=1000 updates=20 backend=gloo"
                              : "do=loop sums=1 size=100003 updates=20");
      run_expect_code(&r, 0);
      run_expect(&r, "loop done", ranks);
      run_free(&r);
    }
  }
  /* a rank that is gone ends the others within such a sum too */
  Run r = job(3, "do=loop sums=1 kill=1@5");
  run_expect(&r, "lost rank 1", 1);
  run_free(&r);
}

static void test_no_plugin(void **state) {
  (void)state;
  static const char *const nowhere[] = {"DDP_PLUGIN_DIR=/nowhere", NULL};
  char command[512];
  snprintf(command, sizeof command, "cp %s ./dist_rank_alone", DIST_RANK);
  Run r = run(command, NULL, LIMIT);
  run_expect_code(&r, 0);
  run_free(&r);
  r = run("./dist_rank_alone --nproc-per-node 2 backend=gloo", nowhere, LIMIT);
  run_expect_code(&r, 1);
  run_expect(&r, "libddp_gloo.so not found", 1);
  run_free(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_shm_sums),
    cmocka_unit_test(test_wire),
    cmocka_unit_test(test_values),
    cmocka_unit_test(test_loop),
    cmocka_unit_test(test_hidden),
    cmocka_unit_test(test_all_sum),
    cmocka_unit_test(test_no_plugin),
#if DDP_TEST_GLOO
    cmocka_unit_test(test_gloo),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
