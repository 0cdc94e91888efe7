/* Kernels over arenas against double precision and the CPU's arithmetic. */
#include "cuda/arena.h"
#include "check.h"
#include "oracle.h"

static const int64_t sizes[] = {1, 3, 4, 16, 1023, 1024, 4096, 4100, 100001};

static void square_sums(void **state) {
  (void)state;
  const std::vector<float> x = noises(1200000);
  std::vector<DdpRange> ranges = {{0, 1200000}, {16, 17}, {64, 64}, {32, 4096 + 32}, {1024, 5125}};
  for (int64_t i = 0; i < 130; i++)
    ranges.push_back({i * 160, i * 160 + 37 * i}); /* three launches */
  const int32_t n = static_cast<int32_t>(ranges.size());
  float *const dx = to_device(x);
  double *const sums = device_array<double>(ranges.size());
  char *const scratch = device_array<char>(ddp_arena_scratch);
  ddp_arena_kernels.square_sums(dx, ranges.data(), n, sums, scratch, stream());
  const std::vector<double> got = result(sums, ranges.size());
  for (size_t r = 0; r < ranges.size(); r++) {
    long double want = 0;
    for (int64_t i = ranges[r].begin; i < ranges[r].end; i++) {
      const long double e = x[static_cast<size_t>(i)];
      want += e * e;
    }
    EXPECT(std::fabs(got[r] - static_cast<double>(want)) <= 1e-13 * static_cast<double>(want),
           "range %zu: %.17g, should be %.17Lg", r, got[r], want);
  }
  /* A range by itself gives the same bits, whatever stands beside it. */
  ddp_arena_kernels.square_sums(dx, &ranges[0], 1, sums, scratch, stream());
  EXPECT(result(sums, 1)[0] == got[0], "a range alone differs");
}

static void not_finite(void **state) {
  (void)state;
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> x = noises(5000);
    x[4999] = bad;
    float *const dx = to_device(x);
    double *const sums = device_array<double>(1);
    char *const scratch = device_array<char>(ddp_arena_scratch);
    const DdpRange all = {0, 5000};
    ddp_arena_kernels.square_sums(dx, &all, 1, sums, scratch, stream());
    EXPECT(!std::isfinite(result(sums, 1)[0]), "%f is not seen", static_cast<double>(bad));
  }
}

static float settled_norm(const std::vector<double> &squares, double max_norm, bool holds,
                          const double *loss, const float *told, DdpRates *out) {
  DdpRates before = {};
  before.clip = 1;
  DdpRates *const rates = to_device(std::vector<DdpRates>{before});
  DdpSettle s = {};
  s.rates = rates;
  s.squares = squares.empty() ? nullptr : to_device(squares);
  s.n = static_cast<int32_t>(squares.size());
  s.max_norm = max_norm;
  s.holds = holds;
  s.loss = loss ? to_device(std::vector<double>{*loss}) : nullptr;
  s.told = told ? to_device(std::vector<float>{*told}) : nullptr;
  ddp_arena_kernels.settle(&s, stream());
  *out = result(rates, 1)[0];
  return out->norm;
}

/* The norm of norms and the factor of clipping have the bits of train/norm.c, for any number of tensors. */
static void settle(void **state) {
  (void)state;
  for (const int n : {1, 3, 4, 7, 8, 12, 15, 148, 255, 256, 257, 600}) {
    std::vector<double> squares;
    std::vector<float> norms;
    for (int i = 0; i < n; i++) {
      squares.push_back(1e-3 * (i * 37 % 101 + 1));
      norms.push_back(static_cast<float>(std::sqrt(squares.back())));
    }
    DdpRates got;
    const float want = ddp_norm(norms.data(), n);
    for (const double max_norm : {0.0, 0.25, 1e9}) {
      EXPECT(settled_norm(squares, max_norm, true, nullptr, nullptr, &got) == want,
             "norm of %d: %.9g, should be %.9g", n, static_cast<double>(got.norm),
             static_cast<double>(want));
      const float clip = max_norm > 0 ? ddp_norm_coefficient(want, max_norm) : 1;
      EXPECT(got.clip == clip && !got.hold, "clip of %d, at most %g: %.9g, should be %.9g", n,
             max_norm, static_cast<double>(got.clip), static_cast<double>(clip));
    }
  }
}

