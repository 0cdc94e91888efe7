/* softmax(scale q k^T + mask) v and its gradient on a device. Scores stay in the block that computes them; backward
   computes them again from the logsumexp of each row. Three kernels make the gradient: sums of g * y by row, then dk
   and dv in blocks of keys, and dq in blocks of queries: each result has one writer, which adds in the order of the
   rows, so that the same run gives the same bits.
   f32 and what tensor cores do not take is computed here, in float; 16-bit floats in attention_mma.h.
   A row in which nothing may be seen gives zeros, and no gradient flows through it. */
#ifndef DDP_KERNELS_CUDA_ATTENTION_H
#define DDP_KERNELS_CUDA_ATTENTION_H
#include "attention_mma.h"
#include "tile.h"

/* sum += rows of `a` times rows of `b`, both of `width` numbers: 64 of each. `room`: two tiles of DDP_TILE_DEPTH. */
template <class T>
DDP_DEVICE void ddp_attention_dots(float (&sum)[4][4], float *room, int width, const T *a,
                                   int64_t a_step, int a_rows, const T *b, int64_t b_step,
                                   int b_rows) {
  float *other = room + DDP_TILE_DEPTH * DDP_TILE_PITCH;
  ddp_tile_clear(sum);
  for (int c = 0; c < width; c += DDP_TILE_DEPTH) {
    __syncthreads(); /* the tiles have been read */
    ddp_tile_load_turned(room, a, a_step, a_rows, c, width);
    ddp_tile_load_turned(other, b, b_step, b_rows, c, width);
    __syncthreads();
    ddp_tile_product(sum, room, other, width - c < DDP_TILE_DEPTH ? width - c : DDP_TILE_DEPTH);
  }
}

/* sum += weights[n][64] times n rows of `b`, for each 64 of their `WIDTH` columns. */
template <int WIDTH, class T>
DDP_DEVICE void ddp_attention_mix(float (&sum)[(WIDTH + DDP_TILE - 1) / DDP_TILE][4][4],
                                  const float *weights, float *room, const T *b, int64_t b_step,
                                  int n) {
#pragma unroll
  for (int c = 0; c < WIDTH; c += DDP_TILE) {
    __syncthreads(); /* the weights are written, and the tile has been read */
    ddp_tile_load(room, b, b_step, n, c, WIDTH);
    __syncthreads();
    ddp_tile_product(sum[c / DDP_TILE], weights, room, n);
  }
}

/* Rows of `WIDTH` numbers: to[row][..] = sum * factor[row]. */
template <int WIDTH, class T>
DDP_DEVICE void ddp_attention_store(T *to, int64_t step, int rows,
                                    const float (&sum)[(WIDTH + DDP_TILE - 1) / DDP_TILE][4][4],
                                    const float (&factor)[4]) {
#pragma unroll
  for (int r = 0; r < 4; r++) {
    const int row = 4 * ddp_tile_y() + r;
    if (row >= rows) break;
#pragma unroll
    for (int part = 0; part < (WIDTH + DDP_TILE - 1) / DDP_TILE; part++)
#pragma unroll
      for (int c = 0; c < 4; c++) {
        const int column = part * DDP_TILE + 4 * ddp_tile_x() + c;
        if (column < WIDTH) ddp_store(to + row * step + column, sum[part][r][c] * factor[r]);
      }
  }
}

/* Largest number and sum over the 16 threads that hold a row. */
DDP_DEVICE float ddp_attention_row_max(float x) {
#pragma unroll
  for (int o = 8; o > 0; o >>= 1) x = fmaxf(x, __shfl_xor_sync(DDP_ALL_LANES, x, o));
  return x;
}
DDP_DEVICE float ddp_attention_row_sum(float x) {
#pragma unroll
  for (int o = 8; o > 0; o >>= 1) x += __shfl_xor_sync(DDP_ALL_LANES, x, o);
  return x;
}

/* Scores of a row in four columns become weights that are not divided yet; what was summed before counts times
   `f`, since it was scaled with another maximum. */
