/* Convolutions (built twice: columns and products, and oneDNN) against loops written down: 1 to 3 dimensions,
   strides, padding, dilation, groups, blocks of channels, all three results, added and written. */
#include "kernels/cpu/conv.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static float number(int64_t i, int64_t seed) {
  return (float)((i * 37 + seed * 11 + i / 7) % 17 - 8) / 4;
}

static int64_t at(int64_t b, int64_t c, int64_t spot, int64_t channels, int64_t block,
                  int64_t spots) {
  return ((b * (channels / block) + c / block) * spots + spot) * block + c % block;
}

/* Flat place in the big side of a tap at a place; -1: outside. */
static int64_t spot_of(const DdpConv *c, int64_t place, int64_t tap) {
  int64_t flat = 0, scale = 1;
  for (int64_t i = c->space; i-- > 0;) {
    int64_t k = place % c->small_size[i] * c->stride[i] - c->padding[i] +
                tap % c->kernel[i] * c->dilation[i];
    if (k < 0 || k >= c->big_size[i]) return -1;
    flat += k * scale;
    scale *= c->big_size[i];
    place /= c->small_size[i];
    tap /= c->kernel[i];
  }
  return flat;
}

static void check_conv(const DdpConv *c, int64_t batch, double tolerance) {
  int64_t places = ddp_conv_product(c->small_size, c->space),
          spots = ddp_conv_product(c->big_size, c->space),
          taps = ddp_conv_product(c->kernel, c->space), each = c->big / c->groups;
  int64_t count[3] = {batch * c->big * spots, batch * c->small * places, c->small * each * taps};
  float *in[3], *got[3];
  double *want[3];
  for (int k = 0; k < 3; k++) {
    in[k] = malloc((size_t)count[k] * sizeof(float));
    got[k] = malloc((size_t)count[k] * sizeof(float));
    want[k] = calloc((size_t)count[k], sizeof(double));
    for (int64_t i = 0; i < count[k]; i++) in[k][i] = number(i, k + 1);
  }
  for (int64_t b = 0; b < batch; b++)
    for (int64_t m = 0; m < c->small; m++)
      for (int64_t p = 0; p < places; p++)
        for (int64_t f = 0; f < each * taps; f++) {
          int64_t spot = spot_of(c, p, f % taps), w = m * each * taps + f;
          int64_t channel = m / (c->small / c->groups) * each + f / taps;
          if (spot < 0) continue;
          int64_t x = at(b, channel, spot, c->big, c->big_block, spots);
          int64_t y = at(b, m, p, c->small, c->small_block, places);
          want[0][x] += (double)in[1][y] * (double)in[2][w];
          want[1][y] += (double)in[0][x] * (double)in[2][w];
          want[2][w] += (double)in[0][x] * (double)in[1][y];
        }
  static const DdpConvResult result[] = {DDP_CONV_BIG, DDP_CONV_SMALL, DDP_CONV_FILTER};
  for (int k = 0; k < 3; k++)
    for (int times = 0; times < 3; times++) { /* written, then added */
      const float *side[3] = {in[0], in[1], in[2]};
      side[k] = got[k];
      if (!times)
        for (int64_t i = 0; i < count[k]; i++) got[k][i] = NAN;
      ddp_conv(c, result[k], batch, side[0], side[1], side[2], times > 0);
      double most = 0;
      for (int64_t i = 0; i < count[k]; i++) most = fmax(most, fabs(want[k][i]));
      for (int64_t i = 0; i < count[k]; i++) {
        double expect = want[k][i] * (times + 1);
        assert_true(fabs((double)got[k][i] - expect) <= tolerance * most * (times + 1));
      }
    }
  for (int k = 0; k < 3; k++) {
    free(in[k]);
    free(got[k]);
    free(want[k]);
  }
}

/* Numbers are sixteenths: sums are exact in any order. */
static void exact(void **state) {
  (void)state;
  static const DdpConv cases[] = {
      {1, 1, 3, 5, 1, 1, {9}, {9}, {3}, {1}, {1}, {1}},
      {1, 2, 4, 6, 1, 1, {11}, {4}, {3}, {2}, {0}, {2}},
      {2, 1, 3, 16, 1, 16, {8, 7}, {8, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {2, 1, 16, 32, 16, 16, {7, 6}, {3, 6}, {3, 1}, {2, 1}, {0, 0}, {1, 1}},
      {2, 1, 20, 12, 20, 12, {6, 6}, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {2, 4, 32, 32, 32, 32, {6, 5}, {3, 3}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {2, 16, 16, 16, 16, 16, {6, 5}, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {2, 1, 6, 4, 3, 2, {8, 8}, {3, 4}, {3, 3}, {3, 2}, {2, 1}, {2, 2}},
      {3, 1, 2, 4, 1, 1, {4, 5, 6}, {4, 5, 3}, {3, 3, 2}, {1, 1, 2}, {1, 1, 0}, {1, 1, 1}},
      {3, 2, 32, 32, 16, 16, {4, 4, 4}, {4, 4, 4}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_conv(&cases[i], 3, 0);
    check_conv(&cases[i], 1, 0);
  }
}

/* Where Winograd's transforms may be taken: rounding errors are 2e-6 of the largest result. */
static void three_by_three(void **state) {
  (void)state;
  static const DdpConv cases[] = {
      {2, 1, 16, 32, 16, 16, {8, 9}, {8, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
      {2, 1, 32, 16, 1, 16, {7, 7}, {5, 5}, {3, 3}, {1, 1}, {0, 0}, {1, 1}},
      {2, 1, 32, 48, 32, 48, {12, 12}, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_conv(&cases[i], 2, 4e-6);
#if DDP_HAVE_DNNL && DNNL_VERSION_MAJOR == 2 /* and it is oneDNN that was taken */
    for (int k = 0; k < 3; k++)
      assert_non_null(ddp_conv_find(&cases[i], (DdpConvResult)k, 2, NULL)->primitive);
#endif
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(exact), cmocka_unit_test(three_by_three)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
