/* ddp_adamw and ddp_sgd: the bits of PyTorch (torch_optimizers.h) for equal gradients, also when a
   tensor is worked through in parts. Built with the flags of a job. */
#include "kernels/cpu/optimizer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "torch_optimizers.h"

static float whole(int i, int multiplier, int offset, int modulus) {
  return (float)((i * multiplier + offset) % modulus - modulus / 2);
}
static void parameters(float *p) {
  for (int i = 0; i < FIXTURE_N; i++) p[i] = whole(i, 37, 11, 97) / 531.0f;
}
static void gradient(float *g, int step) {
  for (int i = 0; i < FIXTURE_N; i++) g[i] = whole(i, 53, 7 + 29 * step, 101) / 1023.0f;
}
static void same_bits(const float *got, const uint32_t *want) {
  for (int i = 0; i < FIXTURE_N; i++) assert_int_equal(ddp_bits(got[i]), want[i]);
}

static bool fused_hardware(void) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return true;
#else
  return false;
#endif
}

static void adamw(const AdamwFixture *f, int split) {
  float p[FIXTURE_N], g[FIXTURE_N], m[FIXTURE_N] = {0}, v[FIXTURE_N] = {0};
  parameters(p);
  for (int step = 0; step < FIXTURE_STEPS; step++) {
    gradient(g, step);
    ddp_adamw(p, g, m, v, split, 3e-3, f->weight_decay, f->beta1, 0.999, 1e-8, step + 1);
    ddp_adamw(p + split, g + split, m + split, v + split, FIXTURE_N - split, 3e-3, f->weight_decay,
              f->beta1, 0.999, 1e-8, step + 1);
  }
  same_bits(p, f->p);
  same_bits(m, f->m);
  same_bits(v, f->v);
}
static void adamw_bits(void **state) {
  (void)state;
  if (!fused_hardware()) skip();
  for (size_t i = 0; i < sizeof adamw_fixtures / sizeof *adamw_fixtures; i++)
    for (int split = 0; split <= 16; split += 8) adamw(&adamw_fixtures[i], split);
}

static void sgd_bits(void **state) {
  (void)state;
  if (!fused_hardware()) skip();
  for (size_t i = 0; i < sizeof sgd_fixtures / sizeof *sgd_fixtures; i++) {
    const SgdFixture *f = &sgd_fixtures[i];
    float p[FIXTURE_N], g[FIXTURE_N], b[FIXTURE_N];
    parameters(p);
    for (int k = 0; k < FIXTURE_N; k++) b[k] = NAN; /* the first step must not read it */
    for (int step = 0; step < FIXTURE_STEPS; step++) {
      gradient(g, step);
      ddp_sgd(p, g, f->momentum != 0 ? b : NULL, FIXTURE_N, 0.1, f->weight_decay, f->momentum,
              f->dampening, f->nesterov, step + 1);
    }
    same_bits(p, f->p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(adamw_bits), cmocka_unit_test(sgd_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
