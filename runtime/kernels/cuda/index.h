/* Sums into places that data names, without atomic sums of floats: what is added is sorted by its place (stable, so
   that the order within a place is that of the input), then each thread adds a chunk of the sorted rows in one
   column, and what crosses the ends of chunks is joined in order. The same bits every time; those of the CPU
   where a place's rows lie in one chunk. At most 2^32 - 1 places and rows. G and T: storage of what is added and of
   the sums, which are made in float and rounded once. */
#ifndef DDP_KERNELS_CUDA_INDEX_H
#define DDP_KERNELS_CUDA_INDEX_H
#include "ddp_cuda.h"
#include "../scratch.h"

/* ---------- sorting ----------
   Least digit first, eight bits at a time: numbers of each digit in each tile, their sums, rows to their places. */
constexpr int DDP_SORT_SCAN = 1024; /* threads of the one block that adds up */
constexpr int DDP_SORT_EACH = 8;    /* its numbers for each thread at a time */

typedef struct DdpSorted {
  uint32_t *place, *row; /* ascending places, and the rows that go there */
} DdpSorted;

static __global__ void __launch_bounds__(256)
    ddp_sort_count(const uint32_t *__restrict__ place, int64_t n, int shift,
                   uint32_t *__restrict__ counts) {
  __shared__ uint32_t bins[DDP_SORT_DIGITS];
  const int thread = static_cast<int>(threadIdx.x);
  bins[thread] = 0;
  __syncthreads();
  const int64_t first = static_cast<int64_t>(blockIdx.x) * DDP_SORT_TILE;
  for (int k = 0; k < DDP_SORT_TILE; k += 256) {
    const int64_t i = first + k + thread;
    if (i < n) atomicAdd(&bins[place[i] >> shift & 255], 1u);
  }
  __syncthreads();
  counts[static_cast<int64_t>(thread) * gridDim.x + blockIdx.x] = bins[thread];
}

/* counts[i] = sum of those before it. One block. */
static __global__ void __launch_bounds__(DDP_SORT_SCAN)
    ddp_sort_scan(uint32_t *__restrict__ counts, int64_t n) {
  __shared__ uint32_t warps[32];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  uint32_t before = 0;
  for (int64_t at = 0; at < n; at += DDP_SORT_SCAN * DDP_SORT_EACH) {
    const int64_t first = at + static_cast<int64_t>(thread) * DDP_SORT_EACH;
    uint32_t own[DDP_SORT_EACH], sum = 0;
    DDP_UNROLL
    for (int k = 0; k < DDP_SORT_EACH; k++) {
      own[k] = first + k < n ? counts[first + k] : 0;
      sum += own[k];
    }
    uint32_t upto = sum; /* of this warp's threads, with this one */
    DDP_UNROLL
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(DDP_ALL_LANES, upto, static_cast<unsigned>(step));
      if (lane >= step) upto += other;
    }
    if (lane == 31) warps[warp] = upto;
    __syncthreads();
    uint32_t here = before + upto - sum, all = 0;
    for (int k = 0; k < 32; k++) {
      if (k < warp) here += warps[k];
      all += warps[k];
    }
    __syncthreads();
    DDP_UNROLL
    for (int k = 0; k < DDP_SORT_EACH; k++) {
      if (first + k < n) counts[first + k] = here;
      here += own[k];
    }
    before += all;
  }
}

/* Lanes with this one's digit. */
DDP_DEVICE unsigned ddp_sort_peers(bool here, uint32_t digit) {
  unsigned peers = __ballot_sync(DDP_ALL_LANES, here);
  DDP_UNROLL
  for (int bit = 0; bit < 8; bit++) {
    const unsigned set = __ballot_sync(DDP_ALL_LANES, digit >> bit & 1);
    peers &= (digit >> bit & 1) != 0 ? set : ~set;
  }
  return peers;
}

