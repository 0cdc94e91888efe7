/* In: one range in each rank's memory. Out: the sum in all of them. Holds: the order of additions
   is that of the ranks for every element, so ranges, vector width and timing never change a bit. */
#include "sum.h"
#include <string.h>

/* One copy of a loop per instruction set, chosen when the program is loaded. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MULTIVERSION __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MULTIVERSION
#endif

MULTIVERSION static void sum_two(float *restrict a, float *restrict b, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float s = a[i] + b[i];
    a[i] = s;
    b[i] = s;
  }
}

MULTIVERSION static void sum_four(float *restrict a, float *restrict b, float *restrict c,
                                  float *restrict d, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float s = ((a[i] + b[i]) + c[i]) + d[i];
    a[i] = s;
    b[i] = s;
    c[i] = s;
    d[i] = s;
  }
}

MULTIVERSION static void add_to(float *restrict sum, const float *restrict a, int64_t n) {
  for (int64_t i = 0; i < n; i++) sum[i] += a[i];
}

/* Any number of rows: a piece at a time, so that it stays in the first cache. */
static void sum_many(float *const *rows, int n_rows, int64_t begin, int64_t end) {
  enum { PIECE = 2048 };
  float sum[PIECE];
  for (int64_t at = begin; at < end; at += PIECE) {
    int64_t n = end - at < PIECE ? end - at : PIECE;
    size_t bytes = (size_t)n * sizeof(float);
    memcpy(sum, rows[0] + at, bytes);
    for (int r = 1; r < n_rows; r++) add_to(sum, rows[r] + at, n);
    for (int r = 0; r < n_rows; r++) memcpy(rows[r] + at, sum, bytes);
  }
}

void ddp_sum_rows(float *const *rows, int n_rows, int64_t begin, int64_t end) {
  int64_t n = end - begin;
  if (n <= 0) return;
  if (n_rows == 2)
    sum_two(rows[0] + begin, rows[1] + begin, n);
  else if (n_rows == 4)
    sum_four(rows[0] + begin, rows[1] + begin, rows[2] + begin, rows[3] + begin, n);
  else
    sum_many(rows, n_rows, begin, end);
}
