/* Convolution on a device: a small side, a big side and a filter [small, big / groups, kernel..]; two of them give the
   third (compiler/ops/conv.h). Sides are [batch, channels / block, space.., block], fastest with all channels in one
   block. What is read is gathered into tiles, no columns are written to memory; sums are floats, in an order that the
   shape and the batch give: the same run gives the same bits.
   Groups of few channels (depthwise) fill no tile and have kernels of their own: a thread for each result. */
#ifndef DDP_KERNELS_CUDA_CONV_H
#define DDP_KERNELS_CUDA_CONV_H
#include "ask_cudnn.h"
#include "tile.h"
#include "../scratch.h"

/* Always three dimensions of space; what is missing has size 1 and comes first. */
typedef struct DdpConvSide {
  int channels, each; /* each: of one group */
  int block, places, size[3];
} DdpConvSide;
typedef struct DdpConvFrame {
  int groups, taps;
  DdpConvSide big, small;
  int kernel[3], stride[3], padding[3], dilation[3];
} DdpConvFrame;

static constexpr int DDP_CONV_DIRECT_THREADS = 256;

/* ---------- places ---------- */

/* Offset of a channel's first element within a sample; its elements are `block` apart. */
DDP_DEVICE int64_t ddp_conv_channel(const DdpConvSide &s, int channel) {
  return (int64_t)(channel / s.block) * s.places * s.block + channel % s.block;
}

DDP_DEVICE void ddp_conv_unfold(int (&at)[3], int flat, const int (&size)[3]) {
  at[2] = flat % size[2];
  at[1] = flat / size[2] % size[1];
  at[0] = flat / size[2] / size[1];
}

/* Place in the big side of a tap at a place of the small one; -1: outside. */
DDP_DEVICE int ddp_conv_over(const DdpConvFrame &c, const int (&place)[3], const int (&tap)[3]) {
  int flat = 0;
#pragma unroll
  for (int d = 0; d < 3; d++) {
    const int at = place[d] * c.stride[d] - c.padding[d] + tap[d] * c.dilation[d];
    if (at < 0 || at >= c.big.size[d]) return -1;
    flat = flat * c.big.size[d] + at;
  }
  return flat;
}
/* Place in the small side that has a place of the big one under a tap; -1: none. */
DDP_DEVICE int ddp_conv_under(const DdpConvFrame &c, const int (&place)[3], const int (&tap)[3]) {
  int flat = 0;
#pragma unroll
  for (int d = 0; d < 3; d++) {
    const int from = place[d] + c.padding[d] - tap[d] * c.dilation[d], at = from / c.stride[d];
    if (from < 0 || at * c.stride[d] != from || at >= c.small.size[d]) return -1;
    flat = flat * c.small.size[d] + at;
  }
  return flat;
}
/* Where a side is read for a place of the one that is written; BACK: that is the big one. */
template <bool BACK>
DDP_DEVICE int ddp_conv_read(const DdpConvFrame &c, const int (&place)[3], const int (&tap)[3]) {
  return BACK ? ddp_conv_under(c, place, tap) : ddp_conv_over(c, place, tap);
}

/* ---------- one side from the other ---------- */

/* to[tap][channel read, of the group][channel written, of all]: columns of a tile are neighbours. */
template <class T, bool BACK>
static __global__ void __launch_bounds__(DDP_CONV_DIRECT_THREADS)
    ddp_conv_turn(DdpConvFrame c, const T *filter, T *to) {
  const DdpConvSide &in = BACK ? c.small : c.big, &out = BACK ? c.big : c.small;
  const int64_t i = (int64_t)blockIdx.x * DDP_CONV_DIRECT_THREADS + threadIdx.x;
  if (i >= (int64_t)c.taps * in.each * out.channels) return;
  const int written = (int)(i % out.channels), k = (int)(i / out.channels);
  const int tap = k / in.each, read = k % in.each;
  const int small = BACK ? written / out.each * in.each + read : written;
  const int big = BACK ? written % out.each : read;
  to[i] = filter[((int64_t)small * c.big.each + big) * c.taps + tap];
}

