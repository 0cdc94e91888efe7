/* The functions of kernels/cpu/math.h for devices: CUDA's own, which are at most two units in the last place
   off and shorter there than polynomials that must become vectors. In the emulator they are libm's. */
#ifndef DDP_KERNELS_CUDA_MATH_H
#define DDP_KERNELS_CUDA_MATH_H
#include "ddp_cuda.h"
#include "../whole.h"

DDP_INLINE float ddp_fmaf(float a, float b, float c) {
  return fmaf(a, b, c);
}
DDP_INLINE double ddp_fma(double a, double b, double c) {
  return fma(a, b, c);
}
DDP_INLINE float ddp_expf(float x) {
  return expf(x);
}
DDP_INLINE float ddp_expm1f(float x) {
  return expm1f(x);
}
DDP_INLINE float ddp_logf(float x) {
  return logf(x);
}
DDP_INLINE float ddp_log1pf(float x) {
  return log1pf(x);
}
DDP_INLINE float ddp_tanhf(float x) {
  return tanhf(x);
}
DDP_INLINE float ddp_erff(float x) {
  return erff(x);
}

#include "../sine.h"

#endif
