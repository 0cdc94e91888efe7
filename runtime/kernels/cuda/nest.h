/* What the kernels that loop nests become need beside the language: maxima and positions as the CPU's loops
   find them, and sums along a column of a block. The emitter chooses; compiler/emit/launch.h. */
#ifndef DDP_KERNELS_CUDA_NEST_H
#define DDP_KERNELS_CUDA_NEST_H
#include "draw.h"

/* ---------- neighbours in one access: their address is a multiple of its size ---------- */
template <int N, class T> DDP_DEVICE DdpVector<T, N> ddp_vector(const T *from) {
  return *reinterpret_cast<const DdpVector<T, N> *>(from);
}
template <int N, class T> DDP_DEVICE void ddp_store_vector(T *to, const DdpVector<T, N> &x) {
  *reinterpret_cast<DdpVector<T, N> *>(to) = x;
}

/* ---------- maxima: NaN if there is one, as torch.max ---------- */
template <class T> DDP_DEVICE T ddp_greater(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T> DDP_DEVICE T ddp_warp_greatest(T x) {
  DDP_UNROLL
  for (int step = 16; step > 0; step /= 2)
    x = ddp_greater(x, __shfl_xor_sync(DDP_ALL_LANES, x, step));
  return x;
}
DDP_DEVICE bool ddp_warp_greatest(bool x) {
  return __any_sync(DDP_ALL_LANES, x) != 0;
}
/* parts: shared memory for 32 numbers, free again afterwards; all threads take part, as in
   ddp_block_sum. */
template <class T> DDP_DEVICE T ddp_block_greatest(T x, T *parts) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  x = ddp_warp_greatest(x);
  if (lane == 0) parts[thread / 32] = x;
  __syncthreads();
  x = ddp_warp_greatest(parts[lane < static_cast<int>(blockDim.x) / 32 ? lane : 0]);
  __syncthreads();
  return x;
}

/* ---------- positions of maxima: the first of equals; NaN is greater than all ---------- */
template <class T> DDP_DEVICE void ddp_argmax_add(T &greatest, int64_t &at, T x, int64_t where) {
  if (x > greatest || (x != x && greatest == greatest)) {
    greatest = x;
    at = where;
  }
}
template <class T> DDP_DEVICE void ddp_argmax_join(T &greatest, int64_t &at, T x, int64_t where) {
  const bool same = x == greatest || (x != x && greatest != greatest);
  if (same)
    at = where < at ? where : at;
  else
    ddp_argmax_add(greatest, at, x, where);
}
template <class T> DDP_DEVICE void ddp_warp_argmax(T &greatest, int64_t &at) {
  DDP_UNROLL
  for (int step = 16; step > 0; step /= 2) {
    const T x = __shfl_xor_sync(DDP_ALL_LANES, greatest, step);
    const int64_t where = __shfl_xor_sync(DDP_ALL_LANES, at, step);
    ddp_argmax_join(greatest, at, x, where);
  }
}
DDP_DEVICE void ddp_warp_argmax(bool &greatest, int64_t &at) {
  int x = greatest;
  ddp_warp_argmax(x, at);
  greatest = x != 0;
}
template <class T>
DDP_DEVICE void ddp_block_argmax(T &greatest, int64_t &at, T *parts, int64_t *places) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  ddp_warp_argmax(greatest, at);
  if (lane == 0) {
    parts[thread / 32] = greatest;
    places[thread / 32] = at;
  }
  __syncthreads();
  const int warp = lane < static_cast<int>(blockDim.x) / 32 ? lane : 0;
  greatest = parts[warp];
  at = places[warp];
  ddp_warp_argmax(greatest, at);
  __syncthreads();
}

/* ---------- sums that the teams of a block hold ----------
   Thread t of a team of TEAM holds sums of N of `width` elements, V neighbours at a time: t V .., (t + TEAM) V .. The
   teams of a block add theirs up, one after another; the block's go to `part`. sums: shared memory for all, free again
   afterwards. */
template <int TEAM, int V, class T, int N>
DDP_DEVICE void ddp_teams_leave(T *part, int width, const T (&total)[N], T *sums) {
  const int thread = static_cast<int>(threadIdx.x) % TEAM;
  const int own = static_cast<int>(threadIdx.x) / TEAM;
  for (int team = 0; team < static_cast<int>(blockDim.x) / TEAM; team++) {
    if (team == own) {
      DDP_UNROLL
      for (int k = 0; k < N; k++) {
        const int at = (k / V * TEAM + thread) * V + k % V;
        if (at < width) sums[at] = team > 0 ? sums[at] + total[k] : total[k];
      }
    }
    __syncthreads();
  }
  for (int at = static_cast<int>(threadIdx.x); at < width; at += static_cast<int>(blockDim.x))
    part[at] = sums[at];
  __syncthreads();
}

/* ---------- sums along a column ----------
   The sum over threadIdx.y, for the thread with threadIdx.y == 0; blockDim.y is a power of two.
   parts: shared memory for a number of each thread, free again afterwards. */
template <class T> DDP_DEVICE T ddp_sum_along(T x, T *parts) {
  const unsigned at = threadIdx.y * blockDim.x + threadIdx.x;
  parts[at] = x;
  __syncthreads();
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    if (threadIdx.y < half) parts[at] += parts[at + half * blockDim.x];
    __syncthreads();
  }
  x = parts[threadIdx.x];
  __syncthreads();
  return x;
}

#endif
