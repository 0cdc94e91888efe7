/* The vector part of PyTorch's normal_: blocks of 16 uniforms become 16 normals (Box-Muller with
   single-precision Cephes polynomials). Used by rng.c only. */
#ifndef DDP_CORE_RNG_NORMAL_H
#define DDP_CORE_RNG_NORMAL_H
#include <stdint.h>

/* In place: 16 * blocks uniforms in [0, 1) -> normals. */
void rng_normal_blocks(float *d, int64_t blocks, float mean, float std);
#endif
