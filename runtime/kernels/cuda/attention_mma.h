/* Attention of 16-bit floats on tensor cores, for widths that are multiples of 16, up to 128. A block has four warps;
   each has 16 rows: queries, or in ddp_attention_mma_keys keys. Scores are the result of one product and an operand of
   the next without leaving the registers, rounded to 16 bits in between; sums are floats.
   Names of fragments and their places in the threads: PTX ISA, mma.m16n8k16. */
#ifndef DDP_KERNELS_CUDA_ATTENTION_MMA_H
#define DDP_KERNELS_CUDA_ATTENTION_MMA_H
#include "attention_score.h"

static constexpr int DDP_MMA_THREADS = 128;
static constexpr int DDP_MMA_ROWS = 64; /* of a block: 16 in a warp */

template <class T> static constexpr __host__ __device__ bool ddp_attention_mma_takes(int k, int v) {
  return sizeof(T) == 2 && k % 16 == 0 && v % 16 == 0 && k <= 128 && v <= 128;
}

/* ---------- fragments ---------- */

DDP_DEVICE void ddp_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                        __nv_bfloat16) {
  const uint32_t b[2] = {b0, b1};
  ddp_mma_16816_bf16(d, a, b);
}
DDP_DEVICE void ddp_mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, __half) {
  const uint32_t b[2] = {b0, b1};
  ddp_mma_16816_f16(d, a, b);
}

/* Two neighbours in one register. */
template <class T> DDP_DEVICE uint32_t ddp_mma_pair(float low, float high) {
  DdpVector<T, 2> pair;
  uint32_t x;
  ddp_store(&pair.at[0], low);
  ddp_store(&pair.at[1], high);
  memcpy(&x, &pair, sizeof x);
  return x;
}

/* Four 8 x 8 matrices of a tile in shared memory. DOWN: the second lies below the first, else right of it. As `a`:
   DOWN; as `b` of two products, where rows are the columns of b: not DOWN; where rows are those of b: DOWN and
   TURNED. */
template <bool TURNED, bool DOWN, class T>
DDP_DEVICE void ddp_mma_load(uint32_t (&x)[4], const T *tile, int pitch) {
  const int lane = (int)threadIdx.x % 32;
#ifdef __CUDACC__
  const int below = DOWN ? lane / 8 % 2 : lane / 16, right = DOWN ? lane / 16 : lane / 8 % 2;
  const uint32_t row =
      (uint32_t)__cvta_generic_to_shared(tile + (lane % 8 + 8 * below) * pitch + 8 * right);
  if (TURNED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(row)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(row)
                 : "memory");
#else
  for (int i = 0; i < 4; i++) {
    const T *matrix = tile + 8 * (DOWN ? i % 2 : i / 2) * pitch + 8 * (DOWN ? i / 2 : i % 2);
    const int first = TURNED ? lane % 4 * 2 * pitch + lane / 4 : lane / 4 * pitch + lane % 4 * 2;
    const T pair[2] = {matrix[first], matrix[first + (TURNED ? pitch : 1)]};
    memcpy(&x[i], pair, sizeof x[i]);
  }
#endif
}

/* `rows` rows of WIDTH numbers to shared memory, WIDTH + 8 from one to the next (so that ldmatrix meets no bank
   twice); zeros up to ROWS. */
template <int ROWS, int WIDTH, class T>
DDP_DEVICE void ddp_mma_stage(T *to, const T *from, int64_t stride, int rows) {
  static constexpr int EACH = 8, ACROSS = WIDTH / EACH;
  typedef DdpVector<T, EACH> Vector;
  const bool whole =
      (reinterpret_cast<uintptr_t>(from) | (uintptr_t)(stride * 2)) % sizeof(Vector) == 0;
  for (int i = (int)threadIdx.x; i < ROWS * ACROSS; i += DDP_MMA_THREADS) {
    const int row = i / ACROSS, column = i % ACROSS * EACH;
    const T *at = from + row * stride + column;
    Vector x;
    if (row >= rows)
      for (int c = 0; c < EACH; c++) ddp_store(&x.at[c], 0.0f);
    else if (whole)
      x = *reinterpret_cast<const Vector *>(at);
    else
      for (int c = 0; c < EACH; c++) x.at[c] = at[c];
    *reinterpret_cast<Vector *>(to + row * (WIDTH + 8) + column) = x;
  }
}

