/* How the gradient arena is cut into buckets. */
#include "buckets.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { MIB = 1024 * 1024 / 4, MOST = 8 }; /* floats */

/* Arena in ready order; ready[i] = order[i]. */
static int cut(const int64_t *sizes, const int32_t *order, int n, double cap, DdpBucketInfo *out) {
  static DdpTensor tensors[MOST];
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    tensors[order[i]] = (DdpTensor){.elements = sizes[order[i]], .offset = at};
    at += (sizes[order[i]] + 15) / 16 * 16;
  }
  DdpJob job = {.tensors = tensors, .n_tensors = n, .ready = order, .n_ready = n};
  return ddp_buckets_cut(&job, cap, out);
}

static void test_default(void **state) {
  (void)state;
  /* Traced from PyTorch: the first bucket closes at 1 MiB after adding, the next at 25 MiB. */
  static const int64_t sizes[] = {MIB / 2, MIB, MIB, 20 * MIB, 10 * MIB, 5};
  static const int32_t order[] = {0, 1, 2, 3, 4, 5};
  DdpBucketInfo b[MOST];
  assert_int_equal(cut(sizes, order, 6, 0, b), 3);
  assert_int_equal(b[0].count, 2);
  assert_int_equal(b[0].begin, 0);
  assert_int_equal(b[0].end, MIB / 2 + MIB);
  assert_int_equal(b[1].first, 2);
  assert_int_equal(b[1].count, 3);
  assert_int_equal(b[2].first, 5);
  assert_int_equal(b[2].end - b[2].begin, 5);
}

static void test_cap(void **state) {
  (void)state;
  static const int64_t sizes[] = {MIB, MIB, MIB, MIB, MIB};
  static const int32_t order[] = {4, 3, 2, 1, 0};
  DdpBucketInfo b[MOST];
  assert_int_equal(cut(sizes, order, 5, 2, b), 3);
  assert_int_equal(b[0].count, 2);
  assert_int_equal(b[2].count, 1);
  assert_int_equal(cut(sizes, order, 5, 1e-6, b), 5);
  assert_int_equal(cut(sizes, order, 5, 1000, b), 1);
  assert_int_equal(b[0].end, 5 * MIB);
}

/* Ready order unlike the arena's: ranges must not overlap, every tensor is in one. */
static void test_interleaved(void **state) {
  (void)state;
  static const DdpTensor tensors[] = {{.elements = 64, .offset = 0},
                                      {.elements = 64, .offset = 64},
                                      {.elements = 64, .offset = 128},
                                      {.elements = 64, .offset = 192}};
  static const int32_t ready[] = {0, 2, 1, 3};
  DdpJob job = {.tensors = tensors, .n_tensors = 4, .ready = ready, .n_ready = 4};
  DdpBucketInfo b[MOST];
  int n = ddp_buckets_cut(&job, 2 * 64 * 4 / 1048576.0, b);
  assert_int_equal(n, 1);
  assert_int_equal(b[0].count, 4);
  assert_int_equal(b[0].begin, 0);
  assert_int_equal(b[0].end, 256);
}

static void test_empty(void **state) {
  (void)state;
  DdpJob job = {0};
  DdpBucketInfo b[MOST];
  assert_int_equal(ddp_buckets_cut(&job, 0, b), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_default),
      cmocka_unit_test(test_cap),
      cmocka_unit_test(test_interleaved),
      cmocka_unit_test(test_empty),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
