/* Counts of updates: bug reports 2, 3, 40, and the Trainer's rules. */
#include "check.h"
#include "counts.h"

static DdpCounts made(DdpCountsInput in) {
  DdpCounts c;
  CHECK_OK(ddp_counts_make(&c, &in));
  return c;
}

/* N = 91, B = 10, GA = 3, 10 epochs: 40 updates on one rank, 20 on two. */
static void same_count_everywhere(void **state) {
  (void)state;
  DdpCounts one = made((DdpCountsInput){{91, 1, 10, false, false}, 3, 10, -1, 0, NULL});
  assert_int_equal(one.micro_batches, 10);
  assert_int_equal(one.updates, 4);
  assert_int_equal(one.total, 40);
  assert_int_equal(one.epochs, 10);
  assert_int_equal(ddp_counts_window(&one, 0), 3);
  assert_int_equal(ddp_counts_window(&one, 3), 1);
  assert_int_equal(ddp_counts_batch(&one, 8), 10);
  assert_int_equal(ddp_counts_batch(&one, 9), 1);
  DdpCounts two = made((DdpCountsInput){{91, 2, 10, false, false}, 3, 10, -1, 0, NULL});
  assert_int_equal(two.per_rank, 46);
  assert_int_equal(two.micro_batches, 5);
  assert_int_equal(two.updates, 2);
  assert_int_equal(two.total, 20);
}

/* Fewer batches than GA: still one update. */
static void tail_is_an_update(void **state) {
  (void)state;
  DdpCounts c = made((DdpCountsInput){{1, 1, 1, false, false}, 4, 1, -1, 0, NULL});
  assert_int_equal(c.updates, 1);
  assert_int_equal(ddp_counts_window(&c, 0), 1);
  c = made((DdpCountsInput){{5, 1, 1, false, false}, 2, 1, -1, 0, NULL});
  assert_int_equal(c.updates, 3);
  assert_int_equal(ddp_counts_window(&c, 2), 1);
}

static void epochs_and_steps(void **state) {
  (void)state;
  DdpCounts c = made((DdpCountsInput){{100, 1, 10, false, false}, 1, 2.5, -1, 0, NULL});
  assert_int_equal(c.total, 25);
  assert_int_equal(c.epochs, 3);
  c = made((DdpCountsInput){{100, 1, 10, false, false}, 1, 2.5, 42, 0, NULL});
  assert_int_equal(c.total, 42);
  assert_int_equal(c.epochs, 5);
  c = made((DdpCountsInput){{105, 2, 10, true, false}, 1, 1, -1, 0, NULL});
  assert_int_equal(c.per_rank, 52);
  assert_int_equal(c.micro_batches, 5);
}

static void warmup_and_intervals(void **state) {
  (void)state;
  assert_int_equal(made((DdpCountsInput){{100, 1, 10, false, false}, 1, 1, -1, 0.25, NULL}).warmup,
                   3);
  assert_int_equal(made((DdpCountsInput){{100, 1, 10, false, false}, 1, 1, -1, 7, NULL}).warmup, 7);
  assert_int_equal(ddp_counts_interval(0.3, 10), 3);
  assert_int_equal(ddp_counts_interval(0.31, 10), 4);
  assert_int_equal(ddp_counts_interval(500, 10), 500);
  DdpCounts c;
  CHECK_ERROR(
      ddp_counts_make(&c, &(DdpCountsInput){{100, 1, 10, false, false}, 1, 1, -1, 11, NULL}),
      DDP_USAGE, "warmup_steps = 11 is longer than the run of 10 updates");
}

