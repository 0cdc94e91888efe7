/* Each kernel of kernels.cuh against double precision. */
#include "kernels.cuh"

static unsigned state = 1;
static float next() {
  state = state * 1664525u + 1013904223u;
  return static_cast<float>(state >> 8) / 8388608.f - 1.f;
}
static std::vector<float> floats(int n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float &x : v) x = next();
  return v;
}
static std::vector<bf16> halves(int n) {
  std::vector<bf16> v(static_cast<size_t>(n));
  for (bf16 &x : v) x = __float2bfloat16(next());
  return v;
}
static double value(bf16 x) {
  return static_cast<double>(__bfloat162float(x));
}
static double value(float x) {
  return static_cast<double>(x);
}
/* Largest difference between what the device has and what it should have. */
template <class T, class F> static double difference(const T *d, int n, const F &want) {
  std::vector<T> h = to_host(d, static_cast<size_t>(n));
  double most = 0;
  for (int i = 0; i < n; i++) {
    double e = fabs(value(h[static_cast<size_t>(i)]) - want(i));
    if (!(e <= most)) most = e; /* NaN stays */
  }
  return most;
}
#define WITHIN(error, limit)                                                                       \
  EXPECT((error) <= (limit), "off by %g, allowed %g", (error), static_cast<double>(limit))

static void test_add() {
  constexpr int N = 100003;
  auto a = floats(N), b = floats(N);
  float *c = device_array<float>(N);
  LAUNCH(add_vectors, (N + 1023) / 1024, 256, 0, 0, to_device(a), to_device(b), c, N);
  auto want = [&](int i) {
    return static_cast<double>(a[static_cast<size_t>(i)] + b[static_cast<size_t>(i)]);
  };
  WITHIN(difference(c, N, want), 0);
}

static void test_layer_norm() {
  constexpr int ROWS = 37, BLOCKS = 3;
  auto x = halves(ROWS * C), w = halves(C), dy = halves(ROWS * C);
  auto at = [](const std::vector<bf16> &v, int i) { return value(v[static_cast<size_t>(i)]); };
  std::vector<double> mean(ROWS), rstd(ROWS);
  for (int r = 0; r < ROWS; r++) {
    double s = 0, q = 0;
    for (int c = 0; c < C; c++) s += at(x, r * C + c) / C;
    for (int c = 0; c < C; c++) q += pow(at(x, r * C + c) - s, 2) / C;
    mean[static_cast<size_t>(r)] = s;
    rstd[static_cast<size_t>(r)] = 1 / sqrt(q + 1e-5);
  }
  auto norm = [&](int r, int c) {
    return (at(x, r * C + c) - mean[static_cast<size_t>(r)]) * rstd[static_cast<size_t>(r)];
  };
  bf16 *dx = to_device(x), *ddy = to_device(dy), *y = device_array<bf16>(ROWS * C);
  float *dm = device_array<float>(ROWS), *dr = device_array<float>(ROWS);
  float *parts = device_array<float>(BLOCKS * C), *dw = device_array<float>(C);
  LAUNCH(layer_norm, (ROWS + 3) / 4, 128, 0, 0, dx, to_device(w), y, dm, dr, ROWS);
  WITHIN(difference(dm, ROWS, [&](int i) { return mean[static_cast<size_t>(i)]; }), 1e-7);
  WITHIN(difference(dr, ROWS, [&](int i) { return rstd[static_cast<size_t>(i)]; }), 1e-6);
  /* bf16 keeps 8 bits of numbers below 4 */
  WITHIN(difference(y, ROWS * C, [&](int i) { return norm(i / C, i % C) * at(w, i % C); }),
         4. / 512);
  LAUNCH(layer_norm_weight, BLOCKS, 256, 8 * C * sizeof(float), 0, ddy, dx, dm, dr, parts, ROWS);
  LAUNCH(add_parts, 2, 256, 0, 0, parts, dw, C, BLOCKS);
  auto want = [&](int c) {
    double s = 0;
    for (int r = 0; r < ROWS; r++) s += at(dy, r * C + c) * norm(r, c);
    return s;
  };
  WITHIN(difference(dw, C, want), 1e-5);
}

