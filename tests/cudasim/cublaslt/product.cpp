/* The product itself, in plain loops: sums in float, part after part of k; then the epilogue, in the order in which
   the vendor has it (bias, aux, activation, gradient of the bias). */
#include "product.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include <math.h>
#include <vector>

/* Wider vectors where the processor has them. Under sanitizers a resolver would run before they are ready. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&                \
    !defined(__SANITIZE_THREAD__)
#define WIDE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDE
#endif

namespace cublasltsim {
static float get(const void *p, int type, size_t i) {
  if (type == CUDA_R_32F) return ((const float *)p)[i];
  uint16_t bits = ((const uint16_t *)p)[i];
  return type == CUDA_R_16BF ? __bfloat162float(__ushort_as_bfloat16(bits))
                             : __half2float(__ushort_as_half(bits));
}
static void put(void *p, int type, size_t i, float v) {
  if (type == CUDA_R_32F)
    ((float *)p)[i] = v;
  else
    ((uint16_t *)p)[i] = type == CUDA_R_16BF ? __bfloat16_as_ushort(__float2bfloat16_rn(v))
                                             : __half_as_ushort(__float2half_rn(v));
}
/* 10 bits of fraction. */
static float to_tf32(float v) {
  unsigned u = __float_as_uint(v);
  if ((u & 0x7f800000) == 0x7f800000) return v;
  return __uint_as_float((u + 0xfff + (u >> 13 & 1)) & ~0x1fffu);
}

/* The form with tanh, which is the library's. */
static const float C0 = 0.7978845608f, C1 = 0.044715f;
static float gelu(float x) {
  return 0.5f * x * (1.f + tanhf(C0 * (x + C1 * x * x * x)));
}
static float gelu_slope(float x) {
  float t = tanhf(C0 * (x + C1 * x * x * x));
  return 0.5f * (1.f + t) + 0.5f * x * (1.f - t * t) * C0 * (1.f + 3.f * C1 * x * x);
}

/* Dense copies in float: [k][m] of op(A), [n][k] of op(B). */
static void unpack(const Product &p, int z, std::vector<float> &a, std::vector<float> &b) {
  size_t m = p.m(), n = p.n(), k = p.k();
  size_t a0 = (size_t)z * (size_t)p.a.stride, b0 = (size_t)z * (size_t)p.b.stride;
  size_t lda = (size_t)p.a.ld, ldb = (size_t)p.b.ld;
  for (size_t q = 0; q < k; q++)
    for (size_t i = 0; i < m; i++)
      a[q * m + i] = get(p.A, p.a.type, a0 + (p.d.ta ? i * lda + q : q * lda + i));
  for (size_t j = 0; j < n; j++)
    for (size_t q = 0; q < k; q++)
      b[j * k + q] = get(p.B, p.b.type, b0 + (p.d.tb ? q * ldb + j : j * ldb + q));
  if (p.d.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
    for (float &v : a) v = to_tf32(v);
    for (float &v : b) v = to_tf32(v);
  }
}

/* Four columns of op(A) op(B): sums over [from, to) of k. */
WIDE static void columns(const float *a, const float *b, size_t m, size_t k, size_t from, size_t to,
                         size_t count, float *out) {
  for (size_t i = 0; i < count * m; i++) out[i] = 0.f;
  if (count == 4) {
    for (size_t q = from; q < to; q++) {
      const float *row = a + q * m;
      float b0 = b[q], b1 = b[k + q], b2 = b[2 * k + q], b3 = b[3 * k + q];
      for (size_t i = 0; i < m; i++) {
        out[i] += row[i] * b0;
        out[m + i] += row[i] * b1;
        out[2 * m + i] += row[i] * b2;
        out[3 * m + i] += row[i] * b3;
      }
    }
    return;
  }
  for (size_t j = 0; j < count; j++)
    for (size_t q = from; q < to; q++)
      for (size_t i = 0; i < m; i++) out[j * m + i] += a[q * m + i] * b[j * k + q];
}

/* Column j of the result, from its sums. bias: sums over columns of what is stored. */
static void finish(const Product &p, int z, size_t j, const float *sums, std::vector<float> &bias) {
  const Operation &d = p.d;
  size_t m = p.m(), y0 = (size_t)z * (size_t)p.y.stride + j * (size_t)p.y.ld;
  size_t c0 = (size_t)z * (size_t)p.c.stride + j * (size_t)p.c.ld, x0 = j * (size_t)d.aux_ld;
  for (size_t i = 0; i < m; i++) {
    float v = p.alpha * sums[i];
    if (p.beta != 0.f) v += p.beta * get(p.C, p.c.type, c0 + i);
    if (d.epilogue & BIAS) v += get(d.bias, p.bias_type(), i);
    if (d.epilogue & RELU) v = v > 0.f ? v : 0.f;
    if (d.epilogue & GELU) {
      if (d.epilogue & AUX) put(d.aux, p.aux_type(), x0 + i, v);
      v = gelu(v);
    }
    if (d.epilogue & DGELU) v *= gelu_slope(get(d.aux, p.aux_type(), x0 + i));
    bias[i] += v;
    put(p.Y, p.y.type, y0 + i, v);
  }
}

void run(const Product &p) {
  size_t m = p.m(), n = p.n(), k = p.k();
  std::vector<float> a(m * k), b(n * k), sums(4 * m), part(4 * m), bias(m);
  for (int z = 0; z < p.y.count; z++) {
    unpack(p, z, a, b);
    for (size_t j = 0; j < n; j += 4) {
      size_t count = n - j < 4 ? n - j : 4;
      for (size_t s = 0; s < p.split; s++) {
        columns(a.data(), b.data() + j * k, m, k, k * s / p.split, k * (s + 1) / p.split, count,
                s ? part.data() : sums.data());
        for (size_t i = 0; s && i < count * m; i++) sums[i] += part[i];
      }
      for (size_t c = 0; c < count; c++) finish(p, z, j + c, sums.data() + c * m, bias);
    }
  }
  if (p.d.epilogue & BGRAD)
    for (size_t i = 0; i < m; i++) put(p.d.bias, p.bias_type(), i, bias[i]);
  if (p.d.epilogue & BGRADA)
    for (size_t i = 0; i < m; i++) {
      float sum = 0.f;
      for (size_t q = 0; q < k; q++) sum += a[q * m + i];
      put(p.d.bias, p.bias_type(), i, sum);
    }
  if (p.d.epilogue & BGRADB)
    for (size_t j = 0; j < n; j++) {
      float sum = 0.f;
      for (size_t q = 0; q < k; q++) sum += b[j * k + q];
      put(p.d.bias, p.bias_type(), j, sum);
    }
}
} // namespace cublasltsim
