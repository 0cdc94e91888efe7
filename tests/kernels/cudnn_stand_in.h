/* A plugin in place of libddp_cudnn.so: loops on the device, over the layouts that cuDNN is told. With
   DDP_ASKS_CUDNN tests of attention and convolution ask it first. */
#ifndef TESTS_CUDNN_STAND_IN_H
#define TESTS_CUDNN_STAND_IN_H
#include "cuda/ask_cudnn.h"
#include "on_device.h"
#if DDP_ASKS_CUDNN
#include "cuda/math.h"
extern "C" {
#include "cuda/cudnn_graphs.h"
#include "ddp/status.h"
DdpError *cuda_failure(void);
}

struct DdpCudnnGraph {
  bool is_conv;
  DdpCudnnConv conv;
  DdpCudnnAttention attention;
};
static int stand_in_runs;

/* ---------- convolution ---------- */

/* A thread: one number of the result. Sides are [batch, space.., channels], the filter
   [small, kernel.., big / groups]. */
template <class T>
static __global__ void stand_in_conv(DdpCudnnConv c, T *big, T *small, T *filter, int64_t n) {
  const int64_t own = (int64_t)blockIdx.x * 64 + threadIdx.x;
  int64_t places = 1, spots = 1, taps = 1;
  for (int i = 0; i < (int)c.space; i++) {
    places *= c.small_size[i];
    spots *= c.big_size[i];
    taps *= c.kernel[i];
  }
  if (own >= n) return;
  const int64_t m = c.small / c.groups, each = c.big / c.groups;
  double sum = 0;
  for (int64_t b = 0; b < c.batch; b++)
    for (int64_t p = 0; p < places; p++)
      for (int64_t t = 0; t < taps; t++) {
        int64_t spot = 0, scale = 1, place = p, tap = t;
        bool inside = true;
        for (int i = (int)c.space; i-- > 0;) {
          const int64_t k = place % c.small_size[i] * c.stride[i] - c.padding[i] +
                            tap % c.kernel[i] * c.dilation[i];
          inside = inside && k >= 0 && k < c.big_size[i];
          spot += k * scale;
          scale *= c.big_size[i];
          place /= c.small_size[i];
          tap /= c.kernel[i];
        }
        if (!inside) continue;
        const int64_t y = (b * places + p) * c.small, x = (b * spots + spot) * c.big;
        if (c.result == 2) {
          const int64_t to = own / each / taps, from = to / m * each + own % each;
          if (own / each % taps == t)
            sum += (double)ddp_load(small[y + to]) * (double)ddp_load(big[x + from]);
          continue;
        }
        const int64_t channel = c.result ? own % c.big : own % c.small;
        if ((c.result ? own / c.big != b * spots + spot : own / c.small != b * places + p))
          continue;
        for (int64_t k = 0; k < (c.result ? m : each); k++) {
          const int64_t to = c.result ? channel / each * m + k : channel;
          const int64_t from = c.result ? channel : channel / m * each + k;
          const T w = filter[(to * taps + t) * each + from % each];
          const T other = c.result ? small[y + to] : big[x + from];
          sum += (double)ddp_load(w) * (double)ddp_load(other);
        }
      }
  ddp_store((c.result == 0 ? small : c.result == 1 ? big : filter) + own, (float)sum);
}

template <class T> static void run_conv(const DdpCudnnConv &c, void *const *at, void *stream) {
  int64_t places = 1, spots = 1, taps = 1;
  for (int i = 0; i < (int)c.space; i++) {
    places *= c.small_size[i];
    spots *= c.big_size[i];
    taps *= c.kernel[i];
  }
  const int64_t n = c.result == 0   ? c.batch * places * c.small
                    : c.result == 1 ? c.batch * spots * c.big
                                    : c.small * taps * (c.big / c.groups);
  DDP_LAUNCH((stand_in_conv<T>), ddp_blocks(n, 64), 64, 0, stream, c, static_cast<T *>(at[0]),
             static_cast<T *>(at[1]), static_cast<T *>(at[2]), n);
}

/* ---------- attention ---------- */

template <class T> struct StandInAttention {
  DdpCudnnAttention a;
  const T *q, *key, *value, *y, *gradient;
  float *lse;
};

template <class T> DDP_DEVICE double stand_in_dot(const T *x, const T *y, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; c++) sum += (double)ddp_load(x[c]) * (double)ddp_load(y[c]);
  return sum;
}
template <class T>
DDP_DEVICE const T *stand_in_row(const T *x, const DdpCudnnHeads &s, int64_t b, int64_t i,
                                 int64_t h) {
  return x + b * s.batch + i * s.time + h * s.head;
}

