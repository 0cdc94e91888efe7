/* Attention of a device against loops in double precision: value, logsumexp and all three gradients; causal, masks of
   bools and of numbers, dropout, heads that share keys, views, widths and lengths that fill no tile, rows in which
   nothing is seen; f32 and 16-bit floats. */
#include "cuda/attention.h"
#include "cudnn_stand_in.h"

typedef enum Mask { MASK_none, MASK_bool, MASK_keys, MASK_added } Mask;

typedef struct Case {
  int64_t batch, heads, groups, t, s;
  bool causal;
  Mask mask;
  float keep;
  bool packed; /* q, k and v lie side by side in one activation */
} Case;

static double number(int64_t i, int64_t seed) {
  const uint64_t x = ddp_mix64(static_cast<uint64_t>(i * 131 + seed * 7919));
  return static_cast<double>(x >> 40) / (1 << 23) - 1;
}

typedef struct Shape { /* what a case is for widths k and v */
  DdpAttention a;
  int64_t q_size, k_size, v_size, y_size; /* numbers in memory */
} Shape;

static Shape shape_of(const Case &c, int64_t k, int64_t v) {
  Shape s = {};
  DdpAttention &a = s.a;
  a.batch = c.batch, a.heads = c.heads, a.groups = c.groups, a.t = c.t, a.s = c.s, a.k = k, a.v = v;
  a.scale = 1 / sqrtf(static_cast<float>(k));
  a.causal = c.causal, a.keep = c.keep;
  const int64_t q = c.heads * k, key = c.groups * k, value = c.groups * v;
  const int64_t row = c.packed ? q + key + value : 0;
  a.q = {nullptr, c.t * (row ? row : q), row ? row : q, k};
  a.key = {nullptr, c.s * (row ? row : key), row ? row : key, k};
  a.value = {nullptr, c.s * (row ? row : value), row ? row : value, v};
  s.q_size = c.batch * a.q.batch, s.k_size = c.batch * a.key.batch,
  s.v_size = c.batch * a.value.batch;
  s.y_size = c.batch * c.t * c.heads * v;
  return s;
}

typedef struct Want {
  Numbers y, lse, dq, dk, dv;
} Want;

enum { SITE = 5, UPDATE = 3, SEED = 42 };

static int64_t place(const DdpHeads &x, int64_t b, int64_t i, int64_t h) {
  return b * x.batch + i * x.time + h * x.head;
}

/* One head of one sample, added into the gradients. */
static void reference_head(const DdpAttention &a, int64_t b, int64_t h, const Numbers &q,
                           const Numbers &k, const Numbers &v, const Numbers &mask,
                           const Numbers &g, const int64_t *sample, Want *w) {
  const int64_t group = h / (a.heads / a.groups);
  const DdpRow draws = ddp_row(ddp_draw(SEED, UPDATE, SITE, sample), sample[b]);
  for (int64_t i = 0; i < a.t; i++) {
    Numbers p(static_cast<size_t>(a.s)), kept(p.size(), 1.0), d(p.size());
    double most = -INFINITY, sum = 0, dot = 0;
    double *y = &w->y[static_cast<size_t>(((b * a.t + i) * a.heads + h) * a.v)];
    const double *gi = &g[static_cast<size_t>(((b * a.t + i) * a.heads + h) * a.v)];
    const double *qi = &q[static_cast<size_t>(place(a.q, b, i, h))];
    for (int64_t j = 0; j < a.s; j++) {
      const double *kj = &k[static_cast<size_t>(place(a.key, b, j, group))];
      double x = 0;
      for (int64_t c = 0; c < a.k; c++) x += qi[c] * kj[c];
      x *= static_cast<double>(a.scale);
      if (!mask.empty()) {
        const int64_t *s = a.mask_step;
        x += mask[static_cast<size_t>(b * s[0] + h * s[1] + i * s[2] + j * s[3])];
      }
      p[static_cast<size_t>(j)] = a.causal && j > i ? -INFINITY : x;
      most = fmax(most, p[static_cast<size_t>(j)]);
    }
    for (int64_t j = 0; j < a.s; j++) {
      double &x = p[static_cast<size_t>(j)];
      sum += x = x == -INFINITY ? 0 : exp(x - most);
    }
    w->lse[static_cast<size_t>((b * a.heads + h) * a.t + i)] = sum > 0 ? most + log(sum) : 0;
    for (int64_t j = 0; j < a.s; j++) {
      const size_t at = static_cast<size_t>(j);
      const double *vj = &v[static_cast<size_t>(place(a.value, b, j, group))];
      if (sum > 0) p[at] /= sum;
      if (a.keep < 1)
        kept[at] = static_cast<double>(ddp_bernoulli(
                       draws, static_cast<uint32_t>((h * a.t + i) * a.s + j), a.keep)) /
                   static_cast<double>(a.keep);
      double *dv = &w->dv[static_cast<size_t>(((b * a.s + j) * a.groups + group) * a.v)];
      for (int64_t c = 0; c < a.v; c++) {
        y[c] += p[at] * kept[at] * vj[c];
        d[at] += gi[c] * vj[c] * kept[at];
        dv[c] += p[at] * kept[at] * gi[c];
      }
      dot += p[at] * d[at];
    }
    for (int64_t j = 0; j < a.s; j++) {
      const size_t at = static_cast<size_t>(j);
      const double x = p[at] * (d[at] - dot) * static_cast<double>(a.scale);
      const double *kj = &k[static_cast<size_t>(place(a.key, b, j, group))];
      double *dq = &w->dq[static_cast<size_t>(((b * a.t + i) * a.heads + h) * a.k)];
      double *dk = &w->dk[static_cast<size_t>(((b * a.s + j) * a.groups + group) * a.k)];
      for (int64_t c = 0; c < a.k; c++) {
        dq[c] += x * kj[c];
        dk[c] += x * qi[c];
      }
    }
  }
}

