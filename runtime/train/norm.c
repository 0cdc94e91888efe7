/* Gradient norms in PyTorch's order of additions. Compiled with -ffp-contract=off: which products are
   rounded before they are added is part of the result. */
#include "norm.h"
#include <math.h>
#include <string.h>

/* Eight lanes as two vectors of four: every x86-64 keeps those in registers. */
typedef float Four __attribute__((vector_size(16)));

static Four load(const float *x) {
  Four v;
  memcpy(&v, x, sizeof v);
  return v;
}

float ddp_norm(const float *x, int64_t n) {
  Four low = {0}, high = {0};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    Four a = load(x + i), b = load(x + i + 4);
    low += a * a;
    high += b * b;
  }
  float total = low[0];
  for (int j = 1; j < 8; j++) total += j < 4 ? low[j] : high[j - 4];
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
