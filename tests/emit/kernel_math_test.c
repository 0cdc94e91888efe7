/* The inline math against libm in double: error in units in the last place over a sweep of all floats
   (every 997th bit pattern: all exponents, both signs, denormals, inf, nan). */
#include "kernels/random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { STRIDE = 997 };

static double ulps(float got, double want) {
  if (isnan(want)) return isnan(got) ? 0 : INFINITY;
  if (isinf((float)want)) return (double)got == (double)(float)want ? 0 : isinf(got) ? INFINITY : 1;
  if (isnan(got)) return INFINITY;
  if (isinf(got)) return fabs(want) > 3.4028234e38 ? 1 : INFINITY;
  int e;
  frexp(want, &e);
  return fabs((double)got - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

typedef float Ours(float x);
typedef double Theirs(double x);

static void sweep(const char *name, Ours *ours, Theirs *theirs, float largest, double limit) {
  double worst = 0;
  float at = 0;
  for (uint64_t u = 0; u < 0x100000000u; u += STRIDE) {
    float x = ddp_from_bits((uint32_t)u);
    if (isfinite(x) && fabsf(x) > largest) continue;
    double e = ulps(ours(x), theirs((double)x));
    if (e > worst) {
      worst = e;
      at = x;
    }
  }
  if (worst <= limit) return;
  print_error("%s: %.3g units at %a: %a, should be %a\n", name, worst, (double)at, (double)ours(at),
              theirs((double)at));
  fail();
}

#define FUNCTION(name)                                                                             \
  static float ours_##name(float x) {                                                              \
    return ddp_##name##f(x);                                                                       \
  }
FUNCTION(exp)
FUNCTION(expm1)
FUNCTION(log)
FUNCTION(log1p)
FUNCTION(tanh)
FUNCTION(erf)
FUNCTION(sin)
FUNCTION(cos)

static void accuracy(void **state) {
  (void)state;
  const float reduced = 0x1p20f, all = INFINITY;
  sweep("exp", ours_exp, exp, all, 1.1);
  sweep("expm1", ours_expm1, expm1, all, 1.5);
  sweep("log", ours_log, log, all, 1.0);
  sweep("log1p", ours_log1p, log1p, all, 1.6);
  sweep("tanh", ours_tanh, tanh, all, 2.5);
  sweep("erf", ours_erf, erf, all, 1.2);
  sweep("sin", ours_sin, sin, reduced, 1.7);
  sweep("cos", ours_cos, cos, reduced, 1.7);
}

static void signs_of_zero(void **state) {
  (void)state;
  assert_int_equal(ddp_bits(ddp_sinf(-0.0f)), 0x80000000u);
  assert_int_equal(ddp_bits(ddp_tanhf(-0.0f)), 0x80000000u);
  assert_int_equal(ddp_bits(ddp_erff(-0.0f)), 0x80000000u);
  assert_int_equal(ddp_bits(ddp_expm1f(-0.0f)), 0x80000000u);
  assert_int_equal(ddp_bits(ddp_log1pf(-0.0f)), 0x80000000u);
}

static void whole_numbers(void **state) {
  (void)state;
  for (int a = -7; a <= 7; a++)
    for (int b = -3; b <= 3; b++) {
      if (!b) continue;
      double q = floor((double)a / b);
      assert_int_equal(ddp_floordiv_i64(a, b), (int64_t)q);
      assert_int_equal(ddp_pymod_i64(a, b), a - b * (int64_t)q);
      assert_true((double)ddp_floordivf((float)a, (float)b) == q);
      assert_true((double)ddp_pymodf((float)a, (float)b) == a - b * q);
    }
  assert_int_equal(ddp_pow_i64(-3, 5), -243);
  assert_int_equal(ddp_pow_i64(2, -1), 0);
  assert_int_equal(ddp_floordiv_i64(INT64_MIN, -1), INT64_MIN);
}

/* Frequencies of bits and of pairs, over elements and over each part of the key. */
static void random_is_even(void **state) {
  (void)state;
  enum { DRAWS = 1 << 18 };
  for (int mode = 0; mode < 5; mode++) {
    int64_t one[32] = {0}, changed[32] = {0};
    uint32_t before = 0;
    for (int i = 0; i < DRAWS; i++) {
      DdpDraw d = ddp_draw(mode == 3 ? (uint64_t)i : 42, mode == 2 ? i : 7,
                           mode == 4 ? (uint64_t)i : 1, NULL);
      uint32_t u = ddp_random(ddp_row(d, mode == 1 ? i : 5), mode == 0 ? (uint32_t)i : 3);
      for (int b = 0; b < 32; b++) {
        one[b] += u >> b & 1;
        changed[b] += (u ^ before) >> b & 1;
      }
      before = u;
    }
    for (int b = 0; b < 32; b++) { /* five standard deviations */
      assert_true(fabs((double)one[b] - DRAWS / 2.0) < 5 * sqrt(DRAWS) / 2);
      assert_true(fabs((double)changed[b] - DRAWS / 2.0) < 5 * sqrt(DRAWS) / 2);
    }
  }
}

static void random_ranges(void **state) {
  (void)state;
  double sum = 0, squares = 0;
  int64_t kept = 0;
  enum { DRAWS = 1 << 18 };
  DdpRow r = ddp_row(ddp_draw(1, 2, 3, NULL), 4);
  for (uint32_t i = 0; i < DRAWS; i++) {
    float u = ddp_uniform(r, i);
    double z = (double)ddp_normal(r, i);
    int64_t k = ddp_randint(r, i, -2, 5);
    assert_true(u >= 0 && u < 1 && isfinite(z) && k >= -2 && k < 5);
    assert_true(ddp_bernoulli(r, i, 1.0f) == 1.0f && ddp_bernoulli(r, i, 0.0f) == 0.0f);
    kept += ddp_bernoulli(r, i, 0.9f) != 0;
    sum += z;
    squares += z * z;
  }
  assert_true(fabs((double)kept / DRAWS - 0.9) < 0.003);
  assert_true(fabs(sum / DRAWS) < 0.01 && fabs(squares / DRAWS - 1) < 0.02);
}

#ifdef __FLT16_MAX__
__extension__ typedef _Float16 Half;
#endif

/* Every 16-bit number survives; floats go to the nearest, ties to even, as the compiler's own type says
   where it has one. */
static void halves(void **state) {
  (void)state;
  for (uint32_t h = 0; h <= 0xffff; h++) {
    uint16_t u = (uint16_t)h;
    bool nan16 = (u & 0x7fff) > 0x7c00, nan_b = (u & 0x7fff) > 0x7f80;
    assert_int_equal(ddp_store_f16(ddp_load_f16(u)), nan16 ? (u & 0x8000) | 0x7e00 : u);
    assert_int_equal(ddp_store_bf16(ddp_load_bf16(u)), nan_b ? u | 0x40 : u);
    assert_int_equal(isnan(ddp_load_f16(u)) != 0, nan16);
    assert_int_equal(isnan(ddp_load_bf16(u)) != 0, nan_b);
  }
  assert_int_equal(ddp_store_bf16(0x1.01p0f), 0x3f80);     /* a tie: down to even */
  assert_int_equal(ddp_store_bf16(0x1.03p0f), 0x3f82);     /* up to even */
  assert_int_equal(ddp_store_bf16(0x1.010002p0f), 0x3f81); /* above the tie */
  assert_int_equal(ddp_store_bf16(0x1.ffp127f), 0x7f80);   /* rounds to infinity */
  assert_int_equal(ddp_store_f16(65519.996f), 0x7bff);     /* the largest */
  assert_int_equal(ddp_store_f16(65520.0f), 0x7c00);       /* infinity */
  assert_int_equal(ddp_store_f16(0x1p-25f), 0);            /* half the smallest: to even */
  assert_int_equal(ddp_store_f16(-0x1.000002p-25f), 0x8001);
#ifdef __FLT16_MAX__
  uint64_t seed = 3;
  for (int i = 0; i < 1000000; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    float x = ddp_from_bits((uint32_t)(seed >> 32));
    Half y = (Half)x;
    uint16_t want;
    memcpy(&want, &y, sizeof want);
    if (!isnan(x)) assert_int_equal(ddp_store_f16(x), want);
  }
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(accuracy),      cmocka_unit_test(signs_of_zero),
      cmocka_unit_test(whole_numbers), cmocka_unit_test(random_is_even),
      cmocka_unit_test(random_ranges), cmocka_unit_test(halves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