/* A warp's rows follow each other, so that equal digits keep their order. */
static __global__ void __launch_bounds__(256)
    ddp_sort_move(DdpSorted from, DdpSorted to, int64_t n, int shift,
                  const uint32_t *__restrict__ counts) {
  __shared__ uint32_t next[DDP_SORT_WARPS][DDP_SORT_DIGITS];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int64_t first =
      static_cast<int64_t>(blockIdx.x) * DDP_SORT_TILE + warp * DDP_SORT_ROUNDS * 32 + lane;
  for (int w = 0; w < DDP_SORT_WARPS; w++) next[w][thread] = 0;
  __syncthreads();
  for (int k = 0; k < DDP_SORT_ROUNDS; k++)
    if (first + k * 32 < n) atomicAdd(&next[warp][from.place[first + k * 32] >> shift & 255], 1u);
  __syncthreads();
  uint32_t sum = counts[static_cast<int64_t>(thread) * gridDim.x + blockIdx.x];
  for (int w = 0; w < DDP_SORT_WARPS; w++) {
    const uint32_t own = next[w][thread];
    next[w][thread] = sum;
    sum += own;
  }
  __syncthreads();
  for (int k = 0; k < DDP_SORT_ROUNDS; k++) {
    const int64_t i = first + k * 32;
    const bool here = i < n;
    const uint32_t place = here ? from.place[i] : 0, digit = place >> shift & 255;
    const unsigned peers = ddp_sort_peers(here, digit);
    const int before = __popc(peers & ((1u << lane) - 1));
    if (here) {
      const uint32_t at = next[warp][digit] + static_cast<uint32_t>(before);
      to.place[at] = place;
      to.row[at] = from.row[i];
    }
    __syncwarp();
    if (here && before == 0) next[warp][digit] += static_cast<uint32_t>(__popc(peers));
    __syncwarp();
  }
}

/* ---------- memory ---------- */

typedef struct DdpIndexRoom {
  DdpSorted rows[2];
  uint32_t *counts;
  float *parts;
} DdpIndexRoom;

static inline DdpIndexRoom ddp_index_room(void *scratch, int64_t n) {
  char *at = static_cast<char *>(scratch);
  uint32_t *part[5];
  for (int i = 0; i < 5; i++) {
    part[i] = reinterpret_cast<uint32_t *>(at);
    at += ddp_index_pad(i < 4 ? n * 4 : ddp_index_tiles(n) * DDP_SORT_DIGITS * 4);
  }
  return {{{part[0], part[1]}, {part[2], part[3]}}, part[4], reinterpret_cast<float *>(at)};
}

/* Sorts rows[0]; returns which of the two holds the result. */
static inline int ddp_index_sort(void *stream, const DdpIndexRoom &room, int64_t n,
                                 int64_t places) {
  const int64_t tiles = ddp_index_tiles(n);
  const unsigned blocks = static_cast<unsigned>(tiles);
  int at = 0;
  for (int shift = 0; shift < 32 && (places - 1) >> shift != 0; shift += 8, at ^= 1) {
    DDP_LAUNCH(ddp_sort_count, blocks, 256, 0, stream, room.rows[at].place, n, shift, room.counts);
    DDP_LAUNCH(ddp_sort_scan, 1, DDP_SORT_SCAN, 0, stream, room.counts, tiles * DDP_SORT_DIGITS);
    DDP_LAUNCH(ddp_sort_move, blocks, 256, 0, stream, room.rows[at], room.rows[at ^ 1], n, shift,
               room.counts);
  }
  return at;
}

/* ---------- sums ---------- */

typedef struct DdpSums {
  const uint32_t *place, *row; /* [n], sorted */
  int64_t n, width;
  float *
      parts; /* [chunks, 2, width]: of what began in an earlier chunk, of what goes on in the next */
} DdpSums;