/* A block: 64 places of all samples and up to 64 channels of a group. filter: turned. */
template <class T, bool BACK>
static __global__ void __launch_bounds__(DDP_TILE_THREADS)
    ddp_conv_side(DdpConvFrame c, int64_t rows, const T *from, const T *filter, T *to,
                  bool accumulate) {
  __shared__ __align__(16) float a[DDP_TILE_DEPTH * DDP_TILE_PITCH];
  __shared__ __align__(16) float b[DDP_TILE_DEPTH * DDP_TILE_PITCH];
  __shared__ int place[DDP_TILE][3];
  __shared__ int64_t sample[DDP_TILE]; /* -1: there is no such row */
  const DdpConvSide &in = BACK ? c.small : c.big, &out = BACK ? c.big : c.small;
  const int across = (out.each + DDP_TILE - 1) / DDP_TILE, thread = (int)threadIdx.x;
  const int group = (int)blockIdx.y / across, column0 = (int)blockIdx.y % across * DDP_TILE;
  const int64_t row0 = (int64_t)blockIdx.x * DDP_TILE;
  if (thread < DDP_TILE) {
    const int64_t row = row0 + thread;
    sample[thread] = row < rows ? row / out.places : -1;
    ddp_conv_unfold(place[thread], (int)(row % out.places), out.size);
  }
  float sum[4][4];
  ddp_tile_clear(sum);
  const int n = c.taps * in.each, own = thread % DDP_TILE_DEPTH;
  for (int k0 = 0; k0 < n; k0 += DDP_TILE_DEPTH) {
    int tap[3];
    ddp_conv_unfold(tap, (k0 + own) / in.each, c.kernel);
    const int64_t channel = ddp_conv_channel(in, group * in.each + (k0 + own) % in.each);
    __syncthreads(); /* the tiles have been read */
    for (int r = thread / DDP_TILE_DEPTH; r < DDP_TILE; r += DDP_TILE_THREADS / DDP_TILE_DEPTH) {
      const bool there = k0 + own < n && sample[r] >= 0;
      const int at = there ? ddp_conv_read<BACK>(c, place[r], tap) : -1;
      const int64_t first = sample[r] * in.channels * in.places + channel;
      a[own * DDP_TILE_PITCH + r] = at < 0 ? 0.0f : ddp_load(from[first + (int64_t)at * in.block]);
    }
    for (int i = thread; i < DDP_TILE_DEPTH * DDP_TILE; i += DDP_TILE_THREADS) {
      const int k = i / DDP_TILE, column = column0 + i % DDP_TILE;
      const int64_t at = (int64_t)(k0 + k) * out.channels + group * out.each + column;
      const bool there = k0 + k < n && column < out.each;
      b[k * DDP_TILE_PITCH + i % DDP_TILE] = there ? ddp_load(filter[at]) : 0.0f;
    }
    __syncthreads();
    ddp_tile_product(sum, a, b, n - k0 < DDP_TILE_DEPTH ? n - k0 : DDP_TILE_DEPTH);
  }
  for (int r = 0; r < 4; r++) {
    const int64_t row = row0 + 4 * ddp_tile_y() + r, in_sample = row % out.places;
    if (row >= rows) break;
    for (int i = 0; i < 4; i++) {
      const int column = column0 + 4 * ddp_tile_x() + i;
      if (column >= out.each) break;
      T *y = to + row / out.places * out.channels * out.places + in_sample * out.block +
             ddp_conv_channel(out, group * out.each + column);
      ddp_store(y, accumulate ? ddp_load(*y) + sum[r][i] : sum[r][i]);
    }
  }
}

