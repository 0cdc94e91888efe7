#include "swish_gate.h"
#include <math.h>

void swish_gate_f32(float *y, const float *a, const float *b, const float *beta, int64_t count) {
  const float k = *beta;
  for (int64_t i = 0; i < count; i++) y[i] = b[i] * a[i] / (1 + expf(-k * a[i]));
}

void swish_gate_back_f32(float *d_a, const float *g, const float *a, const float *b,
                         const float *beta, int64_t count) {
  const float k = *beta;
  for (int64_t i = 0; i < count; i++) {
    float s = 1 / (1 + expf(-k * a[i]));
    d_a[i] = g[i] * b[i] * s * (1 + k * a[i] * (1 - s));
  }
}