/* A thread: a row of a head. */
template <class T> static __global__ void stand_in_forward(StandInAttention<T> s, T *y) {
  const DdpCudnnAttention &a = s.a;
  const int64_t own = (int64_t)blockIdx.x * 64 + threadIdx.x;
  if (own >= a.batch * a.heads * a.t) return;
  const int64_t i = own % a.t, h = own / a.t % a.heads, b = own / a.t / a.heads;
  const int64_t group = h / (a.heads / a.groups), end = a.causal && i + 1 < a.s ? i + 1 : a.s;
  const T *q = stand_in_row(s.q, a.q, b, i, h);
  double sum = 0;
  for (int64_t j = 0; j < end; j++)
    sum += exp(a.scale * stand_in_dot(q, stand_in_row(s.key, a.key, b, j, group), a.k));
  if (a.keep_lse) s.lse[own] = (float)log(sum);
  for (int64_t c = 0; c < a.v; c++) {
    double x = 0;
    for (int64_t j = 0; j < end; j++)
      x += exp(a.scale * stand_in_dot(q, stand_in_row(s.key, a.key, b, j, group), a.k)) / sum *
           (double)ddp_load(stand_in_row(s.value, a.value, b, j, group)[c]);
    ddp_store(y + b * a.y.batch + i * a.y.time + h * a.y.head + c, (float)x);
  }
}

/* Weight of (i, j), and the gradient of its score. */
template <class T>
DDP_DEVICE double stand_in_weight(const StandInAttention<T> &s, int64_t b, int64_t h, int64_t i,
                                  int64_t j, double *score) {
  const DdpCudnnAttention &a = s.a;
  const int64_t group = h / (a.heads / a.groups);
  const T *q = stand_in_row(s.q, a.q, b, i, h), *g = stand_in_row(s.gradient, a.gradient, b, i, h);
  const double x = a.scale * stand_in_dot(q, stand_in_row(s.key, a.key, b, j, group), a.k);
  const double weight = exp(x - (double)s.lse[(b * a.heads + h) * a.t + i]);
  const double delta = stand_in_dot(g, stand_in_row(s.y, a.y, b, i, h), a.v);
  *score = weight * a.scale *
           (stand_in_dot(g, stand_in_row(s.value, a.value, b, j, group), a.v) - delta);
  return weight;
}

template <class T> static __global__ void stand_in_queries(StandInAttention<T> s, T *dq) {
  const DdpCudnnAttention &a = s.a;
  const int64_t own = (int64_t)blockIdx.x * 64 + threadIdx.x;
  if (own >= a.batch * a.t * a.heads) return;
  const int64_t h = own % a.heads, i = own / a.heads % a.t, b = own / a.heads / a.t;
  double sum[64] = {}, score;
  for (int64_t j = 0; j < (a.causal && i + 1 < a.s ? i + 1 : a.s); j++) {
    stand_in_weight(s, b, h, i, j, &score);
    const T *k = stand_in_row(s.key, a.key, b, j, h / (a.heads / a.groups));
    for (int64_t c = 0; c < a.k; c++) sum[c] += score * (double)ddp_load(k[c]);
  }
  for (int64_t c = 0; c < a.k; c++) ddp_store(dq + own * a.k + c, (float)sum[c]);
}

template <class T> static __global__ void stand_in_keys(StandInAttention<T> s, T *dk, T *dv) {
  const DdpCudnnAttention &a = s.a;
  const int64_t own = (int64_t)blockIdx.x * 64 + threadIdx.x, share = a.heads / a.groups;
  if (own >= a.batch * a.s * a.groups) return;
  const int64_t group = own % a.groups, j = own / a.groups % a.s, b = own / a.groups / a.s;
  double sum_k[64] = {}, sum_v[64] = {}, score;
  for (int64_t h = group * share; h < (group + 1) * share; h++)
    for (int64_t i = a.causal ? j : 0; i < a.t; i++) {
      const double weight = stand_in_weight(s, b, h, i, j, &score);
      const T *q = stand_in_row(s.q, a.q, b, i, h),
              *g = stand_in_row(s.gradient, a.gradient, b, i, h);
      for (int64_t c = 0; c < a.k; c++) sum_k[c] += score * (double)ddp_load(q[c]);
      for (int64_t c = 0; c < a.v; c++) sum_v[c] += weight * (double)ddp_load(g[c]);
    }
  for (int64_t c = 0; c < a.k; c++) ddp_store(dk + own * a.k + c, (float)sum_k[c]);
  for (int64_t c = 0; c < a.v; c++) ddp_store(dv + own * a.v + c, (float)sum_v[c]);
}