/* sum[16, 8 N] = a[16, WIDTH] times the rows of `tile` (8 N rows of WIDTH numbers). */
template <int N, int WIDTH, class T>
DDP_DEVICE void ddp_mma_dots(float (&sum)[N][4], const uint32_t (&a)[WIDTH / 16][4],
                             const T *tile) {
#pragma unroll
  for (int n = 0; n < N; n++) sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0.0f;
#pragma unroll
  for (int k = 0; k < WIDTH / 16; k++)
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t b[4];
      ddp_mma_load<false, false>(b, tile + 8 * n * (WIDTH + 8) + 16 * k, WIDTH + 8);
      ddp_mma(sum[n], a[k], b[0], b[1], T());
      ddp_mma(sum[n + 1], a[k], b[2], b[3], T());
    }
}

/* sum[16, WIDTH] += weights[16, 8 N] times `tile` (8 N rows of WIDTH numbers). */
template <int N, int WIDTH, class T>
DDP_DEVICE void ddp_mma_mix(float (&sum)[WIDTH / 8][4], const float (&weight)[N][4],
                            const T *tile) {
#pragma unroll
  for (int k = 0; k < N / 2; k++) {
    const uint32_t a[4] = {ddp_mma_pair<T>(weight[2 * k][0], weight[2 * k][1]),
                           ddp_mma_pair<T>(weight[2 * k][2], weight[2 * k][3]),
                           ddp_mma_pair<T>(weight[2 * k + 1][0], weight[2 * k + 1][1]),
                           ddp_mma_pair<T>(weight[2 * k + 1][2], weight[2 * k + 1][3])};
#pragma unroll
    for (int n = 0; n < WIDTH / 8; n += 2) {
      uint32_t b[4];
      ddp_mma_load<true, true>(b, tile + 16 * k * (WIDTH + 8) + 8 * n, WIDTH + 8);
      ddp_mma(sum[n], a, b[0], b[1], T());
      ddp_mma(sum[n + 1], a, b[2], b[3], T());
    }
  }
}

/* This warp's 16 rows of a tile, as `a`. */
template <int WIDTH, class T>
DDP_DEVICE void ddp_mma_rows(uint32_t (&a)[WIDTH / 16][4], const T *tile) {
  const T *own = tile + (int)threadIdx.x / 32 * 16 * (WIDTH + 8);
#pragma unroll
  for (int k = 0; k < WIDTH / 16; k++) ddp_mma_load<false, true>(a[k], own + 16 * k, WIDTH + 8);
}

/* Results lie in the threads as rows `row` and `row + 8` of the block, columns 8 n + `column` and the next. */
DDP_DEVICE int ddp_mma_row() {
  return (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4;
}
DDP_DEVICE int ddp_mma_column() {
  return (int)threadIdx.x % 4 * 2;
}

/* to[row][..] = sum * factor[..]: row and row + 8. */
template <int WIDTH, class T>
DDP_DEVICE void ddp_mma_store(T *to, int64_t stride, int rows, const float (&sum)[WIDTH / 8][4],
                              float above, float below) {
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int row = ddp_mma_row() + 8 * half;
    const float f = half ? below : above;
    if (row >= rows) continue;
#pragma unroll
    for (int n = 0; n < WIDTH / 8; n++) {
      DdpVector<T, 2> pair;
      ddp_store(&pair.at[0], sum[n][2 * half] * f);
      ddp_store(&pair.at[1], sum[n][2 * half + 1] * f);
      *reinterpret_cast<DdpVector<T, 2> *>(to + row * stride + 8 * n + ddp_mma_column()) = pair;
    }
  }
}

/* ---------- kernels ---------- */

