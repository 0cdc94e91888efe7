/* Kernels over ranges of arenas that the runtime calls (DdpArenaKernels of ddp/job.h). Addresses are multiples of
   16 bytes, as all ranges of arenas are; n is any number. */
#ifndef DDP_KERNELS_CUDA_ARENA_H
#define DDP_KERNELS_CUDA_ARENA_H
#include "quad.h"
#include "../scratch.h"

/* ---------- sums of squares ----------
   A range is cut into parts, one block each; a second kernel adds the parts of a range in order. How it is cut
   depends on its length alone, so that the bits do not depend on the GPU or on other ranges. */
constexpr int64_t DDP_SQUARE_LEAST = 4096; /* elements of a part */
static_assert(ddp_arena_scratch == DDP_SQUARE_RANGES * DDP_SQUARE_PARTS * sizeof(double));

typedef struct DdpSquareRanges {
  DdpRange at[DDP_SQUARE_RANGES];
  int32_t part[DDP_SQUARE_RANGES + 1]; /* number of the first part of each range */
  int32_t n;
} DdpSquareRanges;

static __global__ void __launch_bounds__(256)
    ddp_square_parts(const float *__restrict__ x, const __grid_constant__ DdpSquareRanges ranges,
                     double *__restrict__ parts) {
  __shared__ double room[32];
  const int block = static_cast<int>(blockIdx.x);
  int r = 0;
  while (block >= ranges.part[r + 1]) r++;
  const int64_t count = ranges.part[r + 1] - ranges.part[r];
  const int64_t quads = (ranges.at[r].end - ranges.at[r].begin + 3) / 4;
  const int64_t each = (quads + count - 1) / count, first = (block - ranges.part[r]) * each;
  const int64_t last = first + each < quads ? first + each : quads;
  double sum = 0;
  for (int64_t q = first + threadIdx.x; q < last; q += 256) {
    const DdpQuad a = ddp_quad_load(x, ranges.at[r].begin + q * 4, ranges.at[r].end);
    DDP_UNROLL
    for (int k = 0; k < 4; k++) sum += static_cast<double>(a.at[k]) * a.at[k];
  }
  sum = ddp_block_sum(sum, room);
  if (threadIdx.x == 0) parts[block] = sum;
}

static __global__ void __launch_bounds__(32)
    ddp_square_join(const double *__restrict__ parts,
                    const __grid_constant__ DdpSquareRanges ranges, double *__restrict__ sums) {
  const int r = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x);
  double sum = 0;
  for (int i = ranges.part[r] + lane; i < ranges.part[r + 1]; i += 32) sum += parts[i];
  sum = ddp_warp_sum(sum);
  if (lane == 0) sums[r] = sum;
}

static inline void ddp_arena_square_sums(const float *x, const DdpRange *ranges, int32_t n,
                                         double *sums, void *scratch, void *stream) {
  double *const parts = static_cast<double *>(scratch);
  for (int32_t done = 0; done < n; done += DDP_SQUARE_RANGES) {
    DdpSquareRanges some = {};
    some.n = n - done < DDP_SQUARE_RANGES ? n - done : DDP_SQUARE_RANGES;
    for (int32_t i = 0; i < some.n; i++) {
      const DdpRange r = ranges[done + i];
      int64_t count = (r.end - r.begin + DDP_SQUARE_LEAST - 1) / DDP_SQUARE_LEAST;
      count = count < 1 ? 1 : count > DDP_SQUARE_PARTS ? DDP_SQUARE_PARTS : count;
      some.at[i] = r;
      some.part[i + 1] = some.part[i] + static_cast<int32_t>(count);
    }
    const unsigned all = static_cast<unsigned>(some.part[some.n]);
    const unsigned rows = static_cast<unsigned>(some.n);
    DDP_LAUNCH(ddp_square_parts, all, 256, 0, stream, x, some, parts);
    DDP_LAUNCH(ddp_square_join, rows, 32, 0, stream, parts, some, sums + done);
  }
}

/* ---------- element by element ---------- */

static __global__ void __launch_bounds__(256) ddp_scale_kernel(float *x, int64_t n, float by) {
  const int64_t i = ddp_quad_here();
  if (i >= n) return;
  DdpQuad a = ddp_quad_load(x, i, n);
  DDP_UNROLL
  for (int k = 0; k < 4; k++) a.at[k] *= by;
  ddp_quad_store(x, i, n, a);
}
static inline void ddp_arena_scale(float *x, int64_t n, float by, void *stream) {
  if (n > 0) DDP_LAUNCH(ddp_scale_kernel, ddp_quad_blocks(n), 256, 0, stream, x, n, by);
}

static __global__ void __launch_bounds__(256) ddp_fill_kernel(float *x, int64_t n, float with) {
  const int64_t i = ddp_quad_here();
  if (i >= n) return;
  const DdpQuad a = {{with, with, with, with}};
  ddp_quad_store(x, i, n, a);
}
static inline void ddp_arena_fill(float *x, int64_t n, float with, void *stream) {
  if (n > 0) DDP_LAUNCH(ddp_fill_kernel, ddp_quad_blocks(n), 256, 0, stream, x, n, with);
}

/* torch.lerp(average, x, weight), from the nearer end. */
static __global__ void __launch_bounds__(256)
    ddp_average_kernel(float *__restrict__ average, const float *__restrict__ x, int64_t n,
                       float weight) {
  const int64_t i = ddp_quad_here();
  if (i >= n) return;
  const bool near = fabsf(weight) < 0.5f;
  const float by = near ? weight : weight - 1.0f;
  const DdpQuad b = ddp_quad_load(x, i, n);
  DdpQuad a = ddp_quad_load(average, i, n);
  DDP_UNROLL
  for (int k = 0; k < 4; k++) a.at[k] = fmaf(by, b.at[k] - a.at[k], near ? a.at[k] : b.at[k]);
  ddp_quad_store(average, i, n, a);
}
static inline void ddp_arena_average(float *average, const float *x, int64_t n, double decay,
                                     void *stream) {
  const float weight = static_cast<float>(1.0 - decay);
  if (n > 0)
    DDP_LAUNCH(ddp_average_kernel, ddp_quad_blocks(n), 256, 0, stream, average, x, n, weight);
}