/* Sorted rows i - 1 and i go to one place. */
DDP_DEVICE bool ddp_sums_goes_on(const DdpSums &s, int64_t i) {
  return i > 0 && i < s.n && s.place[i - 1] == s.place[i];
}

/* One thread for each chunk and column. */
template <class G, class T>
static __global__ void __launch_bounds__(256)
    ddp_sums_chunk(const __grid_constant__ DdpSums s, const G *__restrict__ g, T *__restrict__ y) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  const int64_t chunk = thread / s.width, column = thread % s.width;
  const int64_t first = chunk * DDP_SUM_CHUNK;
  if (first >= s.n) return;
  const int64_t end = first + DDP_SUM_CHUNK < s.n ? first + DDP_SUM_CHUNK : s.n;
  float *const parts = s.parts + chunk * 2 * s.width + column;
  bool earlier = ddp_sums_goes_on(s, first);
  float sum = 0;
  for (int64_t i = first; i < end; i++) {
    T *const to = y + s.place[i] * s.width + column;
    if (i == first || !ddp_sums_goes_on(s, i)) sum = earlier ? 0 : ddp_load(*to);
    sum += ddp_load(g[s.row[i] * s.width + column]);
    if (i + 1 < end && ddp_sums_goes_on(s, i + 1)) continue;
    if (earlier)
      parts[0] = sum;
    else if (ddp_sums_goes_on(s, i + 1))
      parts[s.width] = sum;
    else
      ddp_store(to, sum);
    earlier = false;
  }
}

/* What goes on beyond a chunk in which it began, with its pieces in the next ones. */
template <class T>
static __global__ void __launch_bounds__(256)
    ddp_sums_join(const __grid_constant__ DdpSums s, T *__restrict__ y) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  const int64_t chunk = thread / s.width, column = thread % s.width;
  const int64_t first = chunk * DDP_SUM_CHUNK, end = first + DDP_SUM_CHUNK;
  if (end >= s.n || !ddp_sums_goes_on(s, end)) return;
  const uint32_t place = s.place[end];
  if (s.place[first] == place && ddp_sums_goes_on(s, first)) return; /* began earlier */
  const float *part = s.parts + chunk * 2 * s.width + column;
  float sum = part[s.width];
  for (int64_t at = end; at < s.n && s.place[at] == place; at += DDP_SUM_CHUNK) {
    part += 2 * s.width;
    sum += *part;
  }
  ddp_store(y + place * s.width + column, sum);
}

template <class G, class T>
static inline void ddp_index_sums(void *stream, const DdpIndexRoom &room, int which, int64_t n,
                                  int64_t width, const G *g, T *y) {
  const DdpSums s = {room.rows[which].place, room.rows[which].row, n, width, room.parts};
  const unsigned blocks = ddp_blocks(ddp_index_chunks(n) * width, 256);
  DDP_LAUNCH((ddp_sums_chunk<G, T>), blocks, 256, 0, stream, s, g, y);
  DDP_LAUNCH(ddp_sums_join<T>, blocks, 256, 0, stream, s, y);
}

static inline bool ddp_index_fits(int64_t n, int64_t places) {
  const bool fits = n <= UINT32_MAX && places <= UINT32_MAX;
  if (!fits)
    ddp_cuda_check(cudaErrorInvalidValue, "an index sum over 2^32 rows or places", __FILE__,
                   __LINE__);
  return fits;
}

/* ---------- rows_add ---------- */

template <class I>
static __global__ void __launch_bounds__(256)
    ddp_rows_places(const I *__restrict__ index, int64_t n, DdpSorted to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= n) return;
  to.place[i] = static_cast<uint32_t>(index[i]);
  to.row[i] = static_cast<uint32_t>(i);
}

