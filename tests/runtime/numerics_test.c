/* Draws, order of the data and gradient norms against checksums of PyTorch's bytes. */
#include "check.h"
#include "norm.h"
#include "orthogonal.h"
#include "rng.h"
#include "sampler.h"
#include <math.h>
#include <zlib.h>
#include "torch_fixtures.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static uint32_t crc_add(uint32_t crc, const void *data, size_t bytes) {
  return (uint32_t)crc32(crc, data, (uInt)bytes);
}

static uint32_t uniforms(DdpRng *g) {
  static const int64_t sizes[] = {1, 3, 1000, 100003};
  float *x = malloc(100003 * sizeof *x);
  uint32_t crc = 0;
  for (size_t i = 0; i < COUNT(sizes); i++) {
    ddp_rng_uniform(g, x, sizes[i], -0.0360844, 0.0360844);
    crc = crc_add(crc, x, (size_t)sizes[i] * sizeof *x);
  }
  free(x);
  return crc;
}

static uint32_t normals(DdpRng *g) {
  static const int64_t sizes[] = {16, 17, 31, 32, 33, 1000, 1 << 18};
  float *x = malloc((1 << 18) * sizeof *x);
  uint32_t crc = 0;
  for (size_t i = 0; i < COUNT(sizes); i++) {
    ddp_rng_normal(g, x, sizes[i], 0, 1);
    crc = crc_add(crc, x, (size_t)sizes[i] * sizeof *x);
    ddp_rng_normal(g, x, sizes[i], 0.5, 0.02);
    crc = crc_add(crc, x, (size_t)sizes[i] * sizeof *x);
  }
  free(x);
  return crc;
}

static uint32_t small_normals(DdpRng *g) {
  float x[16];
  uint32_t crc = 0;
  for (int64_t n = 1; n < 16; n++) {
    ddp_rng_normal(g, x, n, 0.25, 2.0);
    crc = crc_add(crc, x, (size_t)n * sizeof *x);
  }
  return crc;
}

/* The second half of a scalar pair survives other draws. */
static uint32_t cached_normals(DdpRng *g) {
  float x[16];
  ddp_rng_normal(g, x, 1, 0, 1);
  uint32_t crc = crc_add(0, x, sizeof *x);
  ddp_rng_uniform(g, x, 3, 0, 1);
  crc = crc_add(crc, x, 3 * sizeof *x);
  ddp_rng_normal(g, x, 16, 0, 1);
  crc = crc_add(crc, x, 16 * sizeof *x);
  ddp_rng_normal(g, x, 1, 0, 1);
  return crc_add(crc, x, sizeof *x);
}

static uint32_t randperms(DdpRng *g) {
  static const int64_t sizes[] = {0, 1, 2, 10, 1000, 100003};
  int64_t *x = malloc(100003 * sizeof *x);
  uint32_t crc = 0;
  for (size_t i = 0; i < COUNT(sizes); i++) {
    ddp_rng_randperm(g, x, sizes[i]);
    crc = crc_add(crc, x, (size_t)sizes[i] * sizeof *x);
  }
  free(x);
  return crc;
}

static uint32_t randints(DdpRng *g) {
  static const int64_t bounds[][2] = {
      {0, 10}, {-5, (1 << 28) - 6}, {-5, (1 << 28) - 5}, {0, INT64_C(1) << 40}};
  uint32_t crc = 0;
  for (size_t i = 0; i < COUNT(bounds); i++) {
    for (int k = 0; k < 100; k++) {
      int64_t v = ddp_rng_randint(g, bounds[i][0], bounds[i][1]);
      crc = crc_add(crc, &v, sizeof v);
    }
  }
  return crc;
}

static void draws_are_pytorchs(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT(rng_fixtures); i++) {
    DdpRng g;
    ddp_rng_seed(&g, (uint64_t)rng_fixtures[i].seed);
    assert_int_equal(uniforms(&g), rng_fixtures[i].uniform);
    assert_int_equal(normals(&g), rng_fixtures[i].normal);
    assert_int_equal(small_normals(&g), rng_fixtures[i].small);
    assert_int_equal(cached_normals(&g), rng_fixtures[i].cached);
    assert_int_equal(randperms(&g), rng_fixtures[i].randperm);
    assert_int_equal(randints(&g), rng_fixtures[i].randint);
  }
}

/* Draws that are thrown away move the stream as far as those that are kept. */
static void skipped_draws_move_the_stream(void **state) {
  (void)state;
  static const int64_t sizes[] = {3, 15, 16, 17, 100};
  float x[128];
  for (size_t i = 0; i < COUNT(sizes); i++) {
    DdpRng kept, skipped;
    ddp_rng_seed(&kept, 9);
    ddp_rng_seed(&skipped, 9);
    ddp_rng_normal(&kept, x, sizes[i], 0, 1);
    ddp_rng_uniform(&kept, x, sizes[i], -1, 1);
    ddp_rng_normal(&skipped, NULL, sizes[i], 0, 1);
    ddp_rng_uniform(&skipped, NULL, sizes[i], -1, 1);
    assert_int_equal(ddp_rng_u32(&kept), ddp_rng_u32(&skipped));
  }
}