static void test_cross_entropy() {
  constexpr int ROWS = 3, N = 5003;
  auto x = floats(ROWS * N);
  std::vector<int> target = {7, N - 1, 0};
  std::vector<double> sums(ROWS);
  auto at = [&](int i) { return static_cast<double>(x[static_cast<size_t>(i)]); };
  for (int i = 0; i < ROWS * N; i++) sums[static_cast<size_t>(i / N)] += exp(at(i));
  float *dx = to_device(x), *loss = device_array<float>(ROWS);
  LAUNCH(cross_entropy, ROWS, 1024, 0, 0, dx, to_device(target), loss, N);
  auto want = [&](int r) {
    return log(sums[static_cast<size_t>(r)]) - at(r * N + target[static_cast<size_t>(r)]);
  };
  WITHIN(difference(loss, ROWS, want), 2e-6);
  auto slope = [&](int i) {
    return exp(at(i)) / sums[static_cast<size_t>(i / N)] -
           (i % N == target[static_cast<size_t>(i / N)] ? 1 : 0);
  };
  WITHIN(difference(dx, ROWS * N, slope), 1e-7);
}

static void test_matmul() {
  constexpr int M = 70, N = 45, K = 100;
  auto a = floats(M * K), b = floats(K * N);
  float *c = device_array<float>(M * N);
  LAUNCH(matmul, dim3((N + 31) / 32, (M + 31) / 32), 256, 0, 0, to_device(a), to_device(b), c, M, N,
         K);
  auto want = [&](int i) {
    double s = 0;
    for (int k = 0; k < K; k++)
      s += static_cast<double>(a[static_cast<size_t>(i / N * K + k)]) *
           static_cast<double>(b[static_cast<size_t>(k * N + i % N)]);
    return s;
  };
  WITHIN(difference(c, M * N, want), 1e-5);
}

static void test_adamw() {
  constexpr int N = 1000;
  auto p = floats(N), g = floats(N), m = floats(N), v = floats(N);
  for (float &x : v) x = fabsf(x);
  float *dp = to_device(p), *dm = to_device(m), *dv = to_device(v);
  bf16 *half = device_array<bf16>(N);
  Rates *rates = to_device(std::vector<Rates>{{1e-3f, 10.f, 20.f}});
  LAUNCH(adamw, (N + 255) / 256, 256, 0, 0, dp, half, to_device(g), dm, dv, rates, N);
  auto want = [&](int i) {
    size_t j = static_cast<size_t>(i);
    double mi = 0.9 * value(m[j]) + 0.1 * value(g[j]),
           vi = 0.95 * value(v[j]) + 0.05 * value(g[j]) * value(g[j]);
    return value(p[j]) - 1e-3 * (mi * 10 / (sqrt(vi * 20) + 1e-8) + 0.1 * value(p[j]));
  };
  WITHIN(difference(dp, N, want), 2e-7);
  WITHIN(difference(half, N, want), 1. / 256);
}

static void test_attention() {
  constexpr int LENGTH = 100, HEADS = 2, ALL = HEADS * LENGTH * D;
  auto q = floats(ALL), k = floats(ALL), v = floats(ALL);
  float *out = device_array<float>(ALL);
  LAUNCH(attention, dim3((LENGTH + TILE - 1) / TILE, HEADS), TILE, 2 * TILE * D * sizeof(float), 0,
         to_device(q), to_device(k), to_device(v), out, LENGTH, 0.17f);
  auto want = [&](int i) {
    int d = i % D, row = i / D % LENGTH, base = i / D / LENGTH * LENGTH * D;
    double sum = 0, all = 0;
    for (int j = 0; j <= row; j++) {
      double s = 0;
      for (int e = 0; e < D; e++)
        s += value(q[static_cast<size_t>(base + row * D + e)]) *
             value(k[static_cast<size_t>(base + j * D + e)]);
      all += exp(s * 0.17f);
      sum += exp(s * 0.17f) * value(v[static_cast<size_t>(base + j * D + d)]);
    }
    return sum / all;
  };
  WITHIN(difference(out, ALL, want), 1e-6);
}

static void test_tensor() {
  auto a = halves(256), b = halves(128);
  float *c = device_array<float>(128);
  LAUNCH(tensor_tile, 1, 32, 0, 0, to_device(a), to_device(b), c);
  auto want = [&](int i) {
    double s = 0;
    for (int k = 0; k < 16; k++)
      s += value(a[static_cast<size_t>(i / 8 * 16 + k)]) *
           value(b[static_cast<size_t>(i % 8 * 16 + k)]);
    return s;
  };
  WITHIN(difference(c, 128, want), 1e-6);
}

int main() {
  test_add();
  test_layer_norm();
  test_cross_entropy();
  test_matmul();
  test_adamw();
  test_attention();
  test_tensor();
  return failures != 0;
}
