/* Pooling and its gradients, bit for bit as the CPU's; in 16 bits as the CPU's from the same numbers, rounded once. */
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

/* What the device has at y, against `want` as the type of storage holds it. */
template <class T> static void compare(const T *y, std::vector<float> want, const char *what) {
  test_stored<T>(&want);
  EXPECT_SAME(test_loaded(result(y, want.size())), want, "%s, storage of %zu bytes", what, sizeof(T));
}

template <class T> static void run(const Case &c, bool max, bool accumulate) {
  size_t from = static_cast<size_t>(c.outer * c.inner), to = from;
  for (int64_t i = 0; i < c.pool.space; i++)
    from *= static_cast<size_t>(c.pool.in[i]), to *= static_cast<size_t>(c.pool.out[i]);
  std::vector<float> x = noises(from, 1), g = noises(to, 2), want = noises(to, 3);
  for (size_t i = 0; i < from; i += 3) x[i] = std::floor(x[i] * 2); /* equal neighbours */
  if (from > 30) x[29] = NAN, x[11] = -INFINITY;
  T *const dx = to_device(test_stored<T>(&x)), *const dg = to_device(test_stored<T>(&g));
  auto *const pool = max ? ddp_pool_max<T> : ddp_pool_sum<T>;
  T *const y = to_device(test_stored<T>(&want));
  char what[96];
  snprintf(what, sizeof what, "%s, max %d, accumulate %d", c.name, max, accumulate);
  pool(stream(), &c.pool, c.outer, c.inner, dx, nullptr, y, accumulate);
  oracle_pool(max, &c.pool, c.outer, c.inner, x.data(), nullptr, want.data(), accumulate);
  compare(y, want, what);
  want = noises(from, 4);
  T *const d = to_device(test_stored<T>(&want));
  pool(stream(), &c.pool, c.outer, c.inner, max ? dx : nullptr, dg, d, accumulate);
  oracle_pool(max, &c.pool, c.outer, c.inner, max ? x.data() : nullptr, g.data(), want.data(),
              accumulate);
  compare(d, want, what);
}

template <class T> static void pooling(void **state) {
  (void)state;
  for (const Case &c : cases)
    for (const bool max : {false, true})
      for (const bool accumulate : {false, true})
        if ((!max || c.pool.divide != 1) &&
            (sizeof(T) == 4 || !accumulate)) /* as the emitter asks */
          run<T>(c, max, accumulate);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pooling<float>),
      cmocka_unit_test(pooling<__nv_bfloat16>),
      cmocka_unit_test(pooling<__half>),
  };
  return verdict(cmocka_run_group_tests(tests, NULL, NULL));
}