/* A thread: one channel of one place. filter: turned. */
template <class T, bool BACK>
static __global__ void __launch_bounds__(DDP_CONV_DIRECT_THREADS)
    ddp_conv_side_direct(DdpConvFrame c, int64_t rows, const T *from, const T *filter, T *to,
                         bool accumulate) {
  const DdpConvSide &in = BACK ? c.small : c.big, &out = BACK ? c.big : c.small;
  const int64_t i = (int64_t)blockIdx.x * DDP_CONV_DIRECT_THREADS + threadIdx.x;
  if (i >= rows * out.channels) return;
  const int channel = (int)(i % out.channels), group = channel / out.each;
  const int64_t row = i / out.channels, sample = row / out.places;
  int place[3], tap[3];
  ddp_conv_unfold(place, (int)(row % out.places), out.size);
  float sum = 0.0f;
  for (int t = 0; t < c.taps; t++) {
    ddp_conv_unfold(tap, t, c.kernel);
    const int at = ddp_conv_read<BACK>(c, place, tap);
    if (at < 0) continue;
    const int64_t first = sample * in.channels * in.places + (int64_t)at * in.block;
    for (int k = 0; k < in.each; k++) {
      const T x = from[first + ddp_conv_channel(in, group * in.each + k)];
      const T w = filter[((int64_t)t * in.each + k) * out.channels + channel];
      sum = fmaf(ddp_load(x), ddp_load(w), sum);
    }
  }
  T *y = to + sample * out.channels * out.places + row % out.places * out.block +
         ddp_conv_channel(out, channel);
  ddp_store(y, accumulate ? ddp_load(*y) + sum : sum);
}

/* ---------- the filter from both ---------- */

/* The sums over all samples and places are cut into `splits` parts, one after another in memory. A block: 64 channels
   of the small side in a group, 64 columns (tap, channel of the big side), one part. */
template <class T, class P>
static __global__ void __launch_bounds__(DDP_TILE_THREADS)
    ddp_conv_filter(DdpConvFrame c, int64_t rows, int64_t rows_each, const T *big, const T *small,
                    P *parts, bool accumulate) {
  __shared__ __align__(16) float a[DDP_TILE_DEPTH * DDP_TILE_PITCH];
  __shared__ __align__(16) float b[DDP_TILE_DEPTH * DDP_TILE_PITCH];
  __shared__ int place[DDP_TILE_DEPTH][3];
  __shared__ int64_t sample[DDP_TILE_DEPTH]; /* -1: there is no such row */
  const int m = c.small.each, n = c.taps * c.big.each, thread = (int)threadIdx.x;
  const int down = (m + DDP_TILE - 1) / DDP_TILE;
  const int group = (int)blockIdx.y / down, m0 = (int)blockIdx.y % down * DDP_TILE;
  const int n0 = (int)blockIdx.x * DDP_TILE, own = thread % DDP_TILE;
  const int64_t first = (int64_t)blockIdx.z * rows_each;
  const int64_t end = first + rows_each < rows ? first + rows_each : rows;
  int tap[3];
  ddp_conv_unfold(tap, (n0 + own) / c.big.each, c.kernel);
  const int64_t over = ddp_conv_channel(c.big, group * c.big.each + (n0 + own) % c.big.each);
  const int64_t under = m0 + own < m ? ddp_conv_channel(c.small, group * m + m0 + own) : 0;
  float sum[4][4];
  ddp_tile_clear(sum);
  for (int64_t k0 = first; k0 < end; k0 += DDP_TILE_DEPTH) {
    __syncthreads(); /* the tiles have been read */
    if (thread < DDP_TILE_DEPTH) {
      const int64_t row = k0 + thread;
      sample[thread] = row < end ? row / c.small.places : -1;
      ddp_conv_unfold(place[thread], (int)(row % c.small.places), c.small.size);
    }
    __syncthreads();
    for (int k = thread / DDP_TILE; k < DDP_TILE_DEPTH; k += DDP_TILE_THREADS / DDP_TILE) {
      const int64_t s = sample[k];
      const int64_t spot = (k0 + k) % c.small.places * c.small.block;
      const int at = s >= 0 && n0 + own < n ? ddp_conv_over(c, place[k], tap) : -1;
      const bool there = s >= 0 && m0 + own < m;
      a[k * DDP_TILE_PITCH + own] =
          there ? ddp_load(small[s * c.small.channels * c.small.places + spot + under]) : 0.0f;
      b[k * DDP_TILE_PITCH + own] =
          at < 0
              ? 0.0f
              : ddp_load(big[s * c.big.channels * c.big.places + (int64_t)at * c.big.block + over]);
    }
    __syncthreads();
    ddp_tile_product(sum, a, b, DDP_TILE_DEPTH);
  }
  parts += (int64_t)blockIdx.z * c.small.channels * n;
  for (int r = 0; r < 4; r++) {
    const int row = m0 + 4 * ddp_tile_y() + r;
    if (row >= m) break;
    for (int i = 0; i < 4; i++) {
      const int column = n0 + 4 * ddp_tile_x() + i;
      if (column >= n) break;
      P *y = parts + (int64_t)(group * m + row) * n + column % c.big.each * c.taps +
             column / c.big.each;
      ddp_store(y, accumulate ? ddp_load(*y) + sum[r][i] : sum[r][i]);
    }
  }
}

