/* Inline math for kernels that are compiled into a job: exp, log, tanh, erf, expm1, log1p, sin, cos in
   f32. No tables, no branches, no calls, so that gcc and clang turn loops over them into vectors.
   Holds for every float: inf, nan, -0 and denormals give what libm gives; elsewhere the error is at
   most 2.5 units in the last place (tests/emit/kernel_math_test.c). sin and cos are meant for
   |x| < 2^40 (2^20 without fused multiply-add); beyond 1e15 they give 0.
   Coefficients: weighted minimax fits, rounded one after another (tools/fit_math.py). */
#ifndef DDP_KERNELS_CPU_MATH_H
#define DDP_KERNELS_CPU_MATH_H
#include "../whole.h"
#include "half.h"

#ifdef __clang__ /* `omp simd` on a short loop need not lead to vectors */
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

/* Fused where the machine has it; elsewhere a product and a sum, as PyTorch computes there. */
#if defined(__FMA__) || defined(__AVX512F__) || defined(__ARM_FEATURE_FMA) ||                      \
    defined(__FP_FAST_FMAF)
DDP_INLINE float ddp_fmaf(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
DDP_INLINE double ddp_fma(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}
#else
DDP_INLINE float ddp_fmaf(float a, float b, float c) {
  return a * b + c;
}
DDP_INLINE double ddp_fma(double a, double b, double c) {
  return a * b + c;
}
#endif

#define DDP_LN2_HI 0.693359375f /* 10 bits: n * DDP_LN2_HI is exact */
#define DDP_LN2_LO (-2.12194440e-4f)
#define DDP_MAGIC  12582912.0f /* 1.5 * 2^23: x + DDP_MAGIC rounds x to an integer in the low bits */

/* x = k ln 2 + r with |r| <= ln 2 / 2; returns r */
DDP_INLINE float ddp_exp_reduce(float x, int32_t *k) {
  const float t = ddp_fmaf(x, 1.44269504f, DDP_MAGIC);
  const float n = t - DDP_MAGIC;
  *k = (int32_t)(ddp_bits(t) - 0x4b400000u);
  return ddp_fmaf(n, -DDP_LN2_LO, ddp_fmaf(n, -DDP_LN2_HI, x));
}
/* e^r - 1 on the reduced range */
DDP_INLINE float ddp_expm1_poly(float r) {
  float p = 1.955489e-4f;
  p = ddp_fmaf(p, r, 1.3934043e-3f);
  p = ddp_fmaf(p, r, 8.333912e-3f);
  p = ddp_fmaf(p, r, 4.1666474e-2f);
  p = ddp_fmaf(p, r, 1.6666664e-1f);
  p = ddp_fmaf(p, r, 0.5f);
  return ddp_fmaf(r * r, p, r);
}
DDP_INLINE float ddp_pow2(int32_t k) {
  return ddp_from_bits((uint32_t)(k + 127) << 23);
}

DDP_INLINE float ddp_expf(float x) {
  float c = x < -104.0f ? -104.0f : x; /* nan passes through */
  c = c > 89.0f ? 89.0f : c;
  int32_t k;
  const float r = ddp_exp_reduce(c, &k);
  const float y = 1.0f + ddp_expm1_poly(r);
  const int32_t h = k >> 1; /* two factors: 2^128 and denormal results */
  return y * ddp_pow2(h) * ddp_pow2(k - h);
}

DDP_INLINE float ddp_expm1f(float x) {
  float c = x < -20.0f ? -20.0f : x;
  c = c > 89.0f ? 89.0f : c;
  int32_t k;
  const float r = ddp_exp_reduce(c, &k);
  const float p = ddp_expm1_poly(r);
  const float s = ddp_pow2(k - 1); /* half of it: 2^128 is no float */
  const float y = 2.0f * ddp_fmaf(p, s, s - 0.5f);
  return fabsf(x) < 0x1p-100f ? x : y;
}

/* log(1 + f) for 1 + f in [sqrt 1/2, sqrt 2], plus e ln 2 */
DDP_INLINE float ddp_log_poly(float f, float e) {
  float p = -7.637471e-2f;
  p = ddp_fmaf(p, f, 1.2762731e-1f);
  p = ddp_fmaf(p, f, -1.3159472e-1f);
  p = ddp_fmaf(p, f, 1.4201501e-1f);
  p = ddp_fmaf(p, f, -1.6623414e-1f);
  p = ddp_fmaf(p, f, 2.0001245e-1f);
  p = ddp_fmaf(p, f, -2.500082e-1f);
  p = ddp_fmaf(p, f, 3.333333e-1f);
  const float f2 = f * f;
  float y = f2 * f * p;
  y = ddp_fmaf(e, DDP_LN2_LO, y);
  y = ddp_fmaf(f2, -0.5f, y);
  return ddp_fmaf(e, DDP_LN2_HI, f + y);
}
/* x = m 2^e with m in [sqrt 1/2, sqrt 2); x normal and positive */
DDP_INLINE float ddp_log_split(float x, float *e) {
  const int32_t k = (int32_t)(ddp_bits(x) - 0x3f3504f3u) >> 23;
  *e = (float)k;
  return ddp_from_bits(ddp_bits(x) - ((uint32_t)k << 23));
}

DDP_INLINE float ddp_logf(float x) {
  const int32_t tiny = x < 0x1p-126f;
  float e;
  const float m = ddp_log_split(tiny ? x * 0x1p23f : x, &e);
  const float y = ddp_log_poly(m - 1.0f, tiny ? e - 23.0f : e);
  const float special = x == 0.0f ? -INFINITY : x < 0.0f ? NAN : x; /* inf and nan are themselves */
  return x > 0.0f && x < INFINITY ? y : special;
}

DDP_INLINE float ddp_log1pf(float x) {
  const float u = 1.0f + x;
  /* what rounding 1 + x lost, relative to u: the larger of the two summands was exact */
  const float lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  float e;
  const float m = ddp_log_split(u, &e);
  const float y = ddp_log_poly(m - 1.0f, e) + lost / u;
  const float special = x == -1.0f ? -INFINITY : x < -1.0f ? NAN : x;
  const float z = x > -1.0f && x < INFINITY ? y : special;
  return fabsf(x) < 0x1p-24f ? x : z;
}

DDP_INLINE float ddp_tanhf(float x) {
  const float a = fabsf(x);
  const float t = ddp_expm1f(2.0f * (a > 10.0f ? 10.0f : a));
  return copysignf(t / (t + 2.0f), x);
}

DDP_INLINE float ddp_erff(float x) {
  const float t = fabsf(x), z = x * x;
  float p = 8.293013e-5f; /* erf x = x + x p(x^2) */
  p = ddp_fmaf(p, z, -8.123187e-4f);
  p = ddp_fmaf(p, z, 5.199148e-3f);
  p = ddp_fmaf(p, z, -2.6858533e-2f);
  p = ddp_fmaf(p, z, 1.1283676e-1f);
  p = ddp_fmaf(p, z, -3.7612632e-1f);
  p = ddp_fmaf(p, z, 1.2837917e-1f);
  const float c = t > 4.0f ? 4.0f : t;
  float q = 1.1423069e-5f; /* erf c = 1 - exp(-c - c q(c)) */
  q = ddp_fmaf(q, c, -3.2472407e-4f);
  q = ddp_fmaf(q, c, 3.6502702e-3f);
  q = ddp_fmaf(q, c, -2.3778591e-2f);
  q = ddp_fmaf(q, c, 1.06256075e-1f);
  q = ddp_fmaf(q, c, 6.351397e-1f);
  q = ddp_fmaf(q, c, 1.2865135e-1f);
  const float far = 1.0f - ddp_expf(ddp_fmaf(-c, q, -c));
  return t < 0.927f ? ddp_fmaf(x, p, x) : copysignf(far, x);
}

#include "../sine.h"

#endif
