/* Orthogonal matrices. In: normal draws. Out: what torch.nn.init.orthogonal_ makes of them, to
   rounding. Gram and Schmidt in double: each vector against those before it, and once more, since the
   first time leaves rounding errors times the condition of the matrix. */
#include "orthogonal.h"
#include <math.h>
#include <stdbool.h>

enum { LANES = 8 }; /* one sum would wait for its last addition */

static double dot(const double *a, const double *b, int64_t n) {
  double part[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) part[k] += a[i + k] * b[i + k];
  for (; i < n; i++) part[0] += a[i] * b[i];
  return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

static void remove_parts(const double *before, int64_t n, double *x, int64_t length) {
  for (int64_t u = 0; u < n; u++) {
    const double *y = before + u * length;
    double c = dot(y, x, length);
    for (int64_t i = 0; i < length; i++) x[i] -= c * y[i];
  }
}

void ddp_orthogonal(float *at, double *room, int64_t rows, int64_t columns, double gain) {
  bool wide = rows < columns;
  int64_t n = wide ? rows : columns, length = wide ? columns : rows;
  int64_t next = wide ? columns : 1, step = wide ? 1 : columns;
  for (int64_t v = 0; v < n; v++) {
    double *x = room + v * length;
    for (int64_t i = 0; i < length; i++) x[i] = at[v * next + i * step];
    remove_parts(room, v, x, length);
    remove_parts(room, v, x, length);
    double norm = sqrt(dot(x, x, length));
    for (int64_t i = 0; i < length; i++) x[i] /= norm;
  }
  for (int64_t v = 0; v < n; v++)
    for (int64_t i = 0; i < length; i++)
      at[v * next + i * step] = (float)(gain * room[v * length + i]);
}
