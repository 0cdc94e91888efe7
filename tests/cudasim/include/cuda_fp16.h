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
float half_to_float(uint16_t bits);
uint16_t float_to_half(float f); /* to nearest, ties to even */
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