/* Largest number and sum over the four threads that hold a row. */
DDP_DEVICE float ddp_mma_row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(DDP_ALL_LANES, x, 1));
  return fmaxf(x, __shfl_xor_sync(DDP_ALL_LANES, x, 2));
}
DDP_DEVICE float ddp_mma_row_sum(float x) {
  x += __shfl_xor_sync(DDP_ALL_LANES, x, 1);
  return x + __shfl_xor_sync(DDP_ALL_LANES, x, 2);
}

/* Scores of one of the thread's rows (half 0 or 1) become weights that are not divided yet; returns what the sums
   before them count times. */
template <int N>
DDP_DEVICE float ddp_mma_soften(float (&x)[N][4], int half, float *most, float *sum) {
  float here = -INFINITY, s = 0.0f;
#pragma unroll
  for (int n = 0; n < N; n++) here = fmaxf(here, fmaxf(x[n][2 * half], x[n][2 * half + 1]));
  const float above = fmaxf(*most, ddp_mma_row_max(here)),
              shift = above == -INFINITY ? 0.0f : above;
  const float f = __expf(*most - shift);
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int c = 2 * half; c < 2 * half + 2; c++) s += x[n][c] = __expf(x[n][c] - shift);
  *sum = *sum * f + ddp_mma_row_sum(s);
  *most = above;
  return f;
}

/* A block: 64 queries of a head of a sample. */
template <class T, int K, int V>
static __global__ void __launch_bounds__(DDP_MMA_THREADS)
    ddp_attention_mma_forward(DdpAttention a, const __grid_constant__ DdpSite site,
                              const DdpScalars *scalars, T *y, float *lse) {
  static constexpr int KEYS = 64;
  __shared__ __align__(16) T keys[KEYS * (K + 8)];
  __shared__ __align__(16) T values[KEYS * (V + 8)];
  const int b = (int)blockIdx.z, h = (int)blockIdx.y, i0 = (int)blockIdx.x * DDP_MMA_ROWS;
  const int rows = ddp_attention_part(a.t, i0, DDP_MMA_ROWS),
            end = ddp_attention_seen(a, i0 + rows);
  const int group = h / (int)(a.heads / a.groups);
  const T *key = ddp_attention_head<T>(a.key, b, group),
          *value = ddp_attention_head<T>(a.value, b, group);
  const DdpRow draws = ddp_attention_draws(a, site, scalars, b);
  uint32_t q[K / 16][4];
  ddp_mma_stage<DDP_MMA_ROWS, K>(keys, ddp_attention_head<T>(a.q, b, h) + i0 * a.q.time, a.q.time,
                                 rows);
  __syncthreads();
  ddp_mma_rows<K>(q, keys);
  float o[V / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {}, f[2];
  for (int j0 = 0; j0 < end; j0 += KEYS) {
    const int n_keys = ddp_attention_part(end, j0, KEYS);
    __syncthreads(); /* the tiles have been read */
    ddp_mma_stage<KEYS, K>(keys, key + j0 * a.key.time, a.key.time, n_keys);
    ddp_mma_stage<KEYS, V>(values, value + j0 * a.value.time, a.value.time, n_keys);
    __syncthreads();
    float x[KEYS / 8][4];
    ddp_mma_dots<KEYS / 8, K>(x, q, keys);
    const int i = i0 + ddp_mma_row(), j = j0 + ddp_mma_column();
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
      for (int c = 0; c < 4; c++)
        x[n][c] = ddp_attention_score<T>(a, b, h, i + c / 2 * 8, j + 8 * n + c % 2, x[n][c]);
    for (int half = 0; half < 2; half++) f[half] = ddp_mma_soften(x, half, &most[half], &sum[half]);
    if (a.keep < 1) {
#pragma unroll
      for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int c = 0; c < 4; c++)
          x[n][c] *= ddp_attention_kept(a, draws, h, i + c / 2 * 8, j + 8 * n + c % 2);
    }
#pragma unroll
    for (int n = 0; n < V / 8; n++)
#pragma unroll
      for (int c = 0; c < 4; c++) o[n][c] *= f[c / 2];
    ddp_mma_mix<KEYS / 8, V>(o, x, values);
  }
  for (int half = 0; half < 2; half++) {
    const int row = ddp_mma_row() + 8 * half;
    f[half] = sum[half] == 0 ? 0.0f : 1.0f / sum[half];
    if (lse && row < rows && threadIdx.x % 4 == 0)
      lse[(b * a.heads + h) * a.t + i0 + row] =
          sum[half] == 0 ? 0.0f : most[half] + logf(sum[half]);
  }
  ddp_mma_store<V>(y + ((b * a.t + i0) * a.heads + h) * V, a.heads * V, rows, o, f[0], f[1]);
}