/* ---------- 16 bits ---------- */

/* What PyTorch's hooks make of a gradient: rounded to the type, divided by the number of ranks, rounded again. `from`
   is divided already. */
template <class T>
static __global__ void __launch_bounds__(256)
    ddp_narrow_kernel(T *__restrict__ to, const float *__restrict__ from, int64_t n, float ranks) {
  const int64_t i = ddp_quad_here();
  if (i >= n) return;
  DdpQuad a = ddp_quad_load(from, i, n);
  DDP_UNROLL
  for (int k = 0; k < 4; k++) {
    T rounded;
    ddp_store(&rounded, a.at[k] * ranks);
    a.at[k] = ddp_load(rounded) / ranks;
  }
  ddp_quad_store(to, i, n, a);
}
template <class T>
static __global__ void __launch_bounds__(256)
    ddp_widen_kernel(float *__restrict__ to, const T *__restrict__ from, int64_t n) {
  const int64_t i = ddp_quad_here();
  if (i < n) ddp_quad_store(to, i, n, ddp_quad_load(from, i, n));
}

template <class T>
static inline void ddp_arena_narrow_to(void *to, const float *from, int64_t n, int ranks,
                                       void *stream) {
  DDP_LAUNCH(ddp_narrow_kernel<T>, ddp_quad_blocks(n), 256, 0, stream, static_cast<T *>(to), from,
             n, static_cast<float>(ranks));
}
template <class T>
static inline void ddp_arena_widen_from(float *to, const void *from, int64_t n, void *stream) {
  DDP_LAUNCH(ddp_widen_kernel<T>, ddp_quad_blocks(n), 256, 0, stream, to,
             static_cast<const T *>(from), n);
}
/* dtype: bf16 or f16 (allreduce_dtype has no other). */
static inline void ddp_arena_narrow(void *to, const float *from, int64_t n, DdpDType dtype,
                                    int ranks, void *stream) {
  if (n <= 0) return;
  if (dtype == DDP_bf16)
    ddp_arena_narrow_to<__nv_bfloat16>(to, from, n, ranks, stream);
  else
    ddp_arena_narrow_to<__half>(to, from, n, ranks, stream);
}
static inline void ddp_arena_widen(float *to, const void *from, int64_t n, DdpDType dtype,
                                   void *stream) {
  if (n <= 0) return;
  if (dtype == DDP_bf16)
    ddp_arena_widen_from<__nv_bfloat16>(to, from, n, stream);
  else
    ddp_arena_widen_from<__half>(to, from, n, stream);
}

/* ---------- what the optimizer is told ---------- */

static __global__ void __launch_bounds__(32) ddp_tell_kernel(float *at, const double *loss) {
  if (threadIdx.x == 0 && !isfinite(*loss)) *at = NAN;
}
static inline void ddp_arena_tell(float *at, const double *loss, void *stream) {
  DDP_LAUNCH(ddp_tell_kernel, 1, 32, 0, stream, at, loss);
}

/* The norm of n norms with the additions of ddp_norm (train/norm.c): eight sums next to each other, then what is
   left in fours, then one by one. All threads find roots, one adds. */
DDP_DEVICE float ddp_norm_of(const double *__restrict__ squares, int n, float *room) {
  float lane[8] = {}, total = 0;
  const int eights = n / 8 * 8, fours = n / 4 * 4;
  for (int first = 0; first < n; first += 256) {
    const int own = first + static_cast<int>(threadIdx.x);
    room[threadIdx.x] = own < n ? static_cast<float>(sqrt(squares[own])) : 0.0f;
    __syncthreads();
    for (int i = first; threadIdx.x == 0 && i < n && i < first + 256; i++) {
      const float x = room[i - first];
      if (i < eights) lane[i % 8] += x * x;
      if (i == eights - 1 || (i == 0 && eights == 0)) {
        total = lane[0];
        for (int k = 1; k < 8; k++) total += lane[k];
      }
      if (i >= eights) total = i < fours ? total + x * x : fmaf(x, x, total);
    }
    __syncthreads();
  }
  return sqrtf(total);
}

static __global__ void __launch_bounds__(256)
    ddp_settle_kernel(const __grid_constant__ DdpSettle s) {
  __shared__ float room[256];
  bool finite = (!s.loss || isfinite(*s.loss)) && (!s.told || isfinite(*s.told));
  if (s.squares) {
    const float norm = ddp_norm_of(s.squares, s.n, room);
    if (threadIdx.x > 0) return;
    s.rates->norm = norm;
    finite = finite && isfinite(norm);
    const float c = 1.0f / (norm + 1e-6f) * static_cast<float>(s.max_norm);
    if (s.max_norm > 0) s.rates->clip = c > 1.0f ? 1.0f : c;
  }
  if (threadIdx.x == 0) s.rates->hold = s.holds && !finite;
}
static inline void ddp_arena_settle(const DdpSettle *s, void *stream) {
  DDP_LAUNCH(ddp_settle_kernel, 1, 256, 0, stream, *s);
}

static const DdpArenaKernels ddp_arena_kernels = {
    ddp_arena_square_sums, ddp_arena_scale, ddp_arena_fill, ddp_arena_average,
    ddp_arena_narrow,      ddp_arena_widen, ddp_arena_tell, ddp_arena_settle};

#endif
