/* Pooling: maxima, sums and averages over windows of [outer, in.., inner], and their gradients. Dense; T: storage,
   numbers are floats. One thread for each element that is written: backward gathers from the windows that hold an element, in their
   order, so that nothing is added by two threads. The bits of kernels/cpu/pool.h. */
#ifndef DDP_KERNELS_CUDA_POOL_H
#define DDP_KERNELS_CUDA_POOL_H
#include "math.h"
#include "../shapes.h"

/* Ranges of three dimensions (the missing ones first, of one place). */
typedef struct DdpPoolWindow {
  int32_t first[3], n[3], step[3];
  float divisor;
} DdpPoolWindow;

/* Dimension k of three; I: an integer that counts all elements. */
template <class I> DDP_DEVICE I ddp_pool_size(const DdpPool &p, const int64_t *size, int k) {
  const int i = k - 3 + static_cast<int>(p.space);
  return static_cast<I>(i < 0 ? 1 : size[i]);
}
template <class I> DDP_DEVICE I ddp_pool_count(const DdpPool &p, const int64_t *size) {
  return ddp_pool_size<I>(p, size, 0) * ddp_pool_size<I>(p, size, 1) * ddp_pool_size<I>(p, size, 2);
}

DDP_DEVICE DdpPoolWindow ddp_pool_window(const DdpPool &p, const int32_t *o) {
  DdpPoolWindow w;
  int64_t divisor = 1;
  DDP_UNROLL
  for (int k = 0; k < 3; k++) {
    const int i = k - 3 + static_cast<int>(p.space);
    DdpPoolRange r = {0, 1, 1, 1};
    if (i >= 0) r = ddp_pool_range(&p, i, o[k]);
    w.first[k] = static_cast<int32_t>(r.first);
    w.n[k] = static_cast<int32_t>(r.n);
    w.step[k] = static_cast<int32_t>(r.step);
    divisor *= p.divide == 1 ? r.padded : p.divide == 2 ? r.n : 1;
  }
  w.divisor = static_cast<float>(divisor);
  return w;
}

/* Calls each(place) for the places of a window, in order; places count [in..]. */
template <class I, class Each>
DDP_DEVICE void ddp_pool_places(const DdpPool &p, const DdpPoolWindow &w, Each each) {
  const I rows = ddp_pool_size<I>(p, p.in, 1), columns = ddp_pool_size<I>(p, p.in, 2);
  DDP_ROLLED
  for (int32_t a = 0; a < w.n[0]; a++) {
    const I layer = static_cast<I>(w.first[0] + a * w.step[0]) * rows;
    DDP_ROLLED
    for (int32_t b = 0; b < w.n[1]; b++) {
      const I row = layer + static_cast<I>(w.first[1] + b * w.step[1]);
      I place = row * columns + static_cast<I>(w.first[2]);
      DDP_ROLLED
      for (int32_t c = 0; c < w.n[2]; c++, place += static_cast<I>(w.step[2])) each(place);
    }
  }
}

template <class I> struct DdpPoolBest {
  float value;
  I place;
};
/* The largest element and its place: the first of equal ones, NaN if there is one. x: at place 0. */
template <class I, class T>
DDP_DEVICE DdpPoolBest<I> ddp_pool_best(const DdpPool &p, const DdpPoolWindow &w, const T *x,
                                        I inner) {
  const I rows = ddp_pool_size<I>(p, p.in, 1), columns = ddp_pool_size<I>(p, p.in, 2);
  const I row = static_cast<I>(w.first[0]) * rows + static_cast<I>(w.first[1]);
  DdpPoolBest<I> best = {-INFINITY, row * columns + static_cast<I>(w.first[2])};
  ddp_pool_places<I>(p, w, [&](I place) {
    const float e = ddp_load(x[place * inner]);
    if (e > best.value || e != e) best = {e, place};
  });
  return best;
}

/* Where an element of [outer, size.., inner] lies. */
template <class I> struct DdpPoolAt {
  I outer, place, column;
  int32_t o[3];
};
template <class I>
DDP_DEVICE DdpPoolAt<I> ddp_pool_at(const DdpPool &p, const int64_t *size, I inner, I i) {
  DdpPoolAt<I> at;
  const I count = ddp_pool_count<I>(p, size);
  at.column = i % inner;
  at.place = i / inner % count;
  at.outer = i / inner / count;
  I rest = at.place;
  DDP_UNROLL
  for (int k = 2; k >= 0; k--) {
    const I n = ddp_pool_size<I>(p, size, k);
    at.o[k] = static_cast<int32_t>(rest % n);
    rest /= n;
  }
  return at;
}

/* ---------- forward ---------- */

template <class I, bool max, class T>
static __global__ void __launch_bounds__(256)
    ddp_pool_forward(const __grid_constant__ DdpPool p, I outer, I inner, const T *__restrict__ x,
                     T *__restrict__ y, bool add) {
  const I i = static_cast<I>(static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x);
  if (i >= outer * ddp_pool_count<I>(p, p.out) * inner) return;
  const DdpPoolAt<I> at = ddp_pool_at<I>(p, p.out, inner, i);
  const DdpPoolWindow w = ddp_pool_window(p, at.o);
  const T *const own = x + at.outer * ddp_pool_count<I>(p, p.in) * inner + at.column;
  float result = 0;
  if constexpr (max) {
    result = ddp_pool_best<I, T>(p, w, own, inner).value;
  } else {
    ddp_pool_places<I>(p, w, [&](I place) { result += ddp_load(own[place * inner]); });
    result /= w.divisor;
  }
  ddp_store(y + i, add ? ddp_load(y[i]) + result : result);
}

