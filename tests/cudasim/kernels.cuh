/* Kernels of the kinds that the emitter and the runtime have, small: what the emulator must get right as a whole. */
#ifndef CUDASIM_KERNELS_CUH
#define CUDASIM_KERNELS_CUH
#include "check.cuh"

#ifdef __CUDACC__
static __device__ __forceinline__ void ddp_mma_16816_bf16(float (&d)[4], const uint32_t (&a)[4],
                                                          const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
typedef __nv_bfloat16 bf16;
struct __align__(16) bf16x8 {
  bf16 at[8];
};

/* ---- sums of a warp and of a block ---- */
static __device__ __forceinline__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
static __device__ __forceinline__ float warp_max(float x) {
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
  return x;
}
static __device__ __forceinline__ float block_sum(float x, float *parts) {
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  x = warp_sum(x);
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  x = warp_sum(lane < static_cast<int>(blockDim.x) / 32 ? parts[lane] : 0.f);
  __syncthreads();
  return x;
}
static __device__ __forceinline__ float block_max(float x, float *parts) {
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  x = warp_max(x);
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  x = warp_max(lane < static_cast<int>(blockDim.x) / 32 ? parts[lane] : -INFINITY);
  __syncthreads();
  return x;
}

/* ---- element by element, four at a time ---- */
static __global__ void __launch_bounds__(256)
    add_vectors(const float *a, const float *b, float *c, int n) {
  int i = (static_cast<int>(blockIdx.x) * 256 + static_cast<int>(threadIdx.x)) * 4;
  if (i + 3 < n) {
    float4 x = *reinterpret_cast<const float4 *>(a + i),
           y = *reinterpret_cast<const float4 *>(b + i);
    *reinterpret_cast<float4 *>(c + i) = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  } else {
    for (; i < n; i++) c[i] = a[i] + b[i];
  }
}

/* ---- layer norm of rows of C = 512 in bf16, a warp for each ---- */
constexpr int C = 512, VECTORS = C / 256;
static __global__ void __launch_bounds__(128)
    layer_norm(const bf16 *x, const bf16 *w, bf16 *y, float *mean, float *rstd, int rows) {
  int lane = static_cast<int>(threadIdx.x) % 32,
      row = static_cast<int>(blockIdx.x) * 4 + static_cast<int>(threadIdx.x) / 32;
  if (row >= rows) return; /* whole warps leave together */
  float v[VECTORS * 8], sum = 0.f, squares = 0.f;
  for (int i = 0; i < VECTORS; i++) {
    bf16x8 in = *reinterpret_cast<const bf16x8 *>(x + row * C + (i * 32 + lane) * 8);
    for (int j = 0; j < 8; j++) sum += v[i * 8 + j] = __bfloat162float(in.at[j]);
  }
  float m = warp_sum(sum) / C;
  for (int i = 0; i < VECTORS * 8; i++) squares += (v[i] - m) * (v[i] - m);
  float r = rsqrtf(warp_sum(squares) / C + 1e-5f);
  for (int i = 0; i < VECTORS; i++) {
    bf16x8 out;
    int c = (i * 32 + lane) * 8;
    for (int j = 0; j < 8; j++)
      out.at[j] = __float2bfloat16((v[i * 8 + j] - m) * r * __bfloat162float(w[c + j]));
    *reinterpret_cast<bf16x8 *>(y + row * C + c) = out;
  }
  if (lane == 0) mean[row] = m, rstd[row] = r;
}
/* The gradient of its weight: parts of each block in shared memory, then added up in order. */
static __global__ void __launch_bounds__(256)
    layer_norm_weight(const bf16 *dy, const bf16 *x, const float *mean, const float *rstd,
                      float *parts, int rows) {
  DYNAMIC_SHARED(float, all); /* [8 warps][C] */
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  float *mine = all + warp * C;
  for (int c = lane; c < C; c += 32) mine[c] = 0.f;
  __syncwarp();
  for (int row = static_cast<int>(blockIdx.x) * 8 + warp; row < rows;
       row += static_cast<int>(gridDim.x) * 8)
    for (int c = lane; c < C; c += 32)
      mine[c] += __bfloat162float(dy[row * C + c]) *
                 (__bfloat162float(x[row * C + c]) - mean[row]) * rstd[row];
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < C; c += 256) {
    float sum = 0.f;
    for (int k = 0; k < 8; k++) sum += all[k * C + c];
    parts[static_cast<int>(blockIdx.x) * C + c] = sum;
  }
}
static __global__ void __launch_bounds__(256)
    add_parts(const float *parts, float *out, int n, int count) {
  int i = static_cast<int>(blockIdx.x) * 256 + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  float sum = 0.f;
  for (int k = 0; k < count; k++) sum += parts[k * n + i];
  out[i] = sum;
}

/* ---- loss over a vocabulary, its gradient over the logits ---- */
static __global__ void __launch_bounds__(1024)
    cross_entropy(float *logits, const int *target, float *loss, int n) {
  __shared__ float parts[32];
  float *row = logits + static_cast<int>(blockIdx.x) * n, most = -INFINITY, sum = 0.f;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    most = fmaxf(most, row[i]);
  most = block_max(most, parts);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    sum += __expf(row[i] - most);
  sum = block_sum(sum, parts);
  int t = target[blockIdx.x];
  if (threadIdx.x == 0) loss[blockIdx.x] = __logf(sum) + most - row[t];
  __syncthreads(); /* row[t] is read before it is written over */
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
    row[i] = __expf(row[i] - most) / sum - (i == t ? 1.f : 0.f);
}

