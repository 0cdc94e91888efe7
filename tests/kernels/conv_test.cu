/* Convolution of a device against loops written down: 1 to 3 dimensions, strides, padding, dilation, groups, blocks of
   channels, sums that are cut into parts, all three results, written and added; f32 and 16-bit floats. */
#include "cuda/conv.h"
#include "cudnn_stand_in.h"

static double number(int64_t i, int64_t seed) {
  return static_cast<double>((i * 37 + seed * 11 + i / 7) % 17 - 8) / 4;
}

static int64_t product(const int64_t *size, int64_t n) {
  int64_t p = 1;
  for (int64_t i = 0; i < n; i++) p *= size[i];
  return p;
}

static size_t at(int64_t b, int64_t c, int64_t spot, int64_t channels, int64_t block,
                 int64_t spots) {
  return static_cast<size_t>(((b * (channels / block) + c / block) * spots + spot) * block +
                             c % block);
}

/* Flat place in the big side of a tap at a place; -1: outside. */
static int64_t spot_of(const DdpConv &c, int64_t place, int64_t tap) {
  int64_t flat = 0, scale = 1;
  for (int64_t i = c.space; i-- > 0;) {
    const int64_t k =
        place % c.small_size[i] * c.stride[i] - c.padding[i] + tap % c.kernel[i] * c.dilation[i];
    if (k < 0 || k >= c.big_size[i]) return -1;
    flat += k * scale;
    scale *= c.big_size[i];
    place /= c.small_size[i];
    tap /= c.kernel[i];
  }
  return flat;
}

/* in: big, small, filter; want: what each of them is, computed from the other two. */
static void reference(const DdpConv &c, int64_t batch, const Numbers *in, Numbers *want) {
  const int64_t places = product(c.small_size, c.space), spots = product(c.big_size, c.space);
  const int64_t taps = product(c.kernel, c.space), each = c.big / c.groups;
  for (int64_t b = 0; b < batch; b++)
    for (int64_t m = 0; m < c.small; m++)
      for (int64_t p = 0; p < places; p++)
        for (int64_t f = 0; f < each * taps; f++) {
          const int64_t spot = spot_of(c, p, f % taps);
          if (spot < 0) continue;
          const int64_t channel = m / (c.small / c.groups) * each + f / taps;
          const size_t x = at(b, channel, spot, c.big, c.big_block, spots);
          const size_t y = at(b, m, p, c.small, c.small_block, places);
          const size_t w = static_cast<size_t>(m * each * taps + f);
          want[0][x] += in[1][y] * in[2][w];
          want[1][y] += in[0][x] * in[2][w];
          want[2][w] += in[0][x] * in[1][y];
        }
}

