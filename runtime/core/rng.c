/* mt19937 (Matsumoto and Nishimura, 1998) and PyTorch's distributions over it. In: a seed. Out: the
   values that torch 2.15 draws, bit for bit. Which operations are fused is part of the result: this file
   is compiled with -ffp-contract=off and every fused multiply-add is written as one. */
#include "rng.h"
#include "rng_normal.h"
#include <math.h>
#include <stddef.h>

void ddp_rng_seed(DdpRng *g, uint64_t seed) {
  g->word[0] = (uint32_t)seed;
  for (uint32_t j = 1; j < DDP_RNG_WORDS; j++) {
    uint32_t previous = g->word[j - 1];
    g->word[j] = 1812433253u * (previous ^ (previous >> 30)) + j;
  }
  g->next = DDP_RNG_WORDS;
  g->cached = false;
  g->cache = 0;
}

static void rng_regenerate(DdpRng *g) {
  enum { N = DDP_RNG_WORDS, M = 397 };
  for (int k = 0; k < N; k++) {
    uint32_t after = g->word[(k + 1) % N];
    uint32_t mixed = (g->word[k] & 0x80000000u) | (after & 0x7fffffffu);
    uint32_t twist = (after & 1u) ? 0x9908b0dfu : 0u;
    g->word[k] = g->word[(k + M) % N] ^ (mixed >> 1) ^ twist;
  }
  g->next = 0;
}

uint32_t ddp_rng_u32(DdpRng *g) {
  if (g->next >= DDP_RNG_WORDS) rng_regenerate(g);
  uint32_t y = g->word[g->next++];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

uint64_t ddp_rng_u64(DdpRng *g) {
  uint64_t high = ddp_rng_u32(g);
  return (high << 32) | ddp_rng_u32(g);
}

static float rng_u24(DdpRng *g) {
  return (float)(ddp_rng_u32(g) & 0xffffffu) * 0x1p-24f;
}

static double rng_u53(DdpRng *g) {
  return (double)(ddp_rng_u64(g) & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

void ddp_rng_uniform(DdpRng *g, float *out, int64_t n, double from, double to) {
  float low = (float)from, high = (float)to, width = high - low;
  for (int64_t i = 0; i < n; i++) {
    float u = rng_u24(g);
    float v = fmaf(u, width, low);
    if (out) out[i] = v == high ? low : v;
  }
}

static double rng_normal_scalar(DdpRng *g) {
  if (g->cached) {
    g->cached = false;
    return g->cache;
  }
  double u1 = rng_u53(g), u2 = rng_u53(g);
  double r = sqrt(-2.0 * log1p(-u2)), t = 2.0 * M_PI * u1;
  g->cache = r * sin(t);
  g->cached = true;
  return r * cos(t);
}

void ddp_rng_normal(DdpRng *g, float *out, int64_t n, double mean, double std) {
  if (n < 16) {
    for (int64_t i = 0; i < n; i++) {
      double v = rng_normal_scalar(g) * std + mean;
      if (out) out[i] = (float)v;
    }
    return;
  }
  if (!out) { /* words consumed are all that counts */
    for (int64_t i = 0; i < n + (n % 16 ? 16 : 0); i++) ddp_rng_u32(g);
    return;
  }
  for (int64_t i = 0; i < n; i++) out[i] = rng_u24(g);
  rng_normal_blocks(out, n / 16, (float)mean, (float)std);
  if (n % 16) {
    float *last = out + n - 16;
    for (int i = 0; i < 16; i++) last[i] = rng_u24(g);
    rng_normal_blocks(last, 1, (float)mean, (float)std);
  }
}

void ddp_rng_trunc_normal(DdpRng *g, float *out, float *room, int64_t n, double mean, double std,
                          double low, double high) {
  float lo = (float)low, hi = (float)high;
  ddp_rng_normal(g, out, n, mean, std);
  for (;;) { /* as many draws for each round as there are elements */
    bool outside = false;
    for (int64_t i = 0; i < n; i++) outside = outside || out[i] < lo || out[i] > hi;
    if (!outside) return;
    ddp_rng_normal(g, room, n, mean, std);
    for (int64_t i = 0; i < n; i++)
      if (out[i] < lo || out[i] > hi) out[i] = room[i];
  }
}

void ddp_rng_randperm(DdpRng *g, int64_t *out, int64_t n) {
  const int64_t few = (int64_t)(UINT32_MAX / 20u);
  if (n < few) {
    for (int64_t i = 0; i < n; i++) out[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
      int64_t j = i + (int64_t)(ddp_rng_u32(g) % (uint64_t)(n - i));
      int64_t t = out[i];
      out[i] = out[j];
      out[j] = t;
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t j = (int64_t)(ddp_rng_u64(g) % (uint64_t)(i + 1));
    out[i] = i;
    out[i] = out[j];
    out[j] = i;
  }
}

int64_t ddp_rng_randint(DdpRng *g, int64_t low, int64_t high) {
  uint64_t range = (uint64_t)high - (uint64_t)low;
  uint64_t v = range >= (UINT64_C(1) << 28) ? ddp_rng_u64(g) % range : ddp_rng_u32(g) % range;
  return (int64_t)(v + (uint64_t)low);
}

bool ddp_rng_bernoulli(DdpRng *g, double p) {
  return rng_u53(g) < p;
}