/* Loss, mark and norm hold the step, where they are to. */
static void holds(void **state) {
  (void)state;
  const double good = 1, bad = INFINITY;
  const float marked = NAN, plain = 0;
  DdpRates got;
  for (int what = 0; what < 4; what++)
    for (int on = 0; on < 2; on++) {
      settled_norm(what == 3 ? std::vector<double>{1, NAN} : std::vector<double>{}, 0, on,
                   what == 1 ? &bad : &good, what == 2 ? &marked : &plain, &got);
      EXPECT(got.hold == (on && what > 0), "%d, %d: held %d", what, on, got.hold);
    }
  for (const double loss : {1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    float *const g = to_device(std::vector<float>{2, 3});
    ddp_arena_kernels.tell(g, to_device(std::vector<double>{loss}), stream());
    const std::vector<float> after = result(g, 2);
    EXPECT(std::isfinite(loss) ? after[0] == 2 : std::isnan(after[0]), "a loss of %f", loss);
    EXPECT(after[1] == 3, "another gradient is marked");
  }
}

/* What lies behind the n elements stays as it is. */
static void element_wise(void **state) {
  (void)state;
  for (const int64_t n : sizes) {
    const size_t count = static_cast<size_t>(n);
    std::vector<float> x = noises(count + 8), want = x;
    float *const dx = to_device(x);
    ddp_arena_kernels.scale(dx, n, 0.37f, stream());
    for (size_t i = 0; i < count; i++) want[i] *= 0.37f;
    EXPECT_SAME(result(dx, count + 8), want, "scale of %lld", static_cast<long long>(n));
    ddp_arena_kernels.fill(dx, n, -2.5f, stream());
    std::fill(want.begin(), want.begin() + n, -2.5f);
    EXPECT_SAME(result(dx, count + 8), want, "fill of %lld", static_cast<long long>(n));
  }
}

static void average(void **state) {
  (void)state;
  for (const double decay : {0.999, 0.3})
    for (const int64_t n : sizes) {
      const size_t count = static_cast<size_t>(n);
      const std::vector<float> x = noises(count + 8, 1);
      std::vector<float> want = noises(count + 8, 2);
      float *const dx = to_device(x), *const da = to_device(want);
      ddp_arena_kernels.average(da, dx, n, decay, stream());
      const float w = static_cast<float>(1.0 - decay); /* train/ema.c */
      for (size_t i = 0; i < count; i++)
        want[i] = std::fabs(w) < 0.5f ? std::fmaf(w, x[i] - want[i], want[i])
                                      : std::fmaf(w - 1.0f, x[i] - want[i], x[i]);
      EXPECT_SAME(result(da, count + 8), want, "average of %lld", static_cast<long long>(n));
    }
}

static void narrow_and_widen(void **state) {
  (void)state;
  for (const bool half : {false, true})
    for (const int64_t n : sizes) {
      const size_t count = static_cast<size_t>(n);
      const int ranks = n % 2 ? 3 : 1;
      std::vector<float> x = noises(count);
      for (size_t i = 0; i < count; i++) x[i] *= std::ldexp(1.0f, static_cast<int>(i % 40) - 30);
      if (n > 16) x[3] = INFINITY, x[5] = -1e30f, x[9] = 65520.0f, x[10] = 0x1p-25f;
      float *const dx = to_device(x);
      uint16_t *const d16 = to_device(std::vector<uint16_t>(count + 4, 0xabcd));
      const DdpDType dtype = half ? DDP_f16 : DDP_bf16;
      ddp_arena_kernels.narrow(d16, dx, n, dtype, ranks, stream());
      const std::vector<uint16_t> got = result(d16, count + 4);
      for (size_t i = 0; i < count; i++) {
        const uint16_t want = oracle_narrow(half, x[i], ranks);
        EXPECT(got[i] == want, "%a is %04x, should be %04x", static_cast<double>(x[i]), got[i],
               want);
      }
      EXPECT(got[count] == 0xabcd && got[count + 3] == 0xabcd, "written beyond the end");
      ddp_arena_kernels.widen(dx, d16, n, dtype, stream());
      ddp_arena_kernels.narrow(d16, dx, n, dtype, 1, stream()); /* every 16-bit number survives */
      EXPECT(result(d16, count + 4) == got, "not the same after widening");
    }
}

static void nothing_to_do(void **state) {
  (void)state;
  float *const x = device_array<float>(4);
  ddp_arena_kernels.scale(x, 0, 2, stream());
  ddp_arena_kernels.fill(x, 0, 2, stream());
  ddp_arena_kernels.average(x, x, 0, 0.9, stream());
  ddp_arena_kernels.narrow(x, x, 0, DDP_bf16, 2, stream());
  ddp_arena_kernels.widen(x, x, 0, DDP_bf16, stream());
  ddp_arena_kernels.square_sums(x, nullptr, 0, nullptr, nullptr, stream());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(square_sums),      cmocka_unit_test(not_finite),
      cmocka_unit_test(element_wise),     cmocka_unit_test(average),
      cmocka_unit_test(narrow_and_widen), cmocka_unit_test(nothing_to_do),
      cmocka_unit_test(settle),           cmocka_unit_test(holds),
  };
  return verdict(cmocka_run_group_tests(tests, NULL, NULL));
}