/* Written over NaN, then added to that, then added again. */
template <DdpConvResult RESULT, class T, class F>
static void check_result(const DdpConv &c, int64_t batch, const std::vector<T> *in,
                         const Numbers &want, double tolerance) {
  const OnDevice<char> scratch(static_cast<size_t>(ddp_conv_scratch(c, RESULT, batch)));
  const OnDevice<T> big(in[0]), small(in[1]), filter(in[2]);
  const OnDevice<F> sum(in[2].size());
  const char *const name[] = {"small", "big", "filter"};
  cudaStream_t stream;
  assert_int_equal(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  DdpStep step = {};
  step.stream = stream, step.scratch = scratch.at;
  for (int times = 1; times <= 3; times++) {
    const bool add = times > 1;
    if constexpr (RESULT == DDP_CONV_FILTER)
      ddp_conv<RESULT>(&step, c, batch, big.at, small.at, sum.at, add);
    else
      ddp_conv<RESULT>(&step, c, batch, big.at, small.at, filter.at, add);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    Numbers expect = want;
    for (double &x : expect) x *= times;
    if (RESULT == DDP_CONV_FILTER)
      test_close(name[RESULT], sum.read(), expect, tolerance);
    else
      test_close(name[RESULT], RESULT == DDP_CONV_BIG ? big.read() : small.read(), expect,
                 tolerance);
  }
  cudaStreamDestroy(stream);
}

template <class T, class F>
static void check_conv(const DdpConv &c, int64_t batch, double tolerance, double sum_tolerance) {
  const int64_t places = product(c.small_size, c.space), spots = product(c.big_size, c.space);
  const int64_t filter = c.small * (c.big / c.groups) * product(c.kernel, c.space);
  const int64_t count[3] = {batch * c.big * spots, batch * c.small * places, filter};
  Numbers in[3], want[3];
  std::vector<T> stored[3];
  for (int k = 0; k < 3; k++) {
    for (int64_t i = 0; i < count[k]; i++) in[k].push_back(number(i, k + 1));
    want[k].resize(in[k].size());
    stored[k] = test_stored<T>(&in[k]);
  }
  reference(c, batch, in, want);
  check_result<DDP_CONV_BIG, T, T>(c, batch, stored, want[0], tolerance);
  check_result<DDP_CONV_SMALL, T, T>(c, batch, stored, want[1], tolerance);
  check_result<DDP_CONV_FILTER, T, F>(c, batch, stored, want[2], sum_tolerance);
}

static const DdpConv cases[] = {
    {1, 1, 3, 5, 1, 1, {9}, {9}, {3}, {1}, {1}, {1}},
    {1, 2, 4, 6, 1, 1, {11}, {4}, {3}, {2}, {0}, {2}},
    {2, 1, 3, 16, 1, 16, {8, 7}, {8, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 16, 32, 16, 16, {7, 6}, {3, 6}, {3, 1}, {2, 1}, {0, 0}, {1, 1}},
    {2, 1, 20, 70, 20, 70, {6, 6}, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 70, 20, 70, 20, {9, 9}, {5, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {2, 4, 64, 64, 64, 64, {6, 5}, {3, 3}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {2, 16, 16, 16, 16, 16, {6, 5}, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},     /* depthwise */
    {2, 12, 24, 36, 24, 36, {16, 17}, {16, 17}, {3, 3}, {1, 1}, {1, 1}, {1, 1}}, /* parts */
    {2, 1, 3, 17, 3, 17, {17, 16}, {17, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},    /* parts */
    {2, 1, 6, 4, 3, 2, {8, 8}, {3, 4}, {3, 3}, {3, 2}, {2, 1}, {2, 2}},
    {3, 1, 2, 4, 1, 1, {4, 5, 6}, {4, 5, 3}, {3, 3, 2}, {1, 1, 2}, {1, 1, 0}, {1, 1, 1}},
    {3, 2, 32, 32, 16, 16, {4, 4, 4}, {4, 4, 4}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
};

/* Numbers are sixteenths: sums are exact in any order. */
static void floats(void **state) {
  (void)state;
  for (const DdpConv &c : cases) {
    check_conv<float, float>(c, 3, 0, 0);
    check_conv<float, float>(c, 1, 0, 0);
  }
}

/* Sums in float, rounded once to 16 bits (each time they are added to): half a unit of 8 or 11 bits. A float filter
   gets exact sums, except from cuDNN, which gives those of bf16 in bf16. */
static void halves(void **state) {
  (void)state;
  const double exact = DDP_ASKS_CUDNN ? 3.0 / 512 : 0;
  for (const DdpConv &c : cases) {
    check_conv<__nv_bfloat16, float>(c, 2, 3.0 / 512, exact);
    check_conv<__half, __half>(c, 2, 3.0 / 4096, 3.0 / 4096);
  }
}

/* Sums of a filter are cut where there is enough to cut, never otherwise. */
static void splits(void **state) {
  (void)state;
  assert_int_equal(ddp_conv_split(cases[9], 3).splits, 3);
  assert_int_equal(ddp_conv_split(cases[9], 1).splits, 1);
  assert_true(ddp_conv_split(cases[8], 3).direct);
  const DdpConv large = {2, 1, 512, 512, 512, 512, {7, 7}, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  assert_int_equal(ddp_conv_split(large, 256).splits, 1);
}

int main() {
  const struct CMUnitTest tests[] = {cmocka_unit_test(floats), cmocka_unit_test(halves),
                                     cmocka_unit_test(splits)};
  stand_in_begin();
  return verdict(stand_in_end(cmocka_run_group_tests(tests, NULL, NULL)));
}
