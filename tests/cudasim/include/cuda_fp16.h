/* IEEE half precision as storage with conversions; arithmetic on it does not compile. */
#ifndef CUDASIM_CUDA_FP16_H
#define CUDASIM_CUDA_FP16_H
#include "cuda_runtime.h"

struct __half {
  uint16_t bits;
};
struct __align__(4) __half2 {
  __half x, y;
};

namespace cudasim {
inline float half_to_float(uint16_t bits) {
  unsigned sign = (unsigned)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
           fraction = bits & 1023;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  if (exponent) return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
  float f = (float)fraction * 0x1p-24f; /* below the normal numbers, exact */
  return sign ? -f : f;
}

/* To nearest, ties to even. */
inline uint16_t float_to_half(float f) {
  unsigned u = __float_as_uint(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000)
    return (uint16_t)(sign | 0x7c00); /* 65520 and more round to infinity */
  if (magnitude < 0x38800000) {       /* 2^-14: adding 0.5 rounds at 2^-24 */
    unsigned low = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000;
    return (uint16_t)(sign | low);
  }
  unsigned odd = magnitude >> 13 & 1;
  return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + odd) >> 13);
}
} // namespace cudasim
static inline float __half2float(__half a) {
  return cudasim::half_to_float(a.bits);
}
static inline __half __float2half_rn(float f) {
  return {cudasim::float_to_half(f)};
}
static inline __half __float2half(float f) {
  return __float2half_rn(f);
}
static inline __half2 __floats2half2_rn(float a, float b) {
  return {__float2half_rn(a), __float2half_rn(b)};
}
static inline __half2 __halves2half2(__half a, __half b) {
  return {a, b};
}
static inline float2 __half22float2(__half2 v) {
  return {__half2float(v.x), __half2float(v.y)};
}
static inline float __low2float(__half2 v) {
  return __half2float(v.x);
}
static inline float __high2float(__half2 v) {
  return __half2float(v.y);
}
static inline unsigned short __half_as_ushort(__half a) {
  return a.bits;
}
static inline __half __ushort_as_half(unsigned short a) {
  return {a};
}
#endif