DDP_DEVICE float ddp_attention_soften(float (&x)[4], float *most, float *sum) {
  const float here = ddp_attention_row_max(fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3])));
  const float above = fmaxf(*most, here), shift = above == -INFINITY ? 0.0f : above;
  const float f = expf(*most - shift);
#pragma unroll
  for (int c = 0; c < 4; c++) x[c] = expf(x[c] - shift);
  *sum = *sum * f + ddp_attention_row_sum(x[0] + x[1] + (x[2] + x[3]));
  *most = above;
  return f;
}

/* A block: 64 queries of a head of a sample. */
template <class T, int K, int V>
static __global__ void __launch_bounds__(DDP_TILE_THREADS)
    ddp_attention_forward(DdpAttention a, const __grid_constant__ DdpSite site,
                          const DdpScalars *scalars, T *y, float *lse) {
  __shared__ __align__(16) float room[DDP_TILE * DDP_TILE_PITCH];
  __shared__ __align__(16) float weights[DDP_TILE * DDP_TILE_PITCH];
  const int b = (int)blockIdx.z, h = (int)blockIdx.y, i0 = (int)blockIdx.x * DDP_TILE;
  const int rows = ddp_attention_part(a.t, i0, DDP_TILE);
  const int group = h / (int)(a.heads / a.groups), end = ddp_attention_seen(a, i0 + rows);
  const T *q = ddp_attention_head<T>(a.q, b, h) + i0 * a.q.time;
  const T *key = ddp_attention_head<T>(a.key, b, group);
  const T *value = ddp_attention_head<T>(a.value, b, group);
  const DdpRow draws = ddp_attention_draws(a, site, scalars, b);
  float o[(V + DDP_TILE - 1) / DDP_TILE][4][4] = {}, x[4][4];
  float most[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY}, sum[4] = {}, f[4];
  for (int j0 = 0; j0 < end; j0 += DDP_TILE) {
    const int n = ddp_attention_part(end, j0, DDP_TILE);
    ddp_attention_dots(x, room, K, q, a.q.time, rows, key + j0 * a.key.time, a.key.time, n);
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const int i = i0 + 4 * ddp_tile_y() + r, j = j0 + 4 * ddp_tile_x();
#pragma unroll
      for (int c = 0; c < 4; c++) x[r][c] = ddp_attention_score<T>(a, b, h, i, j + c, x[r][c]);
      f[r] = ddp_attention_soften(x[r], &most[r], &sum[r]);
#pragma unroll
      for (int c = 0; c < 4; c++) x[r][c] *= ddp_attention_kept(a, draws, h, i, j + c);
#pragma unroll
      for (int part = 0; part < (V + DDP_TILE - 1) / DDP_TILE; part++)
#pragma unroll
        for (int c = 0; c < 4; c++) o[part][r][c] *= f[r];
    }
    ddp_tile_store_turned(weights, x);
    ddp_attention_mix<V>(o, weights, room, value + j0 * a.value.time, a.value.time, n);
  }
#pragma unroll
  for (int r = 0; r < 4; r++) {
    const int row = 4 * ddp_tile_y() + r;
    f[r] = sum[r] == 0 ? 0.0f : 1.0f / sum[r];
    if (lse && row < rows && ddp_tile_x() == 0)
      lse[(b * a.heads + h) * a.t + i0 + row] = sum[r] == 0 ? 0.0f : most[r] + logf(sum[r]);
  }
  ddp_attention_store<V>(y + ((b * a.t + i0) * a.heads + h) * V, a.heads * V, rows, o, f);
}

/* x: products of keys (rows) and queries (columns), d: of values and gradients, or both turned. Out: the weights after
   dropout, and the gradient of the scores. `TURNED`: rows are keys. */