/* A block: 32 channels of the small side, one tap and channel of the big side in their groups, one part; its eight
   warps take turns with the rows. */
template <class T, class P>
static __global__ void __launch_bounds__(DDP_CONV_DIRECT_THREADS)
    ddp_conv_filter_direct(DdpConvFrame c, int64_t rows, int64_t rows_each, const T *big,
                           const T *small, P *parts, bool accumulate) {
  static constexpr int WARPS = DDP_CONV_DIRECT_THREADS / 32;
  __shared__ float part[WARPS][32];
  const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
  const int m = (int)blockIdx.x * 32 + lane, column = (int)blockIdx.y;
  const int read = column / c.taps;
  const bool there = m < c.small.channels;
  const int64_t first = (int64_t)blockIdx.z * rows_each;
  const int64_t end = first + rows_each < rows ? first + rows_each : rows;
  int place[3], tap[3];
  ddp_conv_unfold(tap, column % c.taps, c.kernel);
  const int64_t under = there ? ddp_conv_channel(c.small, m) : 0;
  const int64_t over = there ? ddp_conv_channel(c.big, m / c.small.each * c.big.each + read) : 0;
  float sum = 0.0f;
  for (int64_t row = first + warp; row < end; row += WARPS) {
    const int64_t s = row / c.small.places, spot = row % c.small.places;
    ddp_conv_unfold(place, (int)spot, c.small.size);
    const int at = there ? ddp_conv_over(c, place, tap) : -1;
    if (at < 0) continue;
    const T g = small[s * c.small.channels * c.small.places + spot * c.small.block + under];
    const T x = big[s * c.big.channels * c.big.places + (int64_t)at * c.big.block + over];
    sum = fmaf(ddp_load(g), ddp_load(x), sum);
  }
  part[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || !there) return;
  sum = 0.0f;
  for (int i = 0; i < WARPS; i++) sum += part[i][lane];
  P *y = parts + ((int64_t)blockIdx.z * c.small.channels + m) * c.big.each * c.taps + column;
  ddp_store(y, accumulate ? ddp_load(*y) + sum : sum);
}

/* y = sum of the parts, in their order, or added to it. */
template <class T>
static __global__ void __launch_bounds__(DDP_CONV_DIRECT_THREADS)
    ddp_conv_sum(const float *parts, int splits, int64_t n, T *y, bool accumulate) {
  const int64_t i = (int64_t)blockIdx.x * DDP_CONV_DIRECT_THREADS + threadIdx.x;
  if (i >= n) return;
  float sum = accumulate ? ddp_load(y[i]) : 0.0f;
  for (int s = 0; s < splits; s++) sum += parts[s * n + i];
  ddp_store(&y[i], sum);
}

/* ---------- calls ---------- */

static inline DdpConvFrame ddp_conv_frame(const DdpConv &c) {
  const int groups = (int)c.groups, big = (int)c.big, small = (int)c.small;
  DdpConvFrame f = {groups,
                    1,
                    {big, big / groups, (int)c.big_block, 1, {1, 1, 1}},
                    {small, small / groups, (int)c.small_block, 1, {1, 1, 1}},
                    {1, 1, 1},
                    {1, 1, 1},
                    {0, 0, 0},
                    {1, 1, 1}};
  for (int i = 0; i < (int)c.space; i++) {
    const int d = 3 - (int)c.space + i;
    f.big.size[d] = (int)c.big_size[i];
    f.small.size[d] = (int)c.small_size[i];
    f.kernel[d] = (int)c.kernel[i];
    f.stride[d] = (int)c.stride[i];
    f.padding[d] = (int)c.padding[i];
    f.dilation[d] = (int)c.dilation[i];
    f.big.places *= f.big.size[d];
    f.small.places *= f.small.size[d];
    f.taps *= f.kernel[d];
  }
  return f;
}

