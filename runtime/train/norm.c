/* Gradient norms in PyTorch's order of additions. Compiled with -ffp-contract=off: which products are
   rounded before they are added is part of the result. */
#include "norm.h"
#include <math.h>
#include <string.h>

typedef float Lanes __attribute__((vector_size(32)));

float ddp_norm(const float *x, int64_t n) {
  Lanes sum = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    Lanes v;
    memcpy(&v, x + i, sizeof v);
    sum += v * v;
  }
  float total = sum[0];
  for (int j = 1; j < 8; j++) total += sum[j];
  for (; i + 4 <= n; i += 4) {
    for (int j = 0; j < 4; j++) total += x[i + j] * x[i + j];
  }
  for (; i < n; i++) total = fmaf(x[i], x[i], total);
  return sqrtf(total);
}

float ddp_norm_coefficient(float norm, double max_norm) {
  float reciprocal = 1.0f / (norm + 1e-6f); /* number / tensor is reciprocal * number there */
  float c = reciprocal * (float)max_norm;
  return c > 1.0f ? 1.0f : c; /* NaN stays NaN */
}

void ddp_norm_scale(float *x, int64_t n, float factor) {
  for (int64_t i = 0; i < n; i++) x[i] *= factor;
}
