/* Counter-based random numbers: a draw is a hash of (seed, update, site, position of the sample in the
   update's global batch, element within the sample); in the evaluation, of the position in the split and
   no update. Nothing is carried from draw to draw, so masks
   are the same whatever the number of ranks and micro-batches, and a kernel may compute one again
   instead of keeping it.
   The first three are mixed once per call, the sample once per row (64 bits each); per element there
   are three 32-bit multiplications, which vectorise. */
#ifndef DDP_KERNELS_RANDOM_H
#define DDP_KERNELS_RANDOM_H
#ifdef DDP_DEVICE_CODE
#include "cuda/math.h"
#else
#include "cpu/math.h"
#endif

typedef struct DdpDraw { /* one site in one update */
  uint64_t key;
  const int64_t *sample; /* position of each sample of this micro-batch */
} DdpDraw;
typedef struct DdpRow { /* one sample at one site */
  uint32_t a, b;
} DdpRow;

DDP_INLINE uint64_t ddp_mix64(uint64_t x) { /* finaliser of splitmix64 */
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
DDP_INLINE DdpDraw ddp_draw(uint64_t seed, int64_t update, uint64_t site, const int64_t *sample) {
  const DdpDraw d = {ddp_mix64(ddp_mix64(ddp_mix64(seed) ^ (uint64_t)update) ^ site), sample};
  return d;
}
/* The same site in one turn of a loop. */
DDP_INLINE DdpDraw ddp_draw_turn(DdpDraw d, int64_t turn) {
  const DdpDraw own = {ddp_mix64(d.key + 0x5851f42d4c957f2du * (uint64_t)(turn + 1)), d.sample};
  return own;
}
DDP_INLINE DdpRow ddp_row(DdpDraw d, int64_t position) {
  const uint64_t k = ddp_mix64(d.key ^ (uint64_t)position);
  const DdpRow r = {(uint32_t)k, (uint32_t)(k >> 32)};
  return r;
}
DDP_INLINE uint32_t ddp_random(DdpRow r, uint32_t element) {
  uint32_t x = element * 0x9e3779b1u + r.a;
  x = (x ^ (x >> 16)) * 0x21f0aaadu;
  x = (x ^ (x >> 15)) + r.b; /* the second key: rows are no shifted copies of each other */
  x = x * 0xd35a2d97u;
  return x ^ (x >> 15);
}

DDP_INLINE float ddp_unit(uint32_t u) {
  return (float)(int32_t)(u >> 8) * 0x1p-24f;
} /* [0, 1) */
DDP_INLINE float ddp_uniform(DdpRow r, uint32_t element) {
  return ddp_unit(ddp_random(r, element));
}
DDP_INLINE float ddp_bernoulli(DdpRow r, uint32_t element, float p) {
  return ddp_uniform(r, element) < p ? 1.0f : 0.0f;
}
DDP_INLINE float ddp_normal(DdpRow r, uint32_t element) { /* Box and Muller */
  const DdpRow other = {r.b, ~r.a};
  const float u = 1.0f - ddp_uniform(r, element); /* (0, 1] */
  return sqrtf(-2.0f * ddp_logf(u)) * ddp_cosf(6.28318531f * ddp_uniform(other, element));
}
DDP_INLINE int64_t ddp_randint(DdpRow r, uint32_t element, int64_t low, int64_t high) {
  return low + (int64_t)(((uint64_t)ddp_random(r, element) * (uint64_t)(high - low)) >> 32);
}

#endif
