/* Products (built twice: the plain loops, and oneDNN) and the sums into named places, against loops written down. */
#include <stdbool.h>
#include "kernels/cpu/gemm16.h"
#include "kernels/cpu/index.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { M = 23, N = 37, K = 19 };

static float number(int i, int seed) {
  return (float)((i * 37 + seed * 11) % 17 - 8) / 4;
}

static void products(void **state) {
  (void)state;
  float a[M * K], b[K * N], c[M * N];
  for (int i = 0; i < M * K; i++) a[i] = number(i, 1);
  for (int i = 0; i < K * N; i++) b[i] = number(i, 2);
  for (int flags = 0; flags < 16; flags++) { /* each twice: the second time it is remembered */
    bool ta = flags & 1, tb = flags & 2;
    float beta = flags & 4 ? 1.0f : 0.0f;
    for (int i = 0; i < M * N; i++) c[i] = beta == 0.0f ? NAN : number(i, 3);
    ddp_gemm(ta, tb, M, N, K, a, b, beta, c);
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        float want = beta == 0.0f ? 0.0f : number(i * N + j, 3);
        for (int k = 0; k < K; k++)
          want += (ta ? a[k * M + i] : a[i * K + k]) * (tb ? b[j * K + k] : b[k * N + j]);
        assert_true(c[i * N + j] == want); /* sixteenths: exact in any order */
      }
  }
}

static void biased(void **state) {
  (void)state;
  float a[M * K], b[N * K], bias[N], c[M * N], same[M * N];
  for (int i = 0; i < M * K; i++) a[i] = number(i, 1);
  for (int i = 0; i < N * K; i++) b[i] = number(i, 2);
  for (int i = 0; i < N; i++) bias[i] = number(i, 3);
  for (int m = 5; m <= M; m += 9)
    for (int again = 0; again < 2; again++) {
      ddp_gemm(false, true, m, N, K, a, b, 0.0f, same); /* another product of this shape */
      ddp_gemm_bias(m, N, K, a, b, bias, c);
      for (int i = 0; i < m * N; i++) assert_true(c[i] == same[i] + bias[i % N]);
    }
}

/* 16-bit inputs, exact in both types; every form, each result twice (the second is remembered). */
static void products16(void **state) {
  (void)state;
  static uint16_t a[2][M * K], b[2][K * N], half[2][M * N];
  static float c[2][M * N];
  for (int i = 0; i < M * K; i++)
    a[0][i] = ddp_store_bf16(number(i, 1)), a[1][i] = ddp_store_f16(number(i, 1));
  for (int i = 0; i < K * N; i++)
    b[0][i] = ddp_store_bf16(number(i, 2)), b[1][i] = ddp_store_f16(number(i, 2));
  for (int flags = 0; flags < 16; flags++) {
    bool ta = flags & 1, tb = flags & 2;
    float beta = flags & 4 ? 1.0f : 0.0f;
    for (int i = 0; i < M * N; i++) c[0][i] = c[1][i] = beta == 0.0f ? NAN : number(i, 3);
    ddp_gemm_bf16(ta, tb, M, N, K, a[0], b[0], beta, c[0]);
    ddp_gemm_f16(ta, tb, M, N, K, a[1], b[1], beta, c[1]);
    ddp_gemm_bf16_bf16(ta, tb, M, N, K, a[0], b[0], half[0]);
    ddp_gemm_f16_f16(ta, tb, M, N, K, a[1], b[1], half[1]);
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        float sum = 0, before = beta == 0.0f ? 0.0f : number(i * N + j, 3);
        for (int k = 0; k < K; k++)
          sum += number(ta ? k * M + i : i * K + k, 1) * number(tb ? j * K + k : k * N + j, 2);
        assert_true(c[0][i * N + j] == before + sum && c[1][i * N + j] == before + sum);
        assert_true(half[0][i * N + j] == ddp_store_bf16(sum));
        assert_true(half[1][i * N + j] == ddp_store_f16(sum));
      }
  }
}

static void rows(void **state) {
  (void)state;
  const int32_t index[] = {2, 0, 2, 3};
  float g[4 * 3], y[5 * 3];
  for (int i = 0; i < 12; i++) g[i] = number(i, 4);
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    for (int i = 0; i < 15; i++) y[i] = 100;
    ddp_rows_add_i32(y, index, g, 4, 3, 5, accumulate);
    for (int r = 0; r < 5; r++)
      for (int j = 0; j < 3; j++) {
        float want = accumulate ? 100.0f : 0.0f;
        for (int i = 0; i < 4; i++) want += index[i] == r ? g[i * 3 + j] : 0;
        assert_true(y[r * 3 + j] == want);
      }
  }
}

static void scatter(void **state) {
  (void)state;
  enum { OUTER = 2, SIZE = 4, COUNT = 3, INNER = 2 };
  uint8_t index[OUTER * COUNT * INNER];
  float x[OUTER * SIZE * INNER], src[OUTER * COUNT * INNER], y[OUTER * SIZE * INNER], want[16];
  for (int i = 0; i < 12; i++) index[i] = (uint8_t)((i * 5) % SIZE), src[i] = number(i, 5);
  for (int i = 0; i < 16; i++) want[i] = x[i] = number(i, 6);
  for (int o = 0; o < OUTER; o++)
    for (int c = 0; c < COUNT; c++)
      for (int r = 0; r < INNER; r++) {
        int at = (o * COUNT + c) * INNER + r;
        want[(o * SIZE + index[at]) * INNER + r] += src[at];
      }
  ddp_scatter_add_u8(y, x, index, src, OUTER, SIZE, COUNT, INNER, false);
  for (int i = 0; i < 16; i++) assert_true(y[i] == want[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(biased),
                                     cmocka_unit_test(products16), cmocka_unit_test(rows),
                                     cmocka_unit_test(scatter)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
