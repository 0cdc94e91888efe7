/* rope.h for CPUs. Angles in double, as the position may be large; they are the same for all heads. */
#include "rope.h"
#include <math.h>

static void turn(float *y, const float *x, const int32_t *pos, int64_t b, int64_t t, int64_t h,
                 int64_t d, float base, double side) {
  const int64_t half = d / 2;
  for (int64_t j = 0; j < t; j++) {
    for (int64_t k = 0; k < half; k++) {
      double angle = side * pos[j] * pow(base, -2.0 * (double)k / (double)d);
      float c = (float)cos(angle), s = (float)sin(angle);
      for (int64_t i = 0; i < b; i++) {
        const int64_t row = (i * t + j) * h * d + k;
        for (int64_t n = 0; n < h; n++) {
          float lo = x[row + n * d], hi = x[row + n * d + half];
          y[row + n * d] = lo * c - hi * s;
          y[row + n * d + half] = hi * c + lo * s;
        }
      }
    }
  }
}

void ddp_rope_f32(float *y, const float *x, const int32_t *pos, int64_t b, int64_t t, int64_t h,
                  int64_t d, float base) {
  turn(y, x, pos, b, t, h, d, base, 1);
}

void ddp_rope_back_f32(float *d_x, const float *g, const int32_t *pos, int64_t b, int64_t t,
                       int64_t h, int64_t d, float base) {
  turn(d_x, g, pos, b, t, h, d, base, -1);
}