/* y[index[i], :] += g[i, :]; y is [rows, width] and is cleared before unless it accumulates. */
template <class I, class G, class T>
static inline void ddp_rows_add(void *stream, T *y, const I *index, const G *g, int64_t count,
                                int64_t width, int64_t rows, bool accumulate, void *scratch) {
  if (!accumulate && rows * width > 0)
    DDP_CUDA(cudaMemsetAsync(y, 0, static_cast<size_t>(rows * width) * sizeof *y,
                             static_cast<cudaStream_t>(stream)));
  if (count * width <= 0 || !ddp_index_fits(count, rows)) return;
  const DdpIndexRoom room = ddp_index_room(scratch, count);
  DDP_LAUNCH(ddp_rows_places<I>, ddp_blocks(count, 256), 256, 0, stream, index, count,
             room.rows[0]);
  const int at = ddp_index_sort(stream, room, count, rows);
  ddp_index_sums(stream, room, at, count, width, g, y);
}

/* ---------- scatter_add ---------- */

typedef struct DdpScatter {
  int64_t outer, size, count, inner;
} DdpScatter;

template <class I>
static __global__ void __launch_bounds__(256)
    ddp_scatter_places(const I *__restrict__ index, DdpScatter s, DdpSorted to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= s.outer * s.count * s.inner) return;
  const int64_t o = i / (s.count * s.inner), r = i % s.inner;
  to.place[i] = static_cast<uint32_t>((o * s.size + static_cast<int64_t>(index[i])) * s.inner + r);
  to.row[i] = static_cast<uint32_t>(i);
}

template <class T>
static __global__ void __launch_bounds__(256)
    ddp_scatter_base(T *__restrict__ y, const T *__restrict__ x, int64_t n, bool accumulate) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= n) return;
  if (accumulate)
    ddp_store(y + i, ddp_load(y[i]) + ddp_load(x[i]));
  else
    y[i] = x[i];
}

/* y[o, index[o, i, r], r] += src[o, i, r] with y = x before: x, y are [outer, size, inner], index and src
   [outer, count, inner]. */
template <class I, class G, class T>
static inline void ddp_scatter_add(void *stream, T *y, const T *x, const I *index, const G *src,
                                   int64_t outer, int64_t size, int64_t count, int64_t inner,
                                   bool accumulate, void *scratch) {
  const DdpScatter s = {outer, size, count, inner};
  const int64_t all = outer * size * inner, n = outer * count * inner;
  if (all <= 0 || !ddp_index_fits(n, all)) return;
  DDP_LAUNCH(ddp_scatter_base<T>, ddp_blocks(all, 256), 256, 0, stream, y, x, all, accumulate);
  if (n <= 0) return;
  const DdpIndexRoom room = ddp_index_room(scratch, n);
  DDP_LAUNCH(ddp_scatter_places<I>, ddp_blocks(n, 256), 256, 0, stream, index, s, room.rows[0]);
  const int at = ddp_index_sort(stream, room, n, all);
  ddp_index_sums(stream, room, at, n, 1, src, y);
}

/* The names that the CPU's kernels have. */
#define DDP_INDEX_KERNELS(name, I)                                                                 \
  template <class G, class T>                                                                      \
  static inline void ddp_rows_add_##name(void *stream, T *y, const I *index, const G *g,           \
                                         int64_t count, int64_t width, int64_t rows,               \
                                         bool accumulate, void *scratch) {                         \
    ddp_rows_add(stream, y, index, g, count, width, rows, accumulate, scratch);                    \
  }                                                                                                \
  template <class G, class T>                                                                      \
  static inline void ddp_scatter_add_##name(                                                       \
      void *stream, T *y, const T *x, const I *index, const G *src, int64_t outer, int64_t size,   \
      int64_t count, int64_t inner, bool accumulate, void *scratch) {                              \
    ddp_scatter_add(stream, y, x, index, src, outer, size, count, inner, accumulate, scratch);     \
  }
DDP_INDEX_KERNELS(u8, uint8_t)
DDP_INDEX_KERNELS(i32, int32_t)
DDP_INDEX_KERNELS(i64, int64_t)
#undef DDP_INDEX_KERNELS

#endif