/* ---- C[m, n] = A[m, k] B[k, n], tiles in shared memory ---- */
static __global__ void __launch_bounds__(256)
    matmul(const float *a, const float *b, float *c, int m, int n, int k) {
  __shared__ float as[32][33], bs[32][33];
  int tx = static_cast<int>(threadIdx.x) % 32, ty = static_cast<int>(threadIdx.x) / 32;
  int r0 = static_cast<int>(blockIdx.y) * 32, c0 = static_cast<int>(blockIdx.x) * 32;
  float acc[4] = {0.f, 0.f, 0.f, 0.f};
  for (int k0 = 0; k0 < k; k0 += 32) {
    for (int i = ty; i < 32; i += 8) {
      as[i][tx] = r0 + i < m && k0 + tx < k ? a[(r0 + i) * k + k0 + tx] : 0.f;
      bs[i][tx] = k0 + i < k && c0 + tx < n ? b[(k0 + i) * n + c0 + tx] : 0.f;
    }
    __syncthreads();
    for (int q = 0; q < 32; q++)
      for (int i = 0; i < 4; i++) acc[i] += as[ty + 8 * i][q] * bs[q][tx];
    __syncthreads();
  }
  for (int i = 0; i < 4; i++)
    if (r0 + ty + 8 * i < m && c0 + tx < n) c[(r0 + ty + 8 * i) * n + c0 + tx] = acc[i];
}

/* ---- AdamW; what changes from step to step is read from memory ---- */
struct Rates {
  float lr, c1, c2;
};
static __global__ void __launch_bounds__(256)
    adamw(float *p, bf16 *half, const float *g, float *m, float *v, const Rates *rates, int n) {
  int i = static_cast<int>(blockIdx.x) * 256 + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  Rates r = *rates;
  m[i] = 0.9f * m[i] + 0.1f * g[i];
  v[i] = 0.95f * v[i] + 0.05f * g[i] * g[i];
  p[i] -= r.lr * (m[i] * r.c1 / (sqrtf(v[i] * r.c2) + 1e-8f) + 0.1f * p[i]);
  half[i] = __float2bfloat16(p[i]);
}

/* ---- causal attention, heads of 32, one thread for each query, keys and values in tiles ---- */
constexpr int D = 32, TILE = 64;
static __global__ void __launch_bounds__(TILE)
    attention(const float *q, const float *k, const float *v, float *out, int length, float by) {
  DYNAMIC_SHARED(float, keys); /* [TILE][D], then values */
  float *values = keys + TILE * D;
  int base = static_cast<int>(blockIdx.y) * length * D;
  int row = static_cast<int>(blockIdx.x) * TILE + static_cast<int>(threadIdx.x);
  float mine[D], acc[D], most = -INFINITY, sum = 0.f;
  for (int d = 0; d < D; d++)
    mine[d] = row < length ? q[base + row * D + d] * by : 0.f, acc[d] = 0.f;
  for (int j0 = 0; j0 <= static_cast<int>(blockIdx.x) * TILE; j0 += TILE) {
    for (int i = static_cast<int>(threadIdx.x); i < TILE * D; i += TILE) {
      bool in = j0 * D + i < length * D;
      keys[i] = in ? k[base + j0 * D + i] : 0.f;
      values[i] = in ? v[base + j0 * D + i] : 0.f;
    }
    __syncthreads();
    for (int j = 0; j < TILE && j0 + j <= row; j++) {
      float s = 0.f;
      for (int d = 0; d < D; d++) s += mine[d] * keys[j * D + d];
      float now = fmaxf(most, s), keep = __expf(most - now), p = __expf(s - now);
      sum = sum * keep + p;
      most = now;
      for (int d = 0; d < D; d++) acc[d] = acc[d] * keep + p * values[j * D + d];
    }
    __syncthreads();
  }
  if (row < length)
    for (int d = 0; d < D; d++) out[base + row * D + d] = acc[d] / sum;
}

/* ---- one warp, one tile on the tensor cores: C[16, 8] = A[16, 16] B[16, 8], B by columns ---- */
static __global__ void __launch_bounds__(32) tensor_tile(const bf16 *a, const bf16 *b, float *c) {
  int lane = static_cast<int>(threadIdx.x), g = lane >> 2, t = (lane & 3) * 2;
  auto pair = [](const bf16 *p) { return *reinterpret_cast<const uint32_t *>(p); };
  uint32_t A[4] = {pair(a + g * 16 + t), pair(a + (g + 8) * 16 + t), pair(a + g * 16 + t + 8),
                   pair(a + (g + 8) * 16 + t + 8)};
  uint32_t B[2] = {pair(b + g * 16 + t), pair(b + g * 16 + t + 8)};
  float d[4] = {0.f, 0.f, 0.f, 0.f};
  ddp_mma_16816_bf16(d, A, B);
  c[g * 8 + t] = d[0], c[g * 8 + t + 1] = d[1], c[(g + 8) * 8 + t] = d[2],
            c[(g + 8) * 8 + t + 1] = d[3];
}
#endif
