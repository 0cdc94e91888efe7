/* bfloat16 as storage with conversions (the vendor's bits, NaN included); arithmetic on it does not compile. */
#ifndef CUDASIM_CUDA_BF16_H
#define CUDASIM_CUDA_BF16_H
#include "cuda_runtime.h"

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __align__(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 a) {
  return __uint_as_float((unsigned)a.bits << 16);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float f) {
  unsigned u = __float_as_uint(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {(uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}
static inline __nv_bfloat16 __float2bfloat16(float f) {
  return __float2bfloat16_rn(f);
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
  return {__float2bfloat16_rn(a), __float2bfloat16_rn(b)};
}
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) {
  return {a, b};
}
static inline float2 __bfloat1622float2(__nv_bfloat162 v) {
  return {__bfloat162float(v.x), __bfloat162float(v.y)};
}
static inline float __low2float(__nv_bfloat162 v) {
  return __bfloat162float(v.x);
}
static inline float __high2float(__nv_bfloat162 v) {
  return __bfloat162float(v.y);
}
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) {
  return a.bits;
}
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short a) {
  return {a};
}
#endif