template <class T, bool TURNED>
DDP_DEVICE void ddp_attention_back(const DdpAttention &a, DdpRow draws, int b, int h, int i0,
                                   int j0, const float *lse, const float *delta, float (&x)[4][4],
                                   float (&d)[4][4]) {
#pragma unroll
  for (int r = 0; r < 4; r++)
#pragma unroll
    for (int c = 0; c < 4; c++) {
      const int i = i0 + (TURNED ? 4 * ddp_tile_x() + c : 4 * ddp_tile_y() + r);
      const int j = j0 + (TURNED ? 4 * ddp_tile_y() + r : 4 * ddp_tile_x() + c);
      const DdpAttentionBack w =
          ddp_attention_weight_back<T>(a, draws, b, h, i, j, x[r][c], d[r][c], lse, delta);
      x[r][c] = w.weight;
      d[r][c] = w.score;
    }
}

/* A block: 64 keys of a head of k and v of a sample; all queries that see them, head after head. */
template <class T, int K, int V>
static __global__ void __launch_bounds__(DDP_TILE_THREADS)
    ddp_attention_keys(DdpAttention a, const __grid_constant__ DdpSite site,
                       const DdpScalars *scalars, DdpHeads gradient, const float *lse,
                       const float *delta, T *dk, T *dv) {
  __shared__ __align__(16) float room[DDP_TILE * DDP_TILE_PITCH];
  __shared__ __align__(16) float weights[DDP_TILE * DDP_TILE_PITCH];
  const int b = (int)blockIdx.z, group = (int)blockIdx.y, j0 = (int)blockIdx.x * DDP_TILE;
  const int share = (int)(a.heads / a.groups);
  const int keys = ddp_attention_part(a.s, j0, DDP_TILE);
  const T *key = ddp_attention_head<T>(a.key, b, group) + j0 * a.key.time;
  const T *value = ddp_attention_head<T>(a.value, b, group) + j0 * a.value.time;
  const DdpRow draws = ddp_attention_draws(a, site, scalars, b);
  float x[4][4], d[4][4];
  float sum_k[(K + DDP_TILE - 1) / DDP_TILE][4][4] = {};
  float sum_v[(V + DDP_TILE - 1) / DDP_TILE][4][4] = {};
  for (int h = group * share; h < (group + 1) * share; h++) {
    const float *row_lse = lse + (b * a.heads + h) * a.t,
                *row_delta = delta + (b * a.heads + h) * a.t;
    for (int i0 = a.causal ? j0 : 0; i0 < (int)a.t; i0 += DDP_TILE) {
      const int n = ddp_attention_part(a.t, i0, DDP_TILE);
      const T *q = ddp_attention_head<T>(a.q, b, h) + i0 * a.q.time;
      const T *g = ddp_attention_head<T>(gradient, b, h) + i0 * gradient.time;
      ddp_attention_dots(x, room, K, key, a.key.time, keys, q, a.q.time, n);
      ddp_attention_dots(d, room, V, value, a.value.time, keys, g, gradient.time, n);
      ddp_attention_back<T, true>(a, draws, b, h, i0, j0, row_lse, row_delta, x, d);
      ddp_tile_store_turned(weights, x);
      ddp_attention_mix<V>(sum_v, weights, room, g, gradient.time, n);
      __syncthreads(); /* the weights have been read */
      ddp_tile_store_turned(weights, d);
      ddp_attention_mix<K>(sum_k, weights, room, q, a.q.time, n);
    }
  }
  const float one[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  const int64_t at = (b * a.s + j0) * a.groups + group;
  if (dk) ddp_attention_store<K>(dk + at * K, a.groups * K, keys, sum_k, one);
  if (dv) ddp_attention_store<V>(dv + at * V, a.groups * V, keys, sum_v, one);
}

/* A block: 64 queries of a head of a sample. */
template <class T, int K, int V>
static __global__ void __launch_bounds__(DDP_TILE_THREADS)
    ddp_attention_queries(DdpAttention a, const __grid_constant__ DdpSite site,
                          const DdpScalars *scalars, DdpHeads gradient, const float *lse,
                          const float *delta, T *dq) {
  __shared__ __align__(16) float room[DDP_TILE * DDP_TILE_PITCH];
  __shared__ __align__(16) float weights[DDP_TILE * DDP_TILE_PITCH];
  const int b = (int)blockIdx.z, h = (int)blockIdx.y, i0 = (int)blockIdx.x * DDP_TILE;
  const int rows = ddp_attention_part(a.t, i0, DDP_TILE);
  const int group = h / (int)(a.heads / a.groups), end = ddp_attention_seen(a, i0 + rows);
  const T *q = ddp_attention_head<T>(a.q, b, h) + i0 * a.q.time;
  const T *g = ddp_attention_head<T>(gradient, b, h) + i0 * gradient.time;
  const DdpRow draws = ddp_attention_draws(a, site, scalars, b);
  lse += (b * a.heads + h) * a.t;
  delta += (b * a.heads + h) * a.t;
  float x[4][4], d[4][4], sum[(K + DDP_TILE - 1) / DDP_TILE][4][4] = {};
  for (int j0 = 0; j0 < end; j0 += DDP_TILE) {
    const int n = ddp_attention_part(end, j0, DDP_TILE);
    const T *key = ddp_attention_head<T>(a.key, b, group) + j0 * a.key.time;
    const T *value = ddp_attention_head<T>(a.value, b, group) + j0 * a.value.time;
    ddp_attention_dots(x, room, K, q, a.q.time, rows, key, a.key.time, n);
    ddp_attention_dots(d, room, V, g, gradient.time, rows, value, a.value.time, n);
    ddp_attention_back<T, false>(a, draws, b, h, i0, j0, lse, delta, x, d);
    ddp_tile_store_turned(weights, d);
    ddp_attention_mix<K>(sum, weights, room, key, a.key.time, n);
  }
  const float one[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  ddp_attention_store<K>(dq + ((b * a.t + i0) * a.heads + h) * K, a.heads * K, rows, sum, one);
}

/* ---------- cuDNN ---------- */

static inline DdpCudnnHeads ddp_attention_steps(const DdpHeads &x) {
  return {x.batch, x.time, x.head};
}

/* What cuDNN takes: 16-bit floats, no mask but the causal one, and no dropout, whose draws would be others. */
template <class T> static constexpr bool ddp_attention_asks = DDP_ASKS_CUDNN && sizeof(T) == 2;
static inline bool ddp_attention_plain(const DdpAttention &a) {
  return !a.mask && a.keep >= 1;
}

template <class T>
static DdpCudnnAttention ddp_attention_shape(const DdpAttention &a, DdpHeads y, DdpHeads gradient,
                                             bool backward, bool keep_lse) {
  return {ddp_dtype_of(static_cast<T *>(nullptr)),
          a.causal,
          backward,
          keep_lse,
          static_cast<double>(a.scale),
          a.batch,
          a.heads,
          a.groups,
          a.t,
          a.s,
          a.k,
          a.v,
          ddp_attention_steps(a.q),
          ddp_attention_steps(a.key),
          ddp_attention_steps(a.value),
          ddp_attention_steps(y),
          ddp_attention_steps(gradient)};
}

static inline void *ddp_attention_operand(const void *at) {
  return const_cast<void *>(at);
}

template <class T>
static bool ddp_attention_by_cudnn(const DdpStep *step, const DdpAttention &a, T *y, float *lse) {
  if constexpr (ddp_attention_asks<T>) {
    if (!ddp_attention_plain(a)) return false;
    const DdpHeads to = {y, a.t * a.heads * a.v, a.heads * a.v, a.v};
    const DdpCudnnAttention shape =
        ddp_attention_shape<T>(a, to, DdpHeads{}, false, lse != nullptr);
    void *const operands[DDP_CUDNN_OPERANDS] = {ddp_attention_operand(a.q.at),
                                                ddp_attention_operand(a.key.at),
                                                ddp_attention_operand(a.value.at), y, lse};
    return ddp_cudnn_attention(step, &shape, operands);
  } else {
    return false;
  }
}

template <class T>
static bool ddp_attention_grad_by_cudnn(const DdpStep *step, const DdpAttention &a, DdpHeads g,
                                        DdpHeads y, const float *lse, T *dq, T *dk, T *dv) {
  if constexpr (ddp_attention_asks<T>) {
    if (!ddp_attention_plain(a) || !dq || !dk || !dv) return false;
    const DdpCudnnAttention shape = ddp_attention_shape<T>(a, y, g, true, true);
    void *const operands[DDP_CUDNN_OPERANDS] = {ddp_attention_operand(a.q.at),
                                                ddp_attention_operand(a.key.at),
                                                ddp_attention_operand(a.value.at),
                                                ddp_attention_operand(y.at),
                                                ddp_attention_operand(lse),
                                                ddp_attention_operand(g.at),
                                                dq,
                                                dk,
                                                dv};
    return ddp_cudnn_attention(step, &shape, operands);
  } else {
    return false;
  }
}

/* ---------- calls ---------- */

/* y: [batch, t, heads, V]. lse: [batch, heads, t], or NULL. K and V are the widths that `a` says too; where weights
   are dropped, `site` says where in the program. */
template <class T, int K, int V>
static void ddp_attention(const DdpStep *step, const DdpAttention &a, const DdpSite &site, T *y,
                          float *lse) {
  if (ddp_attention_by_cudnn(step, a, y, lse)) return;
  const dim3 grid(ddp_blocks(a.t, DDP_TILE), (unsigned)a.heads, (unsigned)a.batch);
  if constexpr (ddp_attention_mma_takes<T>(K, V))
    DDP_LAUNCH((ddp_attention_mma_forward<T, K, V>), grid, DDP_MMA_THREADS, 0, step->stream, a,
               site, step->scalars, y, lse);
  else
    DDP_LAUNCH((ddp_attention_forward<T, K, V>), grid, DDP_TILE_THREADS, 0, step->stream, a, site,
               step->scalars, y, lse);
}

/* g, y: gradient and value of the result; lse as ddp_attention left it. dq: [batch, t, heads, K], dk:
   [batch, s, groups, K], dv: [batch, s, groups, V]; NULL: nobody reads it. */
template <class T, int K, int V>
static void ddp_attention_grad(const DdpStep *step, const DdpAttention &a, const DdpSite &site,
                               DdpHeads g, DdpHeads y, const float *lse, T *dq, T *dk, T *dv) {
  if (ddp_attention_grad_by_cudnn(step, a, g, y, lse, dq, dk, dv)) return;
  constexpr bool MMA = ddp_attention_mma_takes<T>(K, V);
  float *delta = static_cast<float *>(step->scratch);
  const unsigned heads = (unsigned)a.heads, batch = (unsigned)a.batch;
  const dim3 queries(ddp_blocks(a.t, DDP_TILE), heads, batch);
  const dim3 keys(ddp_blocks(a.s, DDP_TILE), (unsigned)a.groups, batch);
  DDP_LAUNCH((ddp_attention_delta<T, V>), ddp_blocks(a.batch * a.t * a.heads, DDP_DELTA_ROWS),
             DDP_DELTA_ROWS * 32, 0, step->stream, a, g, y, delta);
  if constexpr (MMA) {
    if (dk || dv)
      DDP_LAUNCH((ddp_attention_mma_keys<T, K, V>), keys, DDP_MMA_THREADS, 0, step->stream, a, site,
                 step->scalars, g, lse, delta, dk, dv);
    if (dq)
      DDP_LAUNCH((ddp_attention_mma_queries<T, K, V>), queries, DDP_MMA_THREADS, 0, step->stream, a,
                 site, step->scalars, g, lse, delta, dq);
  } else {
    if (dk || dv)
      DDP_LAUNCH((ddp_attention_keys<T, K, V>), keys, DDP_TILE_THREADS, 0, step->stream, a, site,
                 step->scalars, g, lse, delta, dk, dv);
    if (dq)
      DDP_LAUNCH((ddp_attention_queries<T, K, V>), queries, DDP_TILE_THREADS, 0, step->stream, a,
                 site, step->scalars, g, lse, delta, dq);
  }
}

#endif
