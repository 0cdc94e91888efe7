/* 16-bit floats as bits: bfloat16 and IEEE half to float and back. Holds: every 16-bit number survives
   the way there and back; stores round to nearest even, keep NaN (quiet) and infinities, overflow to
   infinity and keep denormals. Integer arithmetic without branches or calls, so that compilers turn
   loops over it into vectors on every processor. */
#ifndef DDP_KERNELS_CPU_HALF_H
#define DDP_KERNELS_CPU_HALF_H
#include "../inline.h"
#include <math.h>

/* A function that has loops of its own: compiled once, as the job is, wherever it is called from. */
#define DDP_APART static __attribute__((noinline, unused))
/* A list of calls and nothing else: optimizing it gains nothing, and grows faster than its length. */
#if defined(__GNUC__) && !defined(__clang__)
#define DDP_CALLS __attribute__((optimize("O1")))
#else
#define DDP_CALLS
#endif

DDP_INLINE float ddp_load_bf16(uint16_t h) {
  return ddp_from_bits((uint32_t)h << 16);
}
DDP_INLINE uint16_t ddp_store_bf16(float x) {
  const uint32_t u = ddp_bits(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, nan = (u >> 16) | 0x40u;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

/* The exponent is moved by a product with a power of two, which also makes denormals right. */
DDP_INLINE float ddp_load_f16(uint16_t h) {
  const uint32_t sign = ((uint32_t)h & 0x8000u) << 16, rest = ((uint32_t)h & 0x7fffu) << 13;
  const float y = ddp_from_bits(rest) * 0x1p112f;
  /* of infinity and NaN the exponent is all ones */
  const uint32_t special = rest >= 0x0f800000u ? 0x7f800000u : 0u;
  return ddp_from_bits(ddp_bits(y) | special | sign);
}
/* Adding a number 2^13 times the last place of the result rounds to that place. */
DDP_INLINE uint16_t ddp_store_f16(float x) {
  const uint32_t u = ddp_bits(x), magnitude = u & 0x7fffffffu;
  const float small = (fabsf(x) * 0x1p112f) * 0x1p-110f; /* too large becomes infinity */
  uint32_t exponent = (u << 1) & 0xff000000u;
  exponent = exponent < 0x71000000u ? 0x71000000u : exponent;
  const uint32_t r = ddp_bits(ddp_from_bits((exponent >> 1) + 0x07800000u) + small);
  const uint32_t finite = ((r >> 13) & 0x7c00u) + (r & 0x0fffu), sign = (u >> 16) & 0x8000u;
  return (uint16_t)(sign | (magnitude > 0x7f800000u ? 0x7e00u : finite));
}

/* What a float becomes when it is stored and read again. */
DDP_INLINE float ddp_round_bf16(float x) {
  return ddp_load_bf16(ddp_store_bf16(x));
}
DDP_INLINE float ddp_round_f16(float x) {
  return ddp_load_f16(ddp_store_f16(x));
}

#endif