/* Some keys are hidden, in one row all of them; MASK_keys: the same keys for all heads and queries. */
static Numbers make_mask(const Case &c, DdpAttention *a) {
  const int64_t shape[4] = {c.batch,
                            c.mask == MASK_added  ? 1
                            : c.mask == MASK_keys ? 1
                                                  : c.heads,
                            c.mask == MASK_keys ? 1 : c.t, c.s};
  Numbers mask;
  if (c.mask == MASK_none) return mask;
  mask.resize(static_cast<size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
  int64_t step = 1;
  for (int d = 3; d >= 0; d--) {
    a->mask_step[d] = shape[d] == 1 ? 0 : step;
    step *= shape[d];
  }
  for (size_t i = 0; i < mask.size(); i++) {
    const int64_t at = static_cast<int64_t>(i), row = at / c.s;
    const bool hidden = number(at, 9) < -0.5 || (row == 1 && shape[2] > 1);
    mask[i] = c.mask == MASK_added && row != 1 ? number(at, 11) : hidden ? -INFINITY : 0;
  }
  return mask;
}

/* What the device says; T: storage. */
template <class T, int K, int V> static void check_case(const Case &c, double tolerance) {
  Shape s = shape_of(c, K, V);
  DdpAttention &a = s.a;
  Numbers mask = make_mask(c, &a), q, k, v, g;
  for (int64_t i = 0; i < s.q_size; i++) q.push_back(2 * number(i, 1));
  for (int64_t i = 0; i < s.k_size; i++) k.push_back(2 * number(i, 2));
  for (int64_t i = 0; i < s.v_size; i++) v.push_back(number(i, 3));
  for (int64_t i = 0; i < s.y_size; i++) g.push_back(number(i, 4));
  std::vector<int64_t> sample;
  for (int64_t b = 0; b < c.batch; b++) sample.push_back(10 + 3 * b);
  const OnDevice<T> on_q(test_stored<T>(&q)), on_k(test_stored<T>(&k)), on_v(test_stored<T>(&v)),
      on_g(test_stored<T>(&g));
  const OnDevice<T> on_added(test_stored<T>(&mask));
  std::vector<unsigned char> seen;
  for (double m : mask) seen.push_back(m == 0);
  const OnDevice<unsigned char> on_seen(seen);
  const OnDevice<int64_t> on_sample(sample);

  Want w = {Numbers(g.size()), Numbers(static_cast<size_t>(c.batch * c.heads * c.t)),
            Numbers(static_cast<size_t>(c.batch * c.t * c.heads * K)),
            Numbers(static_cast<size_t>(c.batch * c.s * c.groups * K)),
            Numbers(static_cast<size_t>(c.batch * c.s * c.groups * V))};
  for (int64_t b = 0; b < c.batch; b++)
    for (int64_t h = 0; h < c.heads; h++)
      reference_head(a, b, h, q, k, v, mask, g, sample.data(), &w);

  a.q.at = on_q.at, a.key.at = on_k.at, a.value.at = on_v.at;
  if (c.mask != MASK_none)
    a.mask = c.mask == MASK_added ? static_cast<void *>(on_added.at) : on_seen.at;
  a.mask_added = c.mask == MASK_added;
  const DdpScalars numbers = {SEED, UPDATE, 0, 1, 1, {}};
  const OnDevice<DdpScalars> scalars(std::vector<DdpScalars>{numbers});
  const OnDevice<char> scratch(static_cast<size_t>(ddp_attention_scratch(c.batch, c.heads, c.t)));
  const DdpSite site = ddp_site(SITE, on_sample.at, false);
  DdpStep step = {};
  cudaStream_t stream;
  assert_int_equal(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  step.stream = stream, step.scalars = scalars.at, step.scratch = scratch.at;
  OnDevice<T> y(w.y.size()), dq(w.dq.size()), dk(w.dk.size()), dv(w.dv.size());
  OnDevice<float> lse(w.lse.size());
  ddp_attention<T, K, V>(&step, a, site, y.at, nullptr); /* as an evaluation calls it */
  assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
  test_close("y without lse", y.read(), w.y, tolerance);
  ddp_attention<T, K, V>(&step, a, site, y.at, lse.at);
  const DdpHeads on_heads = {on_g.at, c.t * c.heads * V, c.heads * V, V};
  const DdpHeads of_y = {y.at, c.t * c.heads * V, c.heads * V, V};
  ddp_attention_grad<T, K, V>(&step, a, site, on_heads, of_y, lse.at, dq.at, dk.at, dv.at);
  assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
  cudaStreamDestroy(stream);
  test_close("y", y.read(), w.y, tolerance);
  test_close("lse", lse.read(), w.lse, sizeof(T) == 4 ? tolerance : 1e-5);
  test_close("dq", dq.read(), w.dq, tolerance);
  test_close("dk", dk.read(), w.dk, tolerance);
  test_close("dv", dv.read(), w.dv, tolerance);
}

static const Case cases[] = {
    {2, 2, 2, 64, 64, false, MASK_none, 1, false},
    {1, 2, 2, 100, 100, true, MASK_none, 1, true},
    {1, 4, 2, 70, 70, true, MASK_none, 0.75f, true},
    {2, 2, 1, 5, 130, false, MASK_bool, 1, false},
    {2, 2, 2, 67, 33, false, MASK_keys, 1, false},
    {1, 3, 3, 33, 67, true, MASK_added, 0.5f, false},
    {1, 2, 2, 1, 1, true, MASK_none, 1, false},
};

/* Sums have up to 300 terms, each off by half a unit in the last place; and exp of scores that are off by one of
   theirs. 16-bit floats: weights are rounded before they are multiplied, results when they are stored. */
template <class T, int K, int V> static void all_cases(double tolerance) {
  for (const Case &c : cases) check_case<T, K, V>(c, tolerance);
}

static void floats(void **state) {
  (void)state;
  all_cases<float, 64, 64>(3e-6);
  check_case<float, 5, 7>(cases[1], 3e-6);
  check_case<float, 128, 96>(cases[2], 3e-6);
  check_case<float, 256, 256>(cases[3], 3e-6);
  check_case<float, 32, 256>(cases[5], 3e-6);
}

/* On tensor cores. */
static void halves(void **state) {
  (void)state;
  all_cases<__nv_bfloat16, 64, 64>(1.0 / 128);
  check_case<__nv_bfloat16, 16, 32>(cases[1], 1.0 / 128);
  check_case<__nv_bfloat16, 128, 128>(cases[2], 1.0 / 128);
  check_case<__half, 128, 96>(cases[3], 1.0 / 1024);
  check_case<__half, 32, 128>(cases[5], 1.0 / 1024);
}

/* Widths that tensor cores do not take. */
static void odd_halves(void **state) {
  (void)state;
  check_case<__nv_bfloat16, 20, 8>(cases[1], 1.0 / 256);
  check_case<__nv_bfloat16, 192, 16>(cases[5], 1.0 / 256);
  check_case<__half, 8, 8>(cases[3], 1.0 / 2048);
}

int main() {
  const struct CMUnitTest tests[] = {cmocka_unit_test(floats), cmocka_unit_test(halves),
                                     cmocka_unit_test(odd_halves)};
  stand_in_begin();
  return verdict(stand_in_end(cmocka_run_group_tests(tests, NULL, NULL)));
}
