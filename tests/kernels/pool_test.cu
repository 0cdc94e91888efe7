/* Pooling and its gradients, bit for bit as the CPU's. */
#include "cuda/pool.h"
#include "check.h"
#include "oracle.h"

struct Case {
  const char *name;
  DdpPool pool;
  int64_t outer, inner;
};
/* in, out, window, stride, padding, dilation; out is what torch gives (some with ceil_mode). */
static const Case cases[] = {
    {"2x2", {2, {6, 8}, {3, 4}, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, 0}, 3, 5},
    {"3x3 stride 2 padding 1",
     {2, {7, 9}, {4, 5}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, 1},
     2,
     16},
    {"ceil", {2, {7, 6}, {4, 3}, {2, 3}, {2, 2}, {0, 1}, {1, 1}, false, 2}, 2, 3},
    {"overlapping", {2, {6, 6}, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, 1}, 1, 4},
    {"dilated", {2, {9, 10}, {5, 3}, {3, 2}, {1, 3}, {0, 1}, {2, 3}, false, 0}, 2, 2},
    {"gaps", {1, {11}, {4}, {2}, {3}, {0}, {1}, false, 2}, 4, 3},
    {"1d", {1, {17}, {9}, {3}, {2}, {1}, {1}, false, 1}, 2, 1},
    {"3d", {3, {4, 5, 6}, {2, 3, 3}, {2, 2, 3}, {2, 2, 2}, {0, 1, 1}, {1, 1, 1}, false, 1}, 2, 3},
    {"adaptive", {2, {7, 5}, {3, 4}, {0, 0}, {1, 1}, {0, 0}, {1, 1}, true, 2}, 2, 4},
    {"adaptive, larger", {2, {3, 4}, {5, 9}, {0, 0}, {1, 1}, {0, 0}, {1, 1}, true, 2}, 2, 2},
    {"global", {2, {6, 6}, {1, 1}, {6, 6}, {6, 6}, {0, 0}, {1, 1}, false, 2}, 3, 20},
};

static void run(const Case &c, bool max, bool accumulate) {
  size_t from = static_cast<size_t>(c.outer * c.inner), to = from;
  for (int64_t i = 0; i < c.pool.space; i++)
    from *= static_cast<size_t>(c.pool.in[i]), to *= static_cast<size_t>(c.pool.out[i]);
  std::vector<float> x = noises(from, 1);
  for (size_t i = 0; i < from; i += 3) x[i] = std::floor(x[i] * 2); /* equal neighbours */
  if (from > 30) x[29] = NAN, x[11] = -INFINITY;
  const std::vector<float> g = noises(to, 2);
  float *const dx = to_device(x), *const dg = to_device(g);
  auto *const pool = max ? ddp_pool_max : ddp_pool_sum;
  std::vector<float> want = noises(to, 3);
  float *const y = to_device(want);
  pool(stream(), &c.pool, c.outer, c.inner, dx, nullptr, y, accumulate);
  oracle_pool(max, &c.pool, c.outer, c.inner, x.data(), nullptr, want.data(), accumulate);
  EXPECT_SAME(result(y, to), want, "%s, forward, max %d, accumulate %d", c.name, max, accumulate);
  want = noises(from, 4);
  float *const d = to_device(want);
  pool(stream(), &c.pool, c.outer, c.inner, max ? dx : nullptr, dg, d, accumulate);
  oracle_pool(max, &c.pool, c.outer, c.inner, max ? x.data() : nullptr, g.data(), want.data(),
              accumulate);
  EXPECT_SAME(result(d, from), want, "%s, backward, max %d, accumulate %d", c.name, max,
              accumulate);
}

static void pooling(void **state) {
  (void)state;
  for (const Case &c : cases)
    for (const bool max : {false, true})
      for (const bool accumulate : {false, true})
        if (!max || c.pool.divide != 1) run(c, max, accumulate);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pooling),
  };
  return verdict(cmocka_run_group_tests(tests, NULL, NULL));
}