/* Queries of a tile of backward: as many as leave static shared memory (48 KiB) for the keys and values of the
   block. */
static constexpr __host__ __device__ int ddp_attention_mma_tile(int k, int v) {
  return (DDP_MMA_ROWS + 32) * (k + 8 + v + 8) * 2 <= 48 * 1024 ? 32 : 16;
}

/* A block: 64 keys of a head of k and v of a sample; all queries that see them, head after head. */
template <class T, int K, int V>
static __global__ void __launch_bounds__(DDP_MMA_THREADS)
    ddp_attention_mma_keys(DdpAttention a, const __grid_constant__ DdpSite site,
                           const DdpScalars *scalars, DdpHeads gradient, const float *lse,
                           const float *delta, T *dk, T *dv) {
  static constexpr int QUERIES = ddp_attention_mma_tile(K, V);
  __shared__ __align__(16) T keys[DDP_MMA_ROWS * (K + 8)];
  __shared__ __align__(16) T values[DDP_MMA_ROWS * (V + 8)];
  __shared__ __align__(16) T queries[QUERIES * (K + 8)];
  __shared__ __align__(16) T gradients[QUERIES * (V + 8)];
  const int b = (int)blockIdx.z, group = (int)blockIdx.y, j0 = (int)blockIdx.x * DDP_MMA_ROWS;
  const int share = (int)(a.heads / a.groups), n_keys = ddp_attention_part(a.s, j0, DDP_MMA_ROWS);
  const DdpRow draws = ddp_attention_draws(a, site, scalars, b);
  float sum_k[K / 8][4] = {}, sum_v[V / 8][4] = {};
  ddp_mma_stage<DDP_MMA_ROWS, K>(keys, ddp_attention_head<T>(a.key, b, group) + j0 * a.key.time,
                                 a.key.time, n_keys);
  ddp_mma_stage<DDP_MMA_ROWS, V>(
      values, ddp_attention_head<T>(a.value, b, group) + j0 * a.value.time, a.value.time, n_keys);
  for (int h = group * share; h < (group + 1) * share; h++) {
    const int64_t head = (b * a.heads + h) * a.t;
    const T *q = ddp_attention_head<T>(a.q, b, h), *g = ddp_attention_head<T>(gradient, b, h);
    for (int i0 = a.causal ? j0 : 0; i0 < (int)a.t; i0 += QUERIES) {
      const int n = ddp_attention_part(a.t, i0, QUERIES);
      __syncthreads(); /* the tiles have been read */
      ddp_mma_stage<QUERIES, K>(queries, q + i0 * a.q.time, a.q.time, n);
      ddp_mma_stage<QUERIES, V>(gradients, g + i0 * gradient.time, gradient.time, n);
      __syncthreads();
      float x[QUERIES / 8][4], d[QUERIES / 8][4];
      {
        uint32_t own[K / 16][4];
        ddp_mma_rows<K>(own, keys);
        ddp_mma_dots<QUERIES / 8, K>(x, own, queries);
      }
      {
        uint32_t own[V / 16][4];
        ddp_mma_rows<V>(own, values);
        ddp_mma_dots<QUERIES / 8, V>(d, own, gradients);
      }
      const int i = i0 + ddp_mma_column(), j = j0 + ddp_mma_row();
#pragma unroll
      for (int m = 0; m < QUERIES / 8; m++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
          const DdpAttentionBack w =
              ddp_attention_weight_back<T>(a, draws, b, h, i + 8 * m + c % 2, j + c / 2 * 8,
                                           x[m][c], d[m][c], lse + head, delta + head);
          x[m][c] = w.weight;
          d[m][c] = w.score;
        }
      ddp_mma_mix<QUERIES / 8, V>(sum_v, x, gradients);
      ddp_mma_mix<QUERIES / 8, K>(sum_k, d, queries);
    }
  }
  const int64_t at = (b * a.s + j0) * a.groups + group;
  if (dk) ddp_mma_store<K>(dk + at * K, a.groups * K, n_keys, sum_k, 1.0f, 1.0f);
  if (dv) ddp_mma_store<V>(dv + at * V, a.groups * V, n_keys, sum_v, 1.0f, 1.0f);
}

