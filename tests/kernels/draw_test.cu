/* Draws and functions of a device against the CPU's; sums and maxima of warps and blocks. */
#include "cuda/draw.h"
#include "check.h"
#include "oracle.h"

/* ---------- draws ---------- */

static __global__ void __launch_bounds__(64)
    draws(const DdpScalars *scalars, DdpSite site, int kind, double *to, int rows, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= rows * n) return;
  const DdpDraw d = ddp_draw_here(scalars, site);
  const DdpRow row = ddp_row(d, d.sample[i / n]);
  const uint32_t element = static_cast<uint32_t>(i % n);
  to[i] = kind == ORACLE_uniform     ? static_cast<double>(ddp_uniform(row, element))
          : kind == ORACLE_normal    ? static_cast<double>(ddp_normal(row, element))
          : kind == ORACLE_bernoulli ? static_cast<double>(ddp_bernoulli(row, element, 0.7f))
                                     : static_cast<double>(ddp_randint(row, element, -3, 1000));
}

/* The same launches give other draws when seed, update or epoch in memory change. */
static void same_draws(void **state) {
  (void)state;
  const int rows = 3, n = 50;
  const std::vector<int64_t> sample = {17, 0, 123456789012};
  const int64_t turn[] = {4, 0};
  int64_t *const d_sample = to_device(sample);
  DdpScalars *const scalars = device_array<DdpScalars>(1);
  double *const to = device_array<double>(static_cast<size_t>(rows * n));
  for (int64_t update = -1; update < 3; update++)
    for (int kind = 0; kind < 4; kind++)
      for (int turns = 0; turns < 3; turns++)
        for (const bool data : {false, true}) {
          DdpScalars host = {};
          host.seed = 42;
          host.update = update;
          host.epoch = 7 - update;
          CHECK_CUDA(cudaDeviceSynchronize());
          CHECK_CUDA(cudaMemcpy(scalars, &host, sizeof host, cudaMemcpyHostToDevice));
          DdpSite site = ddp_site(0xabcdef, d_sample, data);
          for (int t = 0; t < turns; t++) site = ddp_site_turn(site, turn[t]);
          DDP_LAUNCH(draws, ddp_blocks(rows * n, 64), 64, 0, stream(), scalars, site, kind, to,
                     rows, n);
          const std::vector<double> got = result(to, static_cast<size_t>(rows * n));
          for (int i = 0; i < rows * n; i++) {
            const double want = oracle_draw(
                static_cast<OracleDraw>(kind), 42, data ? host.epoch : update, 0xabcdef, turn,
                turns, sample[static_cast<size_t>(i / n)], static_cast<uint32_t>(i % n));
            const double off = std::fabs(got[static_cast<size_t>(i)] - want);
            /* normal goes through log and sqrt: a few units in the last place of numbers up to 6 */
            EXPECT(kind == ORACLE_normal ? off < 2e-6 : off == 0,
                   "draw %d of kind %d: %g, should be %g", i, kind, got[static_cast<size_t>(i)],
                   want);
          }
        }
}

/* ---------- functions ---------- */

static __global__ void __launch_bounds__(64) functions(const float *x, float *y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  float *const to = y + i * ORACLE_FUNCTIONS;
  to[ORACLE_exp] = ddp_expf(x[i]);
  to[ORACLE_expm1] = ddp_expm1f(x[i]);
  to[ORACLE_log] = ddp_logf(x[i]);
  to[ORACLE_log1p] = ddp_log1pf(x[i]);
  to[ORACLE_tanh] = ddp_tanhf(x[i]);
  to[ORACLE_erf] = ddp_erff(x[i]);
  to[ORACLE_sin] = ddp_sinf(x[i]);
  to[ORACLE_cos] = ddp_cosf(x[i]);
}

/* Two correct roundings and their errors: 2.5 units of the CPU's and 2 of CUDA's. */
static void same_functions(void **state) {
  (void)state;
  std::vector<float> x = {0.0f, -0.0f, INFINITY, -INFINITY, NAN,
                          1.0f, -1.0f, 88.8f,    -104.0f,   1e-40f};
  for (size_t i = 0; i < 3000; i++)
    x.push_back(noise(i) * std::ldexp(1.0f, static_cast<int>(i % 24) - 16));
  float *const y = device_array<float>(x.size() * ORACLE_FUNCTIONS);
  const int n = static_cast<int>(x.size());
  DDP_LAUNCH(functions, ddp_blocks(n, 64), 64, 0, stream(), to_device(x), y, n);
  const std::vector<float> got = result(y, x.size() * ORACLE_FUNCTIONS);
  for (size_t i = 0; i < got.size(); i++) {
    const float at = x[i / ORACLE_FUNCTIONS];
    const int f = static_cast<int>(i % ORACLE_FUNCTIONS);
    const float want = oracle_function(static_cast<OracleFunction>(f), at);
    const float unit = std::nextafter(std::fabs(want), INFINITY) - std::fabs(want);
    EXPECT(same_bits(got[i], want) || std::fabs(got[i] - want) <= 4.5f * unit,
           "function %d of %a: %a, should be %a", f, static_cast<double>(at),
           static_cast<double>(got[i]), static_cast<double>(want));
  }
}

/* ---------- warps and blocks ---------- */

static __global__ void __launch_bounds__(1024)
    together(const float *x, float *sum, float *most, double *precise) {
  __shared__ float parts[32];
  __shared__ double precise_parts[32];
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  sum[i] = ddp_block_sum(x[i], parts);
  most[i] = ddp_block_max(x[i], parts);
  precise[i] = ddp_block_sum(static_cast<double>(x[i]), precise_parts);
}

static void blocks(unsigned threads, float special) {
  const size_t n = threads * 3;
  std::vector<float> x = noises(n, threads);
  x[threads + threads / 2] = special;
  float *const sum = device_array<float>(n), *const most = device_array<float>(n);
  double *const precise = device_array<double>(n);
  DDP_LAUNCH(together, 3, threads, 0, stream(), to_device(x), sum, most, precise);
  const std::vector<float> got = result(sum, n), got_most = result(most, n);
  const std::vector<double> got_precise = result(precise, n);
  for (size_t b = 0; b < 3; b++) {
    double want = 0;
    float largest = -INFINITY;
    for (size_t i = b * threads; i < (b + 1) * threads; i++) {
      want += static_cast<double>(x[i]);
      if (x[i] > largest || std::isnan(x[i])) largest = x[i];
      if (std::isnan(largest)) break;
    }
    for (size_t i = b * threads; i < (b + 1) * threads; i++) {
      EXPECT(same_bits(got_most[i], largest), "maximum of thread %zu of %u", i, threads);
      if (!std::isfinite(special) && b == 1) continue;
      EXPECT(std::fabs(static_cast<double>(got[i]) - want) < 1e-6 * threads, "sum of thread %zu",
             i);
      EXPECT(std::fabs(got_precise[i] - want) < 1e-12, "sum in double of thread %zu", i);
    }
  }
}

static void all_blocks(void **state) {
  (void)state;
  for (const unsigned threads : {32u, 64u, 96u, 1024u})
    for (const float special : {0.5f, INFINITY, NAN}) blocks(threads, special);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_draws),
      cmocka_unit_test(same_functions),
      cmocka_unit_test(all_blocks),
  };
  return verdict(cmocka_run_group_tests(tests, NULL, NULL));
}