template <class T, bool BACK>
static void ddp_conv_to_side(const DdpStep *step, const DdpConvFrame &c, int64_t batch,
                             const T *from, const T *filter, T *to, bool accumulate) {
  const DdpConvSide &in = BACK ? c.small : c.big, &out = BACK ? c.big : c.small;
  const int64_t rows = batch * out.places;
  T *turned = static_cast<T *>(step->scratch);
  DDP_LAUNCH((ddp_conv_turn<T, BACK>),
             ddp_blocks((int64_t)c.taps * in.each * out.channels, DDP_CONV_DIRECT_THREADS),
             DDP_CONV_DIRECT_THREADS, 0, step->stream, c, filter, turned);
  if (out.each < DDP_CONV_TILED) {
    DDP_LAUNCH((ddp_conv_side_direct<T, BACK>),
               ddp_blocks(rows * out.channels, DDP_CONV_DIRECT_THREADS), DDP_CONV_DIRECT_THREADS, 0,
               step->stream, c, rows, from, turned, to, accumulate);
    return;
  }
  const dim3 grid(ddp_blocks(rows, DDP_TILE), ddp_blocks(out.each, DDP_TILE) * (unsigned)c.groups);
  DDP_LAUNCH((ddp_conv_side<T, BACK>), grid, DDP_TILE_THREADS, 0, step->stream, c, rows, from,
             turned, to, accumulate);
}

template <class T, class P>
static void ddp_conv_to_parts(const DdpStep *step, const DdpConvFrame &c, const DdpConvSplit &split,
                              int64_t rows, const T *big, const T *small, P *parts,
                              bool accumulate) {
  const int n = c.taps * c.big.each;
  const unsigned splits = (unsigned)split.splits;
  if (split.direct) {
    const dim3 grid(ddp_blocks(c.small.channels, 32), (unsigned)n, splits);
    DDP_LAUNCH((ddp_conv_filter_direct<T, P>), grid, DDP_CONV_DIRECT_THREADS, 0, step->stream, c,
               rows, split.rows_each, big, small, parts, accumulate);
    return;
  }
  const dim3 grid(ddp_blocks(n, DDP_TILE), ddp_blocks(c.small.each, DDP_TILE) * (unsigned)c.groups,
                  splits);
  DDP_LAUNCH((ddp_conv_filter<T, P>), grid, DDP_TILE_THREADS, 0, step->stream, c, rows,
             split.rows_each, big, small, parts, accumulate);
}

template <class T, class F>
static void ddp_conv_to_filter(const DdpStep *step, const DdpConv &shape, int64_t batch,
                               const T *big, const T *small, F *filter, bool accumulate) {
  const DdpConvFrame c = ddp_conv_frame(shape);
  const DdpConvSplit split = ddp_conv_split(shape, batch);
  const int64_t rows = batch * c.small.places;
  if (split.splits == 1) {
    ddp_conv_to_parts(step, c, split, rows, big, small, filter, accumulate);
    return;
  }
  float *parts = static_cast<float *>(step->scratch);
  const int64_t n = (int64_t)c.small.channels * c.big.each * c.taps;
  ddp_conv_to_parts(step, c, split, rows, big, small, parts, false);
  DDP_LAUNCH((ddp_conv_sum<F>), ddp_blocks(n, DDP_CONV_DIRECT_THREADS), DDP_CONV_DIRECT_THREADS, 0,
             step->stream, parts, (int)split.splits, n, filter, accumulate);
}

/* ---------- cuDNN ---------- */

/* [small, big, kernel..] to [small, kernel.., big], as cuDNN has filters. */
template <class T>
static __global__ void __launch_bounds__(DDP_CONV_DIRECT_THREADS)
    ddp_conv_last(DdpConvFrame c, const T *filter, T *to) {
  const int64_t i = (int64_t)blockIdx.x * DDP_CONV_DIRECT_THREADS + threadIdx.x;
  if (i >= (int64_t)c.small.channels * c.taps * c.big.each) return;
  const int64_t small = i / c.big.each / c.taps;
  const int tap = (int)(i / c.big.each % c.taps), big = (int)(i % c.big.each);
  to[i] = filter[(small * c.big.each + big) * c.taps + tap];
}
/* Back, or added to what is there. */
template <class T, class F>
static __global__ void __launch_bounds__(DDP_CONV_DIRECT_THREADS)
    ddp_conv_from_last(DdpConvFrame c, const T *from, F *filter, bool accumulate) {
  const int64_t i = (int64_t)blockIdx.x * DDP_CONV_DIRECT_THREADS + threadIdx.x;
  if (i >= (int64_t)c.small.channels * c.big.each * c.taps) return;
  const int64_t small = i / c.taps / c.big.each;
  const int big = (int)(i / c.taps % c.big.each), tap = (int)(i % c.taps);
  const float x = ddp_load(from[(small * c.taps + tap) * c.big.each + big]);
  ddp_store(&filter[i], accumulate ? ddp_load(filter[i]) + x : x);
}

