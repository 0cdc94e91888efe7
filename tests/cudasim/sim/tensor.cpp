/* The tensor cores' instruction. */
#include "cuda_fp16.h"
#include "sm_functions.h"

/* Registers of the operands by lane, as the PTX manual lays them out: A(row, k) of 16 x 16 lies in lane
   row % 8 * 4 + k % 8 / 2, register (row >= 8) + 2 (k >= 8); B(k, column) of 16 x 8 in lane
   column * 4 + k % 8 / 2, register k >= 8; the lower half of a register is the even k. */
static void all_lanes(uint32_t low, uint32_t high, uint32_t (*to)[32], const char *what,
                      const char *file, int line) {
  const uint64_t *all = cudasim::warp_gather(~0u, low | (uint64_t)high << 32, what, file, line);
  for (int i = 0; i < 32; i++) {
    to[0][i] = (uint32_t)all[i];
    to[1][i] = (uint32_t)(all[i] >> 32);
  }
}
static float element_bf16(uint32_t pair, int k) {
  return __uint_as_float(k & 1 ? pair & 0xffff0000u : pair << 16);
}
static float element_f16(uint32_t pair, int k) {
  return cudasim::half_to_float((uint16_t)(k & 1 ? pair >> 16 : pair));
}

static void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                float (*element)(uint32_t, int), const char *what, const char *file, int line) {
  uint32_t A[4][32], B[2][32];
  all_lanes(a[0], a[1], A, what, file, line);
  all_lanes(a[2], a[3], A + 2, what, file, line);
  all_lanes(b[0], b[1], B, what, file, line);
  int lane = (int)cudasim::cur->lane;
  for (int i = 0; i < 4; i++) {
    int row = lane / 4 + 8 * (i >> 1), column = (lane & 3) * 2 + (i & 1);
    float sum = 0;
    for (int k = 0; k < 16; k++) {
      float x = element(A[(row >= 8) + 2 * (k >= 8)][(row & 7) * 4 + (k & 7) / 2], k);
      sum += x * element(B[k >= 8][column * 4 + (k & 7) / 2], k);
    }
    d[i] += sum;
  }
}
void ddp_mma_16816_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                        const char *file, int line) {
  mma(d, a, b, element_bf16, "ddp_mma_16816_bf16", file, line);
}
void ddp_mma_16816_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                       const char *file, int line) {
  mma(d, a, b, element_f16, "ddp_mma_16816_f16", file, line);
}