template <class T>
static void run_attention(const DdpCudnnAttention &a, void *const *at, void *stream) {
  const StandInAttention<T> s = {a,
                                 static_cast<T *>(at[DDP_CUDNN_q]),
                                 static_cast<T *>(at[DDP_CUDNN_key]),
                                 static_cast<T *>(at[DDP_CUDNN_value]),
                                 static_cast<T *>(at[DDP_CUDNN_y]),
                                 static_cast<T *>(at[DDP_CUDNN_gradient]),
                                 static_cast<float *>(at[DDP_CUDNN_lse])};
  const unsigned rows = ddp_blocks(a.batch * a.heads * a.t, 64);
  if (!a.backward) {
    DDP_LAUNCH((stand_in_forward<T>), rows, 64, 0, stream, s, static_cast<T *>(at[DDP_CUDNN_y]));
    return;
  }
  DDP_LAUNCH((stand_in_queries<T>), rows, 64, 0, stream, s, static_cast<T *>(at[DDP_CUDNN_dq]));
  DDP_LAUNCH((stand_in_keys<T>), ddp_blocks(a.batch * a.s * a.groups, 64), 64, 0, stream, s,
             static_cast<T *>(at[DDP_CUDNN_dk]), static_cast<T *>(at[DDP_CUDNN_dv]));
}

/* ---------- the table ---------- */

static DdpCudnnGraph *stand_in_attention(const DdpCudnnAttention *a, const char *device,
                                         bool *planned, char *why, size_t size) {
  assert_null(device);
  *planned = a->k <= 64 && a->v <= 64;
  snprintf(why, size, "%s", *planned ? "" : "wide");
  return *planned ? new DdpCudnnGraph{false, {}, *a} : nullptr;
}
static DdpCudnnGraph *stand_in_conv_graph(const DdpCudnnConv *c, const char *device, bool *planned,
                                          char *why, size_t size) {
  assert_null(device);
  assert_int_equal(c->tf32, DDP_TF32 && c->type == DDP_f32);
  (void)why, (void)size;
  *planned = true;
  return new DdpCudnnGraph{true, *c, {}};
}
static int64_t stand_in_workspace(const DdpCudnnGraph *g) {
  return g->is_conv ? 0 : 4096;
}
static const char *stand_in_name(const DdpCudnnGraph *g) {
  return g->is_conv ? "loops" : "rows";
}
static int stand_in_run(const DdpCudnnGraph *g, void *const *at, int n, void *room, void *stream,
                        char *why, size_t size) {
  (void)why, (void)size;
  const int64_t type = g->is_conv ? g->conv.type : g->attention.type;
  assert_int_equal(n, g->is_conv ? 3 : DDP_CUDNN_OPERANDS);
  assert_true((room != nullptr) == (stand_in_workspace(g) > 0));
  stand_in_runs++;
  if (g->is_conv)
    (type == DDP_f32   ? run_conv<float>
     : type == DDP_f16 ? run_conv<__half>
                       : run_conv<__nv_bfloat16>)(g->conv, at, stream);
  else
    (type == DDP_f16 ? run_attention<__half> : run_attention<__nv_bfloat16>)(g->attention, at,
                                                                             stream);
  return 0;
}
static void stand_in_free(DdpCudnnGraph *g) {
  delete g;
}
static const DdpCudnnPlugin stand_in = {
    DDP_CUDNN_ABI,      nullptr,       stand_in_attention, stand_in_conv_graph,
    stand_in_workspace, stand_in_name, stand_in_run,       stand_in_free};

/* Before the tests, and after them: it was asked, and no error was kept. */
static inline void stand_in_begin() {
  cudnn_use(&stand_in, 92700);
}
static inline int stand_in_end(int failed) {
  DdpError *e = cuda_failure();
  if (e || !stand_in_runs) fprintf(stderr, "stand-in of cuDNN: %s\n", e ? e->message : "never run");
  cudnn_close();
  return failed || e || !stand_in_runs;
}
#else
static inline void stand_in_begin() {}
static inline int stand_in_end(int failed) {
  return failed;
}
#endif
#endif
