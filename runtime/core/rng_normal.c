/* Blocks of 16 uniforms -> 16 normals. Logarithm and sine/cosine are Moshier's Cephes polynomials in
   single precision; where PyTorch's AVX2 build fuses a multiply with an add, so does this. On x86-64 a
   copy compiled for FMA is chosen at run time; the other one calls fmaf and gives the same bits. */
#include "rng_normal.h"
#include <math.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE float log_cephes(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  float e = (float)((int32_t)(bits >> 23) - 0x7f) + 1.0f;
  bits = (bits & 0x807fffffu) | 0x3f000000u; /* mantissa in [0.5, 1) */
  float m;
  memcpy(&m, &bits, sizeof m);
  int small = m < 0.707106781186547524f;
  e = small ? e - 1.0f : e;
  m = (m - 1.0f) + (small ? m : 0.0f);
  float z = m * m;
  float y = 7.0376836292e-2f;
  y = __builtin_fmaf(y, m, -1.1514610310e-1f);
  y = __builtin_fmaf(y, m, 1.1676998740e-1f);
  y = __builtin_fmaf(y, m, -1.2420140846e-1f);
  y = __builtin_fmaf(y, m, 1.4249322787e-1f);
  y = __builtin_fmaf(y, m, -1.6668057665e-1f);
  y = __builtin_fmaf(y, m, 2.0000714765e-1f);
  y = __builtin_fmaf(y, m, -2.4999993993e-1f);
  y = __builtin_fmaf(y, m, 3.3333331174e-1f);
  y = y * m;
  y = __builtin_fmaf(y, z, e * -2.12194440e-4f);
  y = __builtin_fmaf(-z, 0.5f, y);
  return __builtin_fmaf(e, 0.693359375f, m + y);
}

/* x in [0, 2 pi] */
ALWAYS_INLINE void sincos_cephes(float x, float *sine, float *cosine) {
  int32_t octant = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
  float y = (float)octant;
  x = __builtin_fmaf(y, -0.78515625f, x);
  x = __builtin_fmaf(y, -2.4187564849853515625e-4f, x);
  x = __builtin_fmaf(y, -3.77489497744594108e-8f, x);
  float z = x * x;
  float c = 2.443315711809948e-5f;
  c = __builtin_fmaf(c, z, -1.388731625493765e-3f);
  c = __builtin_fmaf(c, z, 4.166664568298827e-2f);
  c = c * z;
  c = __builtin_fmaf(c, z, -(z * 0.5f));
  c = c + 1.0f;
  float s = -1.9515295891e-4f;
  s = __builtin_fmaf(s, z, 8.3321608736e-3f);
  s = __builtin_fmaf(s, z, -1.6666654611e-1f);
  s = s * z;
  s = __builtin_fmaf(s, x, x);
  int straight = (octant & 2) == 0;
  float sin_value = straight ? s : c, cos_value = straight ? c : s;
  *sine = (octant & 4) ? -sin_value : sin_value;
  *cosine = (~(octant - 2) & 4) ? -cos_value : cos_value;
}

ALWAYS_INLINE void normal_blocks(float *d, int64_t blocks, float mean, float std) {
  for (int64_t b = 0; b < blocks; b++, d += 16) {
    for (int j = 0; j < 8; j++) {
      float u1 = 1.0f - d[j], u2 = d[j + 8], s, c;
      float r = __builtin_sqrtf(-2.0f * log_cephes(u1));
      sincos_cephes(6.283185307179586f * u2, &s, &c);
      d[j] = __builtin_fmaf(r * c, std, mean);
      d[j + 8] = __builtin_fmaf(r * s, std, mean);
    }
  }
}

static void normal_blocks_plain(float *d, int64_t blocks, float mean, float std) {
  normal_blocks(d, blocks, mean, std);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void normal_blocks_fma(float *d, int64_t blocks,
                                                                  float mean, float std) {
  normal_blocks(d, blocks, mean, std);
}
#endif

void rng_normal_blocks(float *d, int64_t blocks, float mean, float std) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) {
    normal_blocks_fma(d, blocks, mean, std);
    return;
  }
#endif
  normal_blocks_plain(d, blocks, mean, std);
}