/* A block: 64 queries of a head of a sample. */
template <class T, int K, int V>
static __global__ void __launch_bounds__(DDP_MMA_THREADS)
    ddp_attention_mma_queries(DdpAttention a, const __grid_constant__ DdpSite site,
                              const DdpScalars *scalars, DdpHeads gradient, const float *lse,
                              const float *delta, T *dq) {
  static constexpr int KEYS = 32;
  __shared__ __align__(16) T keys[DDP_MMA_ROWS * (K + 8)]; /* at first the block's queries */
  __shared__ __align__(16) T values[DDP_MMA_ROWS * (V + 8)];
  const int b = (int)blockIdx.z, h = (int)blockIdx.y, i0 = (int)blockIdx.x * DDP_MMA_ROWS;
  const int rows = ddp_attention_part(a.t, i0, DDP_MMA_ROWS),
            end = ddp_attention_seen(a, i0 + rows);
  const int group = h / (int)(a.heads / a.groups);
  const int64_t head = (b * a.heads + h) * a.t;
  const T *key = ddp_attention_head<T>(a.key, b, group),
          *value = ddp_attention_head<T>(a.value, b, group);
  const DdpRow draws = ddp_attention_draws(a, site, scalars, b);
  uint32_t q[K / 16][4], g[V / 16][4];
  ddp_mma_stage<DDP_MMA_ROWS, K>(keys, ddp_attention_head<T>(a.q, b, h) + i0 * a.q.time, a.q.time,
                                 rows);
  ddp_mma_stage<DDP_MMA_ROWS, V>(values, ddp_attention_head<T>(gradient, b, h) + i0 * gradient.time,
                                 gradient.time, rows);
  __syncthreads();
  ddp_mma_rows<K>(q, keys);
  ddp_mma_rows<V>(g, values);
  float sum[K / 8][4] = {};
  for (int j0 = 0; j0 < end; j0 += KEYS) {
    const int n_keys = ddp_attention_part(end, j0, KEYS);
    __syncthreads(); /* the tiles have been read */
    ddp_mma_stage<KEYS, K>(keys, key + j0 * a.key.time, a.key.time, n_keys);
    ddp_mma_stage<KEYS, V>(values, value + j0 * a.value.time, a.value.time, n_keys);
    __syncthreads();
    float x[KEYS / 8][4], d[KEYS / 8][4];
    ddp_mma_dots<KEYS / 8, K>(x, q, keys);
    ddp_mma_dots<KEYS / 8, V>(d, g, values);
    const int i = i0 + ddp_mma_row(), j = j0 + ddp_mma_column();
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
      for (int c = 0; c < 4; c++)
        d[n][c] = ddp_attention_weight_back<T>(a, draws, b, h, i + c / 2 * 8, j + 8 * n + c % 2,
                                               x[n][c], d[n][c], lse + head, delta + head)
                      .score;
    ddp_mma_mix<KEYS / 8, K>(sum, d, keys);
  }
  ddp_mma_store<K>(dq + ((b * a.t + i0) * a.heads + h) * K, a.heads * K, rows, sum, 1.0f, 1.0f);
}

#endif