static void nothing_to_train_on(void **state) {
  (void)state;
  DdpCounts c;
  /* 9 in batches of 4 leave one; not in 2 updates, nor where it is left out */
  CHECK_ERROR(
      ddp_counts_make(&c, &(DdpCountsInput){{9, 1, 4, false, false}, 1, 1, -1, 0, "a.ddp:3"}),
      DDP_DATA, "a.ddp:3 divides by zero there");
  CHECK_OK(ddp_counts_make(&c, &(DdpCountsInput){{9, 1, 4, false, false}, 1, 1, 2, 0, "a.ddp:3"}));
  CHECK_OK(ddp_counts_make(&c, &(DdpCountsInput){{9, 1, 4, true, false}, 1, 1, -1, 0, "a.ddp:3"}));
  CHECK_OK(ddp_counts_make(&c, &(DdpCountsInput){{8, 1, 4, false, false}, 1, 1, -1, 0, "a.ddp:3"}));
  CHECK_ERROR(ddp_counts_make(&c, &(DdpCountsInput){{7, 2, 4, true, false}, 1, 1, -1, 0, NULL}),
              DDP_DATA, "7 samples over 2 ranks are 3 each, fewer than one batch of 4");
}

/* Where a run stands, for one that goes on with other ranks: places of the order of the epoch. */
static void places_of_an_epoch(void **state) {
  (void)state;
  int64_t w = -1;
  for (int batches = 0; batches < 2; batches++) {
    DdpCounts two = made((DdpCountsInput){{21, 2, 2, false, batches}, 2, 3, -1, 0, NULL});
    assert_int_equal(two.updates, 3); /* 8, 8 and the 5 that are left */
    assert_int_equal(ddp_counts_place(&two, 0), 0);
    assert_int_equal(ddp_counts_place(&two, 2), 16);
    assert_int_equal(ddp_counts_place(&two, 3), 21);
    DdpCounts four = made((DdpCountsInput){{21, 4, 2, false, batches}, 1, 3, -1, 0, NULL});
    for (int64_t k = 0; k <= 3; k++) {
      CHECK_OK(ddp_counts_windows(&four, ddp_counts_place(&two, k), &w));
      assert_int_equal(w, k);
    }
    DdpCounts one = made((DdpCountsInput){{21, 1, 2, false, batches}, 3, 3, -1, 0, NULL});
    CHECK_ERROR(ddp_counts_windows(&one, 8, &w), DDP_USAGE,
                "behind sample 8 of its epoch, and an update of this one takes 6 samples");
    CHECK_OK(ddp_counts_windows(&one, 12, &w));
    assert_int_equal(w, 2);
    /* What drop_last leaves out is behind the end. */
    DdpCounts drop = made((DdpCountsInput){{21, 4, 2, true, batches}, 1, 3, -1, 0, NULL});
    assert_int_equal(drop.updates, 2);
    assert_int_equal(ddp_counts_place(&drop, 2), 16);
    CHECK_OK(ddp_counts_windows(&drop, 21, &w));
    assert_int_equal(w, 2);
  }
}

/* Accelerate's counts: whole rounds of whole batches, but for one rank. */
static void whole_batches(void **state) {
  (void)state;
  DdpCounts c = made((DdpCountsInput){{3, 4, 2, false, true}, 1, 1, -1, 0, NULL});
  assert_int_equal(c.per_rank, 2);
  assert_int_equal(c.updates, 1);
  c = made((DdpCountsInput){{17, 2, 4, false, true}, 1, 1, -1, 0, NULL});
  assert_int_equal(c.micro_batches, 3);
  assert_int_equal(ddp_counts_batch(&c, 2), 4);
  c = made((DdpCountsInput){{17, 1, 4, false, true}, 1, 1, -1, 0, NULL});
  assert_int_equal(ddp_counts_batch(&c, 4), 1);
  CHECK_ERROR(ddp_counts_make(&c, &(DdpCountsInput){{7, 2, 4, true, true}, 1, 1, -1, 0, NULL}),
              DDP_DATA, "7 samples over 2 ranks are 0 each");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_count_everywhere), cmocka_unit_test(tail_is_an_update),
      cmocka_unit_test(epochs_and_steps),      cmocka_unit_test(warmup_and_intervals),
      cmocka_unit_test(nothing_to_train_on),   cmocka_unit_test(places_of_an_epoch),
      cmocka_unit_test(whole_batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
