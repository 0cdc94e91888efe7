/* Whole-number division, remainder and powers as Python's: of floats and of int64. */
#ifndef DDP_KERNELS_WHOLE_H
#define DDP_KERNELS_WHOLE_H
#include "inline.h"
#include <math.h>

/* ---------- division and remainder (sign of the divisor) ---------- */
DDP_INLINE double ddp_floordiv(double a, double b) {
  return floor(a / b);
}
DDP_INLINE double ddp_pymod(double a, double b) {
  const double r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
DDP_INLINE float ddp_floordivf(float a, float b) {
  return floorf(a / b);
}
DDP_INLINE float ddp_pymodf(float a, float b) {
  const float r = fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* A divisor of 0 gives 0 rather than a signal. */
DDP_INLINE int64_t ddp_floordiv_i64(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return b == 0 ? 0 : (int64_t)(0u - (uint64_t)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
DDP_INLINE int64_t ddp_pymod_i64(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
DDP_INLINE int64_t ddp_fabs_i64(int64_t a) {
  return a < 0 ? (int64_t)(0u - (uint64_t)a) : a;
}
DDP_INLINE int64_t ddp_floor_i64(int64_t a) {
  return a;
}
DDP_INLINE int64_t ddp_ceil_i64(int64_t a) {
  return a;
}
DDP_INLINE int64_t ddp_rint_i64(int64_t a) {
  return a;
}
DDP_INLINE int64_t ddp_pow_i64(int64_t a,
                               int64_t b) { /* wraps; a negative exponent gives 0 or +-1 */
  uint64_t x = (uint64_t)a, y = 1;
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0;
  for (; b; b >>= 1, x *= x)
    if (b & 1) y *= x;
  return (int64_t)y;
}

#endif
