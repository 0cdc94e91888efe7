/* What a kernel may call beside the C library: loads and stores with hints, bits, conversions, mathematics. The
   fast functions (__expf ...) are the exact ones here: nobody may rely on their last bits. */
#ifndef CUDASIM_SM_FUNCTIONS_H
#define CUDASIM_SM_FUNCTIONS_H
#include <math.h>
#include <cmath>
#include "sm_collectives.h"

template <class T> static inline T __ldg(const T *p) {
  return *p;
}
template <class T> static inline T __ldcs(const T *p) {
  return *p;
}
template <class T> static inline T __ldcg(const T *p) {
  return *p;
}
template <class T> static inline T __ldca(const T *p) {
  return *p;
}
template <class T> static inline void __stcs(T *p, std::common_type_t<T> v) {
  *p = v;
}
template <class T> static inline void __stcg(T *p, std::common_type_t<T> v) {
  *p = v;
}
template <class T> static inline void __stwb(T *p, std::common_type_t<T> v) {
  *p = v;
}
#define __trap() cudasim::die("__trap() at %s:%d", __FILE__, __LINE__)
#ifndef __clang__
#define __builtin_assume(x) ((void)0)
#endif

/* ---- bits ---- */
static inline unsigned __float_as_uint(float x) {
  return cudasim::unpack<unsigned>(cudasim::pack(x));
}
static inline int __float_as_int(float x) {
  return cudasim::unpack<int>(cudasim::pack(x));
}
static inline float __uint_as_float(unsigned x) {
  return cudasim::unpack<float>(cudasim::pack(x));
}
static inline float __int_as_float(int x) {
  return cudasim::unpack<float>(cudasim::pack(x));
}
static inline long long __double_as_longlong(double x) {
  return cudasim::unpack<long long>(cudasim::pack(x));
}
static inline double __longlong_as_double(long long x) {
  return cudasim::unpack<double>(cudasim::pack(x));
}
static inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
static inline int __clz(int x) {
  return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __clzll(long long x) {
  return x ? __builtin_clzll((unsigned long long)x) : 64;
}
static inline int __ffs(int x) {
  return __builtin_ffs(x);
}
static inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)(((uint64_t)a * b) >> 32);
}
static inline int __mulhi(int a, int b) {
  return (int)(((int64_t)a * b) >> 32);
}
__extension__ typedef unsigned __int128 cudasim_uint128;
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((cudasim_uint128)a * b) >> 64);
}
static inline unsigned __brev(unsigned x) {
  unsigned r = 0;
  for (int i = 0; i < 32; i++) r |= ((x >> i) & 1u) << (31 - i);
  return r;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((((uint64_t)high << 32) | low) << (by & 31)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return (unsigned)((((uint64_t)high << 32) | low) >> (by & 31));
}

/* ---- rounding as written ---- */
static inline float __fadd_rn(float a, float b) {
  return a + b;
}
static inline float __fsub_rn(float a, float b) {
  return a - b;
}
static inline float __fmul_rn(float a, float b) {
  return a * b;
}
static inline float __fdiv_rn(float a, float b) {
  return a / b;
}
static inline float __fmaf_rn(float a, float b, float c) {
  return fmaf(a, b, c);
}
static inline float __frcp_rn(float a) {
  return 1.f / a;
}
static inline float __fsqrt_rn(float a) {
  return sqrtf(a);
}
static inline double __dadd_rn(double a, double b) {
  return a + b;
}
static inline double __dmul_rn(double a, double b) {
  return a * b;
}
static inline double __ddiv_rn(double a, double b) {
  return a / b;
}
static inline double __fma_rn(double a, double b, double c) {
  return fma(a, b, c);
}
static inline double __dsqrt_rn(double a) {
  return sqrt(a);
}
static inline float __double2float_rn(double a) {
  return (float)a;
}
static inline float __int2float_rn(int a) {
  return (float)a;
}
static inline float __uint2float_rn(unsigned a) {
  return (float)a;
}
static inline float __ll2float_rn(long long a) {
  return (float)a;
}
static inline float __ull2float_rn(unsigned long long a) {
  return (float)a;
}
static inline int __float2int_rn(float a) {
  return (int)nearbyintf(a);
}
static inline int __float2int_rz(float a) {
  return (int)a;
}
static inline int __float2int_rd(float a) {
  return (int)floorf(a);
}
static inline int __float2int_ru(float a) {
  return (int)ceilf(a);
}
static inline unsigned __float2uint_rz(float a) {
  return (unsigned)a;
}
static inline long long __float2ll_rz(float a) {
  return (long long)a;
}

/* ---- mathematics. glibc owns the names with two underscores: macros, and only of calls ---- */
namespace cudasim {
static inline float fast_exp(float x) {
  return expf(x);
}
static inline float fast_exp10(float x) {
  return powf(10.f, x);
}
static inline float fast_log(float x) {
  return logf(x);
}
static inline float fast_log2(float x) {
  return log2f(x);
}
static inline float fast_log10(float x) {
  return log10f(x);
}
static inline float fast_sin(float x) {
  return sinf(x);
}
static inline float fast_cos(float x) {
  return cosf(x);
}
static inline float fast_tan(float x) {
  return tanf(x);
}
static inline float fast_pow(float a, float b) {
  return powf(a, b);
}
} // namespace cudasim
#define __expf(x)    cudasim::fast_exp(x)
#define __exp10f(x)  cudasim::fast_exp10(x)
#define __logf(x)    cudasim::fast_log(x)
#define __log2f(x)   cudasim::fast_log2(x)
#define __log10f(x)  cudasim::fast_log10(x)
#define __sinf(x)    cudasim::fast_sin(x)
#define __cosf(x)    cudasim::fast_cos(x)
#define __tanf(x)    cudasim::fast_tan(x)
#define __powf(a, b) cudasim::fast_pow(a, b)
static inline float __fdividef(float a, float b) {
  return a / b;
}
static inline float fdividef(float a, float b) {
  return a / b;
}
static inline float rsqrtf(float a) {
  return 1.f / sqrtf(a);
}
static inline double rsqrt(double a) {
  return 1. / sqrt(a);
}
static inline float __frsqrt_rn(float a) {
  return (float)(1. / sqrt((double)a));
}
static inline float __saturatef(float a) {
  return a > 0.f ? a < 1.f ? a : 1.f : 0.f;
}
static inline float normcdff(float x) {
  return 0.5f * erfcf(-x * 0.70710678118654752f);
}
static inline double normcdf(double x) {
  return 0.5 * erfc(-x * 0.70710678118654752440);
}

#define CUDASIM_MIN_MAX(T)                                                                         \
  static inline T min(T a, T b) {                                                                  \
    return a < b ? a : b;                                                                          \
  }                                                                                                \
  static inline T max(T a, T b) {                                                                  \
    return a > b ? a : b;                                                                          \
  }
CUDASIM_MIN_MAX(int)
CUDASIM_MIN_MAX(unsigned)
CUDASIM_MIN_MAX(long)
CUDASIM_MIN_MAX(unsigned long)
CUDASIM_MIN_MAX(long long)
CUDASIM_MIN_MAX(unsigned long long)
#undef CUDASIM_MIN_MAX
static inline float min(float a, float b) {
  return fminf(a, b);
}
static inline float max(float a, float b) {
  return fmaxf(a, b);
}
static inline double min(double a, double b) {
  return fmin(a, b);
}
static inline double max(double a, double b) {
  return fmax(a, b);
}
#endif
