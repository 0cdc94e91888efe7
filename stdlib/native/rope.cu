/* rope.h for CUDA devices: all pointers are memory of the device; one thread for each pair of numbers.
   Not part of any program yet: for GPUs ddpc compiles the body. */
#include "rope.h"

static __global__ void turn(float *y, const float *x, const int32_t *pos, int64_t pairs, int64_t t,
                            int64_t h, int64_t d, float base, double side) {
  int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= pairs) return;
  const int64_t half = d / 2, k = at % half, row = at / half, j = row / h % t;
  double angle = side * pos[j] * pow((double)base, -2.0 * (double)k / (double)d);
  float c = (float)cos(angle), s = (float)sin(angle);
  float lo = x[row * d + k], hi = x[row * d + k + half];
  y[row * d + k] = lo * c - hi * s;
  y[row * d + k + half] = hi * c + lo * s;
}

static void launch(float *y, const float *x, const int32_t *pos, int64_t b, int64_t t, int64_t h,
                   int64_t d, float base, double side) {
  const int64_t pairs = b * t * h * (d / 2), threads = 256;
  if (pairs == 0) return;
  turn<<<(unsigned)((pairs + threads - 1) / threads), (unsigned)threads>>>(y, x, pos, pairs, t, h, d,
                                                                           base, side);
}

void ddp_rope_f32(float *y, const float *x, const int32_t *pos, int64_t b, int64_t t, int64_t h,
                  int64_t d, float base) {
  launch(y, x, pos, b, t, h, d, base, 1);
}

void ddp_rope_back_f32(float *d_x, const float *g, const int32_t *pos, int64_t b, int64_t t,
                       int64_t h, int64_t d, float base) {
  launch(d_x, g, pos, b, t, h, d, base, -1);
}
