/* Buckets by PyTorch's rule, with the traced example: add, then close at the limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan.h"

#define MIB ((int64_t)1 << 20)

static void expect(const int64_t *bytes, int n, int64_t first, int64_t cap, const int32_t *want,
                   int buckets) {
  int32_t ends[32];
  assert_int_equal(plan_buckets(bytes, n, first, cap, ends), buckets);
  for (int i = 0; i < buckets; i++) assert_int_equal(ends[i], want[i]);
}

static void rule(void **state) {
  (void)state;
  expect(NULL, 0, MIB, 25 * MIB, NULL, 0);
  expect((int64_t[]){4}, 1, MIB, 25 * MIB, (int32_t[]){1}, 1);
  /* reaching the limit exactly closes; overshooting is allowed */
  expect((int64_t[]){MIB, 4}, 2, MIB, 25 * MIB, (int32_t[]){1, 2}, 2);
  expect((int64_t[]){MIB - 4, 90 * MIB, 4}, 3, MIB, 25 * MIB, (int32_t[]){2, 3}, 2);
  /* the first limit is for the first bucket alone */
  expect((int64_t[]){MIB, MIB, 24 * MIB, 8}, 4, MIB, 25 * MIB, (int32_t[]){1, 3, 4}, 3);
  /* a cap that was set holds throughout */
  expect((int64_t[]){1, 1, 1, 1, 1}, 5, 2, 2, (int32_t[]){2, 4, 5}, 3);
}

/* 512-512-1024-512-8 with one LayerNorm, gradients from the last layer to the first: what
   PyTorch 2.15 does from its second step on was traced as 528,904 elements, then 788,992. */
static void traced(void **state) {
  (void)state;
  const int64_t elements[] = {8,          512 * 8, 512,       512 * 1024, 1024,
                              1024 * 512, 512,     512 * 512, 512,        512};
  enum { N = sizeof elements / sizeof *elements };
  int64_t bytes[N], sum[2] = {0, 0};
  int32_t ends[N];
  for (int i = 0; i < N; i++) bytes[i] = 4 * elements[i];
  assert_int_equal(plan_buckets(bytes, N, MIB, 25 * MIB, ends), 2);
  for (int i = 0; i < N; i++) sum[i >= ends[0]] += elements[i];
  assert_int_equal(sum[0], 528904);
  assert_int_equal(sum[1], 788992);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rule), cmocka_unit_test(traced)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