/* ---------- backward ---------- */

/* Windows of dimension k that may hold position `at`. */
DDP_DEVICE void ddp_pool_holders(const DdpPool &p, int k, int64_t at, int32_t *first,
                                 int32_t *last) {
  const int i = k - 3 + static_cast<int>(p.space);
  *first = *last = 0;
  if (i < 0) return;
  const int64_t in = p.in[i], out = p.out[i], stride = p.stride[i];
  if (p.adaptive) {
    *first = static_cast<int32_t>(at * out / in);
    *last = static_cast<int32_t>(((at + 1) * out + in - 1) / in - 1);
    return;
  }
  const int64_t end = at + p.padding[i], begin = end - p.dilation[i] * (p.window[i] - 1);
  *first = static_cast<int32_t>(begin > 0 ? (begin + stride - 1) / stride : 0);
  *last = static_cast<int32_t>(end / stride < out - 1 ? end / stride : out - 1);
}
DDP_DEVICE bool ddp_pool_holds(const DdpPoolWindow &w, const int32_t *at) {
  bool holds = true;
  DDP_UNROLL
  for (int k = 0; k < 3; k++) {
    const int32_t from = at[k] - w.first[k];
    holds = holds && from >= 0 && from < w.n[k] * w.step[k] && from % w.step[k] == 0;
  }
  return holds;
}

template <class I, bool max, class T>
static __global__ void __launch_bounds__(256)
    ddp_pool_backward(const __grid_constant__ DdpPool p, I outer, I inner, const T *__restrict__ x,
                      const T *__restrict__ g, T *__restrict__ y, bool add) {
  const I i = static_cast<I>(static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x);
  const I count = ddp_pool_count<I>(p, p.in);
  if (i >= outer * count * inner) return;
  const DdpPoolAt<I> at = ddp_pool_at<I>(p, p.in, inner, i);
  const I rows = ddp_pool_size<I>(p, p.out, 1), columns = ddp_pool_size<I>(p, p.out, 2);
  const T *const from = g + at.outer * ddp_pool_count<I>(p, p.out) * inner + at.column;
  int32_t first[3], last[3], o[3];
  DDP_UNROLL
  for (int k = 0; k < 3; k++) ddp_pool_holders(p, k, at.o[k], &first[k], &last[k]);
  float sum = add ? ddp_load(y[i]) : 0.0f;
  DDP_ROLLED
  for (o[0] = first[0]; o[0] <= last[0]; o[0]++) {
    DDP_ROLLED
    for (o[1] = first[1]; o[1] <= last[1]; o[1]++) {
      const I row = static_cast<I>(o[0]) * rows + static_cast<I>(o[1]);
      DDP_ROLLED
      for (o[2] = first[2]; o[2] <= last[2]; o[2]++) {
        const DdpPoolWindow w = ddp_pool_window(p, o);
        if (!ddp_pool_holds(w, at.o)) continue;
        const float grad = ddp_load(from[(row * columns + static_cast<I>(o[2])) * inner]);
        if constexpr (max) {
          const T *const own = x + at.outer * count * inner + at.column;
          if (ddp_pool_best<I, T>(p, w, own, inner).place == at.place) sum += grad;
        } else {
          sum += grad / w.divisor;
        }
      }
    }
  }
  ddp_store(y + i, sum);
}

/* ---------- launches ---------- */

template <class I, bool max, class T>
static inline void ddp_pool_run(void *stream, const DdpPool *p, int64_t outer, int64_t inner,
                                int64_t all, const T *x, const T *g, T *y, bool accumulate) {
  const I rows = static_cast<I>(outer), columns = static_cast<I>(inner);
  if (g)
    DDP_LAUNCH((ddp_pool_backward<I, max, T>), ddp_blocks(all, 256), 256, 0, stream, *p, rows,
               columns, x, g, y, accumulate);
  else
    DDP_LAUNCH((ddp_pool_forward<I, max, T>), ddp_blocks(all, 256), 256, 0, stream, *p, rows,
               columns, x, y, accumulate);
}
/* Divisions of 64 bits are long, and few tensors need them. */
template <bool max, class T>
static inline void ddp_pool_any(void *stream, const DdpPool *p, int64_t outer, int64_t inner,
                                const T *x, const T *g, T *y, bool accumulate) {
  int64_t from = outer * inner, to = from;
  for (int64_t i = 0; i < p->space; i++) {
    from *= p->in[i];
    to *= p->out[i];
  }
  const int64_t all = g ? from : to;
  if (all <= 0) return;
  if (from < INT32_MAX - 255 && to < INT32_MAX - 255)
    ddp_pool_run<int32_t, max, T>(stream, p, outer, inner, all, x, g, y, accumulate);
  else
    ddp_pool_run<int64_t, max, T>(stream, p, outer, inner, all, x, g, y, accumulate);
}

/* x is NULL where only the gradient is needed, g in the forward functions. */
template <class T>
static inline void ddp_pool_max(void *stream, const DdpPool *p, int64_t outer, int64_t inner,
                                const T *x, const T *g, T *y, bool accumulate) {
  ddp_pool_any<true, T>(stream, p, outer, inner, x, g, y, accumulate);
}
template <class T>
static inline void ddp_pool_sum(void *stream, const DdpPool *p, int64_t outer, int64_t inner,
                                const T *x, const T *g, T *y, bool accumulate) {
  ddp_pool_any<false, T>(stream, p, outer, inner, x, g, y, accumulate);
}

#endif
