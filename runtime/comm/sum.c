/* In: one range in each rank's memory. Out: the sum in all of them. Holds: the order of additions
   is that of the ranks for every element, so ranges, vector width and timing never change a bit. */
#include "sum.h"
#include "kernels/cpu/half.h"
#include "multiversion.h"

DDP_MULTIVERSION static void sum_two(float *restrict a, float *restrict b, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float s = a[i] + b[i];
    a[i] = s;
    b[i] = s;
  }
}

DDP_MULTIVERSION static void sum_four(float *restrict a, float *restrict b, float *restrict c,
                                      float *restrict d, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    float s = ((a[i] + b[i]) + c[i]) + d[i];
    a[i] = s;
    b[i] = s;
    c[i] = s;
    d[i] = s;
  }
}

DDP_MULTIVERSION static void add_to(float *restrict sum, const float *restrict a, int64_t n) {
  for (int64_t i = 0; i < n; i++) sum[i] += a[i];
}

/* The same in 16 bits: what is added are numbers of the type, in float32's clothes. */
DDP_MULTIVERSION static void add_bf16(float *restrict sum, const float *restrict a, int64_t n) {
  for (int64_t i = 0; i < n; i++) sum[i] = ddp_round_bf16(sum[i] + a[i]);
}

DDP_MULTIVERSION static void add_f16(float *restrict sum, const float *restrict a, int64_t n) {
  for (int64_t i = 0; i < n; i++) sum[i] = ddp_round_f16(sum[i] + a[i]);
}

typedef void (*Add)(float *restrict, const float *restrict, int64_t);

static Add add_of(DdpDType wire) {
  return wire == DDP_bf16 ? add_bf16 : wire == DDP_f16 ? add_f16 : add_to;
}

/* Any number of rows: a piece at a time, so that it stays in the first cache. */
static void sum_many(float *const *rows, int n_rows, int64_t begin, int64_t end, Add add) {
  enum { PIECE = 2048 };
  float sum[PIECE];
  for (int64_t at = begin; at < end; at += PIECE) {
    int64_t n = end - at < PIECE ? end - at : PIECE;
    size_t bytes = (size_t)n * sizeof(float);
    memcpy(sum, rows[0] + at, bytes);
    for (int r = 1; r < n_rows; r++) add(sum, rows[r] + at, n);
    for (int r = 0; r < n_rows; r++) memcpy(rows[r] + at, sum, bytes);
  }
}

void ddp_sum_rows(float *const *rows, int n_rows, int64_t begin, int64_t end, DdpDType wire) {
  int64_t n = end - begin;
  if (n <= 0) return;
  if (wire != DDP_f32)
    sum_many(rows, n_rows, begin, end, add_of(wire));
  else if (n_rows == 2)
    sum_two(rows[0] + begin, rows[1] + begin, n);
  else if (n_rows == 4)
    sum_four(rows[0] + begin, rows[1] + begin, rows[2] + begin, rows[3] + begin, n);
  else
    sum_many(rows, n_rows, begin, end, add_to);
}

/* ---------- 16 bits ---------- */

DDP_MULTIVERSION static void compress_bf16(float *x, int64_t n, float ranks) {
  for (int64_t i = 0; i < n; i++) x[i] = ddp_round_bf16(ddp_round_bf16(x[i] * ranks) / ranks);
}

DDP_MULTIVERSION static void compress_f16(float *x, int64_t n, float ranks) {
  for (int64_t i = 0; i < n; i++) x[i] = ddp_round_f16(ddp_round_f16(x[i] * ranks) / ranks);
}

void ddp_sum_compress(float *x, int64_t n, DdpDType wire, int ranks) {
  if (wire == DDP_bf16) compress_bf16(x, n, (float)ranks);
  if (wire == DDP_f16) compress_f16(x, n, (float)ranks);
}

DDP_MULTIVERSION static void pack_f16(uint16_t *restrict to, const float *restrict from, size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = ddp_store_f16(from[i]);
}

DDP_MULTIVERSION static void unpack_f16(float *restrict to, const uint16_t *restrict from,
                                        size_t n) {
  for (size_t i = 0; i < n; i++) to[i] = ddp_load_f16(from[i]);
}

void ddp_sum_pack(uint16_t *to, const float *from, size_t n, DdpDType wire) {
  if (wire == DDP_f16) {
    pack_f16(to, from, n);
    return;
  }
  for (size_t i = 0; i < n; i++) to[i] = ddp_store_bf16(from[i]);
}

void ddp_sum_unpack(float *to, const uint16_t *from, size_t n, DdpDType wire) {
  if (wire == DDP_f16) {
    unpack_f16(to, from, n);
    return;
  }
  for (size_t i = 0; i < n; i++) to[i] = ddp_load_bf16(from[i]);
}

/* out may be a or b. */
DDP_MULTIVERSION static void into_f32(void *out, const void *a, const void *b, size_t n) {
  float *o = out;
  const float *x = a, *y = b;
  for (size_t i = 0; i < n; i++) o[i] = x[i] + y[i];
}

DDP_MULTIVERSION static void into_bf16(void *out, const void *a, const void *b, size_t n) {
  uint16_t *o = out;
  const uint16_t *x = a, *y = b;
  for (size_t i = 0; i < n; i++) o[i] = ddp_store_bf16(ddp_load_bf16(x[i]) + ddp_load_bf16(y[i]));
}

DDP_MULTIVERSION static void into_f16(void *out, const void *a, const void *b, size_t n) {
  uint16_t *o = out;
  const uint16_t *x = a, *y = b;
  for (size_t i = 0; i < n; i++) o[i] = ddp_store_f16(ddp_load_f16(x[i]) + ddp_load_f16(y[i]));
}

DdpSumInto ddp_sum_into(DdpDType wire) {
  return wire == DDP_bf16 ? into_bf16 : wire == DDP_f16 ? into_f16 : into_f32;
}
