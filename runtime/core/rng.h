/* PyTorch's CPU generator (mt19937) and the draws made from it, bit for bit as torch 2.15 on x86-64
   with FMA: initial weights and the order of the data depend on it. Not thread-safe. */
#ifndef DDP_CORE_RNG_H
#define DDP_CORE_RNG_H
#include <stdbool.h>
#include <stdint.h>

enum { DDP_RNG_WORDS = 624 };

typedef struct DdpRng {
  uint32_t word[DDP_RNG_WORDS];
  int32_t next; /* DDP_RNG_WORDS: regenerate first */
  bool cached;  /* second half of the last scalar normal pair */
  double cache;
} DdpRng;

/* Only the low 32 bits of a seed shape the stream, as in torch.manual_seed. */
void ddp_rng_seed(DdpRng *g, uint64_t seed);
uint32_t ddp_rng_u32(DdpRng *g);
uint64_t ddp_rng_u64(DdpRng *g);
/* Draws of n values; out == NULL: the same draws, thrown away. */
void ddp_rng_uniform(DdpRng *g, float *out, int64_t n, double from, double to);
void ddp_rng_normal(DdpRng *g, float *out, int64_t n, double mean, double std);
/* torch.nn.init.trunc_normal_ where more than 0.3 of the distribution lies from low to high; `out` is
   needed, and room for n more. */
void ddp_rng_trunc_normal(DdpRng *g, float *out, float *room, int64_t n, double mean, double std,
                          double low, double high);
/* torch.randperm(n). */
void ddp_rng_randperm(DdpRng *g, int64_t *out, int64_t n);
/* torch.randint(low, high): one value. */
int64_t ddp_rng_randint(DdpRng *g, int64_t low, int64_t high);
/* bernoulli_(p): 1 with probability p. */
bool ddp_rng_bernoulli(DdpRng *g, double p);
#endif