/* Of the vectors of a matrix (its rows where there are fewer of those): products with each other, and
   with the draws they came from: R has nothing below its diagonal, which is positive. No other Q has
   such an R. */
static void check_orthogonal(const float *q, const float *a, int64_t rows, int64_t columns,
                             double gain) {
  bool wide = rows < columns;
  int64_t n = wide ? rows : columns, length = wide ? columns : rows;
  int64_t next = wide ? columns : 1, step = wide ? 1 : columns;
  for (int64_t v = 0; v < n; v++) {
    for (int64_t u = 0; u < n; u++) {
      double product = 0, r = 0;
      for (int64_t i = 0; i < length; i++) {
        product += (double)q[v * next + i * step] * q[u * next + i * step];
        r += (double)q[v * next + i * step] * a[u * next + i * step];
      }
      assert_true(fabs(product - (u == v ? gain * gain : 0)) <= 1e-6 * gain * gain);
      if (u == v) assert_true(r > 0);
      /* q is rounded to float32, a column of a is about 10 long */
      if (u < v) assert_true(fabs(r) <= 1e-5 * gain);
    }
  }
}

static void orthogonal_is_q(void **state) {
  (void)state;
  static const struct {
    int64_t rows, columns;
    double gain;
  } cases[] = {{1, 1, 1}, {5, 3, 2}, {3, 5, 0.5}, {40, 40, 1}, {70, 33, 1.5}, {33, 70, 1}};
  static float a[70 * 40], q[70 * 40], again[70 * 40];
  static double room[70 * 40];
  DdpRng g;
  ddp_rng_seed(&g, 3);
  for (size_t k = 0; k < COUNT(cases); k++) {
    int64_t rows = cases[k].rows, columns = cases[k].columns;
    size_t bytes = (size_t)(rows * columns) * sizeof *a;
    ddp_rng_normal(&g, a, rows * columns, 0, 1);
    memcpy(q, a, bytes);
    memcpy(again, a, bytes);
    ddp_orthogonal(q, room, rows, columns, cases[k].gain);
    ddp_orthogonal(again, room, rows, columns, cases[k].gain);
    assert_memory_equal(q, again, bytes);
    check_orthogonal(q, a, rows, columns, cases[k].gain);
  }
}

static void orders_are_those_of_the_samplers(void **state) {
  (void)state;
  int cases = 0;
  for (size_t i = 0; i < COUNT(sampler_fixtures); i++) {
    uint32_t crc = 0;
    int world = sampler_fixtures[i].world;
    for (int rank = 0; rank < world; rank++, cases++) {
      DdpSampler s;
      DdpShards shards = {sampler_fixtures[i].samples, world, sampler_fixtures[i].batch,
                          sampler_fixtures[i].drop_last, sampler_fixtures[i].batch > 0};
      CHECK_OK(ddp_sampler_open(&s, &shards, rank, sampler_fixtures[i].shuffle, 5));
      ddp_sampler_epoch(&s, sampler_fixtures[i].epoch);
      assert_int_equal(s.count, sampler_fixtures[i].count);
      crc = crc_add(crc, s.index, (size_t)s.count * sizeof *s.index);
      ddp_sampler_close(&s);
    }
    assert_int_equal(crc, sampler_fixtures[i].crc);
  }
  assert_int_equal(cases, SAMPLER_CASES);
}

/* Bug report 83: another order in every epoch. */
static void epochs_differ(void **state) {
  (void)state;
  static const int64_t first[] = {2, 1, 4, 0, 3}, second[] = {8, 9, 5, 6, 2};
  DdpSampler s;
  CHECK_OK(ddp_sampler_open(&s, &(DdpShards){10, 2, 1, false, false}, 0, true, 42));
  ddp_sampler_epoch(&s, 0);
  assert_memory_equal(s.index, first, sizeof first);
  ddp_sampler_epoch(&s, 1);
  assert_memory_equal(s.index, second, sizeof second);
  ddp_sampler_close(&s);
}

static void norms_are_pytorchs(void **state) {
  (void)state;
  DdpRng g;
  ddp_rng_seed(&g, 1);
  float *x = malloc(100003 * sizeof *x), most;
  for (size_t i = 0; i < COUNT(norm_fixtures); i++) {
    ddp_rng_uniform(&g, x, norm_fixtures[i].n, -1, 1);
    ddp_rng_uniform(&g, &most, 1, 0, 1);
    float norm = ddp_norm(x, norm_fixtures[i].n);
    /* A vector of one norm: its own norm, squared and rooted again, is what PyTorch returns. */
    float total = ddp_norm(&norm, 1);
    assert_memory_equal(&total, &norm_fixtures[i].norm, sizeof total);
    assert_memory_equal(&most, &norm_fixtures[i].max_norm, sizeof most);
    float c = ddp_norm_coefficient(total, (double)most);
    assert_memory_equal(&c, &norm_fixtures[i].coefficient, sizeof c);
  }
  free(x);
  assert_true(isnan(ddp_norm_coefficient(NAN, 1)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(draws_are_pytorchs), cmocka_unit_test(skipped_draws_move_the_stream),
      cmocka_unit_test(orthogonal_is_q),    cmocka_unit_test(orders_are_those_of_the_samplers),
      cmocka_unit_test(epochs_differ),      cmocka_unit_test(norms_are_pytorchs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
