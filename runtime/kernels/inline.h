/* What the inline functions of kernels are declared with, for whichever processor they are compiled, and
   floats as bits. What stands in this folder is C and C++: the CPU's kernels (cpu/) and those of CUDA
   devices (cuda/) share it. */
#ifndef DDP_KERNELS_INLINE_H
#define DDP_KERNELS_INLINE_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifndef DDP_INLINE /* cuda/ddp_cuda.h has its own */
#define DDP_INLINE static inline __attribute__((always_inline, unused))
#endif

DDP_INLINE uint32_t ddp_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
DDP_INLINE float ddp_from_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

#endif