static inline DdpCudnnConv ddp_conv_shape(const DdpConv &c, DdpConvResult result, int64_t batch,
                                          DdpDType type) {
  DdpCudnnConv s = {};
  s.type = s.filter_type = type;
  s.tf32 = DDP_TF32 && type == DDP_f32;
  s.result = result == DDP_CONV_SMALL ? 0 : result == DDP_CONV_BIG ? 1 : 2;
  s.batch = batch;
  s.space = c.space;
  s.groups = c.groups;
  s.big = c.big;
  s.small = c.small;
  for (int i = 0; i < (int)c.space; i++) {
    s.big_size[i] = c.big_size[i];
    s.small_size[i] = c.small_size[i];
    s.kernel[i] = c.kernel[i];
    s.stride[i] = c.stride[i];
    s.padding[i] = c.padding[i];
    s.dilation[i] = c.dilation[i];
  }
  return s;
}

/* Where channels come last. A side that is added to is not for cuDNN, which would write over it. */
template <DdpConvResult RESULT, class T, class F>
static bool ddp_conv_by_cudnn(const DdpStep *step, const DdpConv &c, int64_t batch, const T *big,
                              const T *small, const F *filter, bool accumulate) {
  if (c.big_block != c.big || c.small_block != c.small) return false;
  if (RESULT != DDP_CONV_FILTER && accumulate) return false;
  const DdpCudnnConv shape = ddp_conv_shape(c, RESULT, batch, ddp_dtype_of(big));
  if (!ddp_cudnn_takes_conv(&shape)) return false;
  const DdpConvFrame frame = ddp_conv_frame(c);
  const unsigned blocks = ddp_blocks((int64_t)frame.small.channels * frame.taps * frame.big.each,
                                     DDP_CONV_DIRECT_THREADS);
  T *last = static_cast<T *>(step->scratch);
  if constexpr (RESULT != DDP_CONV_FILTER)
    DDP_LAUNCH((ddp_conv_last<T>), blocks, DDP_CONV_DIRECT_THREADS, 0, step->stream, frame, filter,
               last);
  void *const operands[3] = {const_cast<T *>(big), const_cast<T *>(small), last};
  ddp_cudnn_conv(step, &shape, operands);
  if constexpr (RESULT == DDP_CONV_FILTER)
    DDP_LAUNCH((ddp_conv_from_last<T, F>), blocks, DDP_CONV_DIRECT_THREADS, 0, step->stream, frame,
               last, const_cast<F *>(filter), accumulate);
  return true;
}

/* The operand that RESULT names is written, or added to; the others are read. T: storage of the sides and of a
   filter that is read, F: of one that is written. */
template <DdpConvResult RESULT, class T, class F>
static void ddp_conv(const DdpStep *step, const DdpConv &c, int64_t batch, const T *big,
                     const T *small, const F *filter, bool accumulate) {
  if constexpr (DDP_ASKS_CUDNN)
    if (ddp_conv_by_cudnn<RESULT>(step, c, batch, big, small, filter, accumulate)) return;
  if constexpr (RESULT == DDP_CONV_SMALL)
    ddp_conv_to_side<T, false>(step, ddp_conv_frame(c), batch, big, filter, const_cast<T *>(small),
                               accumulate);
  else if constexpr (RESULT == DDP_CONV_BIG)
    ddp_conv_to_side<T, true>(step, ddp_conv_frame(c), batch, small, filter, const_cast<T *>(big),
                              accumulate);
  else
    ddp_conv_to_filter(step, c, batch, big, small, const_cast<F *>(filter), accumulate);
}

#endif
