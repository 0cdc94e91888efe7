/* Convolution: a small side, a big side and a filter [small, big / groups, kernel..]; two of them give the
   third (compiler/ops/conv.h). Dense f32; sides are [batch, channels / block, space.., block].
   oneDNN where it was found when ddpc was built, else columns and products. One thread at a time calls
   it; the runtime sets the number of threads that oneDNN takes. */
#ifndef DDP_KERNELS_CPU_CONV_H
#define DDP_KERNELS_CPU_CONV_H
#include "../shapes.h"
#include "gemm.h"
#include <stdlib.h>

/* Memory that every call may use: as large as the largest has needed. */
static __attribute__((unused)) float *ddp_conv_scratch(size_t bytes) {
  static void *at;
  static size_t have;
  if (bytes <= have) return at;
  free(at);
  have = (bytes + 4095) / 4096 * 4096;
  at = aligned_alloc(4096, have);
  if (!at) abort();
  return at;
}

DDP_INLINE int64_t ddp_conv_product(const int64_t *size, int64_t n) {
  int64_t p = 1;
  for (int64_t i = 0; i < n; i++) p *= size[i];
  return p;
}

/* ---------- columns and products ---------- */

/* Offset of a channel's first element within a sample; its elements are `block` apart. */
DDP_INLINE int64_t ddp_conv_channel(int64_t channel, int64_t block, int64_t places) {
  return channel / block * places * block + channel % block;
}

/* Columns [channel, tap, place] of one group of a sample of the big side, or from them into it. */
static __attribute__((unused)) void ddp_conv_columns(const DdpConv *c, int64_t group, float *big,
                                                     float *columns, bool back) {
  int64_t places = ddp_conv_product(c->small_size, c->space);
  int64_t taps = ddp_conv_product(c->kernel, c->space), each = c->big / c->groups;
  int64_t spots = ddp_conv_product(c->big_size, c->space);
  for (int64_t row = 0; row < each * taps; row++) {
    float *x = big + ddp_conv_channel(group * each + row / taps, c->big_block, spots);
    float *column = columns + row * places;
    for (int64_t p = 0; p < places; p++) {
      int64_t at = 0, scale = 1, place = p, tap = row % taps;
      bool inside = true;
      for (int64_t i = c->space; i-- > 0;) {
        int64_t k = place % c->small_size[i] * c->stride[i] - c->padding[i] +
                    tap % c->kernel[i] * c->dilation[i];
        inside = inside && k >= 0 && k < c->big_size[i];
        at += k * scale;
        scale *= c->big_size[i];
        place /= c->small_size[i];
        tap /= c->kernel[i];
      }
      if (!back)
        column[p] = inside ? x[at * c->big_block] : 0;
      else if (inside)
        x[at * c->big_block] += column[p];
    }
  }
}

/* One group of a sample of the small side as [channel, place]; back: into it, adding. */
static __attribute__((unused)) void ddp_conv_rows(const DdpConv *c, int64_t group, float *small,
                                                  float *rows, bool back) {
  int64_t places = ddp_conv_product(c->small_size, c->space), each = c->small / c->groups;
  for (int64_t m = 0; m < each; m++) {
    float *x = small + ddp_conv_channel(group * each + m, c->small_block, places);
    for (int64_t p = 0; p < places; p++) {
      if (back)
        x[p * c->small_block] += rows[m * places + p];
      else
        rows[m * places + p] = x[p * c->small_block];
    }
  }
}

static __attribute__((unused)) void ddp_conv_plain(const DdpConv *c, DdpConvResult result,
                                                   int64_t batch, float *big, float *small,
                                                   float *filter, bool accumulate) {
  int64_t places = ddp_conv_product(c->small_size, c->space);
  int64_t m = c->small / c->groups;
  int64_t k = c->big / c->groups * ddp_conv_product(c->kernel, c->space);
  int64_t in = c->big * ddp_conv_product(c->big_size, c->space), out = c->small * places;
  float *columns = ddp_conv_scratch((size_t)((k + m) * places) * sizeof(float));
  float *rows = columns + k * places;
  float *y = result == DDP_CONV_SMALL ? small : result == DDP_CONV_BIG ? big : filter;
  int64_t n = result == DDP_CONV_SMALL ? batch * out
              : result == DDP_CONV_BIG ? batch * in
                                       : c->small * k;
  if (!accumulate) memset(y, 0, (size_t)n * sizeof *y);
  for (int64_t b = 0; b < batch; b++)
    for (int64_t g = 0; g < c->groups; g++) {
      float *w = filter + g * m * k;
      if (result != DDP_CONV_BIG) ddp_conv_columns(c, g, big + b * in, columns, false);
      if (result != DDP_CONV_SMALL) ddp_conv_rows(c, g, small + b * out, rows, false);
      if (result == DDP_CONV_SMALL) {
        ddp_gemm(false, false, m, places, k, w, columns, 0.0f, rows);
        ddp_conv_rows(c, g, small + b * out, rows, true);
      } else if (result == DDP_CONV_BIG) {
        ddp_gemm(true, false, k, places, m, w, rows, 0.0f, columns);
        ddp_conv_columns(c, g, big + b * in, columns, true);
      } else {
        ddp_gemm(false, true, m, k, places, rows, columns, 1.0f, w);
      }
    }
}

/* ---------- oneDNN ---------- */
#if DDP_HAVE_DNNL && DNNL_VERSION_MAJOR == 2
enum { DDP_CONV_RANK = 6 };

/* An operand: as the caller has it and, if the primitive wants another layout, as that has it. */
typedef struct DdpConvPart {
  dnnl_memory_t user, own; /* own: NULL when it is the same */
  dnnl_primitive_t reorder;
  size_t at, bytes; /* own: place in the scratch memory; bytes of the user's */
} DdpConvPart;

typedef struct DdpConvMade DdpConvMade;
struct DdpConvMade {
  DdpConvMade *next;
  DdpConv shape;
  DdpConvResult result;
  int64_t batch;
  dnnl_primitive_t primitive; /* NULL: oneDNN cannot, or not well */
  DdpConvPart part[3];        /* big, small, filter */
  dnnl_memory_t scratchpad;
  size_t scratchpad_at, sum_at, bytes; /* of the scratch memory; sum: for a result that is added */
};

DDP_INLINE dnnl_memory_desc_t ddp_conv_any(const dnnl_memory_desc_t *d) {
  dnnl_memory_desc_t any;
  memset(&any, 0, sizeof any);
  dnnl_memory_desc_init_by_tag(&any, d->ndims, d->dims, dnnl_f32, dnnl_format_tag_any);
  return any;
}

/* [batch, channels, space..] that lies in blocks of channels. Other blocks than 1, 16 and all channels
   have no description (of no dimensions). */
static __attribute__((unused)) dnnl_memory_desc_t
ddp_conv_side(int64_t batch, int64_t channels, int64_t block, const int64_t *size, int64_t space) {
  static const dnnl_format_tag_t tag[] = {dnnl_aBc16b, dnnl_aBcd16b, dnnl_aBcde16b};
  dnnl_memory_desc_t d;
  dnnl_dims_t dims = {batch, channels}, strides;
  const int n = 2 + (int)space;
  int64_t stride = block;
  memset(&d, 0, sizeof d);
  for (int64_t i = 0; i < space; i++) dims[2 + i] = size[i];
  for (int64_t i = space; i-- > 0;) {
    strides[2 + i] = stride;
    stride *= size[i];
  }
  strides[1] = block == 1 ? stride : 1;
  strides[0] = stride * (channels / block);
  if (block == 1 || block == channels)
    dnnl_memory_desc_init_by_strides(&d, n, dims, dnnl_f32, strides);
  else if (block == 16)
    dnnl_memory_desc_init_by_tag(&d, n, dims, dnnl_f32, tag[space - 1]);
  return d;
}

static __attribute__((unused)) dnnl_memory_desc_t ddp_conv_filter(const DdpConv *c) {
  dnnl_memory_desc_t d;
  dnnl_dims_t dims, strides;
  int n = 0;
  int64_t stride = 1;
  memset(&d, 0, sizeof d);
  if (c->groups > 1) dims[n++] = c->groups;
  dims[n++] = c->small / c->groups;
  dims[n++] = c->big / c->groups;
  for (int64_t i = 0; i < c->space; i++) dims[n++] = c->kernel[i];
  for (int i = n; i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  dnnl_memory_desc_init_by_strides(&d, n, dims, dnnl_f32, strides);
  return d;
}

static __attribute__((unused)) dnnl_primitive_desc_t
ddp_conv_describe(const DdpConv *c, DdpConvResult result, dnnl_alg_kind_t algorithm,
                  const dnnl_memory_desc_t *d, dnnl_engine_t engine) {
  const dnnl_memory_desc_t *x = &d[0], *y = &d[1];
  dnnl_memory_desc_t w = ddp_conv_any(&d[2]);
  dnnl_convolution_desc_t forward, what;
  dnnl_primitive_desc_t made = NULL, hint = NULL;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_dims_t stride = {0}, padding = {0}, dilation = {0};
  for (int64_t i = 0; i < c->space; i++) {
    stride[i] = c->stride[i];
    padding[i] = c->padding[i];
    dilation[i] = c->dilation[i] - 1; /* oneDNN counts what is left out */
  }
  dnnl_status_t s =
      dnnl_dilated_convolution_forward_desc_init(&forward, dnnl_forward_training, algorithm, x, &w,
                                                 NULL, y, stride, dilation, padding, padding);
  what = forward;
  if (!s && result == DDP_CONV_BIG)
    s = dnnl_dilated_convolution_backward_data_desc_init(&what, algorithm, x, &w, y, stride,
                                                         dilation, padding, padding);
  if (!s && result == DDP_CONV_FILTER)
    s = dnnl_dilated_convolution_backward_weights_desc_init(&what, algorithm, x, &w, NULL, y,
                                                            stride, dilation, padding, padding);
  if (s) return NULL;
  dnnl_primitive_attr_create(&attr);
  dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
  if (result != DDP_CONV_SMALL) dnnl_primitive_desc_create(&hint, &forward, NULL, engine, NULL);
  if (result == DDP_CONV_SMALL || hint)
    dnnl_primitive_desc_create(&made, &what, attr, engine, hint);
  if (hint) dnnl_primitive_desc_destroy(hint);
  dnnl_primitive_attr_destroy(attr);
  return made;
}

/* Where there is nothing better, oneDNN takes loops that are slower than columns and products. */
static __attribute__((unused)) bool ddp_conv_is_slow(dnnl_primitive_desc_t d) {
  const char *name = "";
  dnnl_primitive_desc_query(d, dnnl_query_impl_info_str, 0, &name);
  return !strncmp(name, "ref", 3);
}

/* Winograd's minimal filtering: less than half of the multiplications of a 3x3 filter, with rounding
   errors of the size that other orders of summation have too (about 1e-6 of the result). */
DDP_INLINE bool ddp_conv_winograd(const DdpConv *c) {
  bool fits = c->space == 2 && c->groups == 1 && c->big % 16 == 0 && c->small % 16 == 0;
  for (int i = 0; i < 2; i++)
    fits = fits && c->kernel[i] == 3 && c->stride[i] == 1 && c->dilation[i] == 1 &&
           c->padding[i] <= 1 && c->small_size[i] >= 4;
  return fits;
}

/* The first that there is: Winograd, the layouts at hand, layouts of oneDNN's choice. */
static __attribute__((unused)) dnnl_primitive_desc_t ddp_conv_choose(const DdpConv *c,
                                                                     DdpConvResult result,
                                                                     const dnnl_memory_desc_t *user,
                                                                     dnnl_engine_t engine) {
  dnnl_memory_desc_t any[3] = {ddp_conv_any(&user[0]), ddp_conv_any(&user[1]), user[2]};
  dnnl_primitive_desc_t d = NULL;
  if (ddp_conv_winograd(c))
    d = ddp_conv_describe(c, result, dnnl_convolution_winograd, any, engine);
  for (int i = 0; i < 2 && !d; i++) {
    d = ddp_conv_describe(c, result, dnnl_convolution_direct, i ? any : user, engine);
    if (d && ddp_conv_is_slow(d)) {
      dnnl_primitive_desc_destroy(d);
      d = NULL;
    }
  }
  return d;
}

static __attribute__((unused)) bool ddp_conv_part(DdpConvMade *m, int number, bool written,
                                                  const dnnl_memory_desc_t *user,
                                                  const dnnl_memory_desc_t *own,
                                                  dnnl_engine_t engine) {
  DdpConvPart *p = &m->part[number];
  p->bytes = dnnl_memory_desc_get_size(user);
  if (dnnl_memory_create(&p->user, user, engine, DNNL_MEMORY_NONE)) return false;
  if (dnnl_memory_desc_equal(user, own)) return true;
  if (dnnl_memory_create(&p->own, own, engine, DNNL_MEMORY_NONE)) return false;
  p->at = m->bytes;
  m->bytes += (dnnl_memory_desc_get_size(own) + 4095) / 4096 * 4096;
  dnnl_primitive_desc_t d = NULL;
  dnnl_reorder_primitive_desc_create(&d, written ? own : user, engine, written ? user : own, engine,
                                     NULL);
  if (!d) return false;
  dnnl_primitive_create(&p->reorder, d);
  dnnl_primitive_desc_destroy(d);
  return p->reorder != NULL;
}

static __attribute__((unused)) bool ddp_conv_make(DdpConvMade *m, dnnl_engine_t engine) {
  const DdpConv *c = &m->shape;
  static const dnnl_query_t query[3][3] = {
      {dnnl_query_src_md, dnnl_query_dst_md, dnnl_query_weights_md},
      {dnnl_query_diff_src_md, dnnl_query_diff_dst_md, dnnl_query_weights_md},
      {dnnl_query_src_md, dnnl_query_diff_dst_md, dnnl_query_diff_weights_md}};
  static const int written[] = {1, 0, 2};
  const dnnl_memory_desc_t user[3] = {
      ddp_conv_side(m->batch, c->big, c->big_block, c->big_size, c->space),
      ddp_conv_side(m->batch, c->small, c->small_block, c->small_size, c->space),
      ddp_conv_filter(c)};
  if (!user[0].ndims || !user[1].ndims || !user[2].ndims) return false;
  dnnl_primitive_desc_t d = ddp_conv_choose(c, m->result, user, engine);
  if (!d) return false;
  bool good = true;
  for (int i = 0; i < 3 && good; i++)
    good = ddp_conv_part(m, i, i == written[m->result], &user[i],
                         dnnl_primitive_desc_query_md(d, query[m->result][i], 0), engine);
  const dnnl_memory_desc_t *pad = dnnl_primitive_desc_query_md(d, dnnl_query_scratchpad_md, 0);
  good = good && !dnnl_memory_create(&m->scratchpad, pad, engine, DNNL_MEMORY_NONE);
  m->scratchpad_at = m->bytes;
  m->bytes += (dnnl_memory_desc_get_size(pad) + 4095) / 4096 * 4096;
  m->sum_at = m->bytes;
  dnnl_primitive_t primitive = NULL;
  if (good) dnnl_primitive_create(&primitive, d);
  dnnl_primitive_desc_destroy(d);
  m->primitive = primitive;
  return primitive != NULL;
}

/* What was made for this call before, or is made now. */
static __attribute__((unused)) DdpConvMade *ddp_conv_find(const DdpConv *c, DdpConvResult result,
                                                          int64_t batch, dnnl_engine_t engine) {
  enum { SLOTS = 64 };
  static DdpConvMade *slot[SLOTS];
  uint64_t hash = (uint64_t)(batch * 3 + (int64_t)result);
  for (size_t i = 0; i < sizeof *c / sizeof(int64_t); i++) {
    int64_t word;
    memcpy(&word, (const char *)c + i * sizeof word, sizeof word);
    hash = hash * 0x9E3779B97F4A7C15u + (uint64_t)word;
  }
  DdpConvMade **at = &slot[hash >> 58];
  for (DdpConvMade *m = *at; m; m = m->next)
    if (m->batch == batch && m->result == result && !memcmp(&m->shape, c, sizeof *c)) return m;
  DdpConvMade *m = calloc(1, sizeof *m);
  if (!m) abort();
  m->next = *at;
  *at = m;
  m->shape = *c;
  m->result = result;
  m->batch = batch;
  ddp_conv_make(m, engine);
  return m;
}

static __attribute__((unused)) bool ddp_conv_execute(const DdpConvMade *m, dnnl_stream_t stream,
                                                     float *const *user, bool accumulate) {
  static const int arg[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS},
                                {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS},
                                {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}};
  static const int written[] = {1, 0, 2};
  const int y = written[m->result];
  char *scratch = (char *)ddp_conv_scratch(m->bytes + (accumulate ? m->part[y].bytes : 0));
  float *sum = (float *)(scratch + m->sum_at);
  dnnl_exec_arg_t args[4] = {[3] = {DNNL_ARG_SCRATCHPAD, m->scratchpad}};
  dnnl_memory_set_data_handle(m->scratchpad, scratch + m->scratchpad_at);
  for (int i = 0; i < 3; i++) {
    const DdpConvPart *p = &m->part[i];
    dnnl_memory_set_data_handle(p->user, i == y && accumulate ? sum : user[i]);
    if (p->own) dnnl_memory_set_data_handle(p->own, scratch + p->at);
    args[i] = (dnnl_exec_arg_t){arg[m->result][i], p->own ? p->own : p->user};
    if (!p->own || i == y) continue;
    const dnnl_exec_arg_t copy[2] = {{DNNL_ARG_FROM, p->user}, {DNNL_ARG_TO, p->own}};
    if (dnnl_primitive_execute(p->reorder, stream, 2, copy)) return false;
  }
  if (dnnl_primitive_execute(m->primitive, stream, 4, args)) return false;
  const DdpConvPart *p = &m->part[y];
  if (p->own) {
    const dnnl_exec_arg_t copy[2] = {{DNNL_ARG_FROM, p->own}, {DNNL_ARG_TO, p->user}};
    if (dnnl_primitive_execute(p->reorder, stream, 2, copy)) return false;
  }
  float *to = user[y];
  for (size_t i = 0; accumulate && i < p->bytes / sizeof *sum; i++) to[i] += sum[i];
  return true;
}

static __attribute__((unused)) bool ddp_conv_dnnl(const DdpConv *c, DdpConvResult result,
                                                  int64_t batch, float *const *user,
                                                  bool accumulate) {
  static dnnl_engine_t engine;
  static dnnl_stream_t stream;
  if (!engine && dnnl_engine_create(&engine, dnnl_cpu, 0)) return false;
  if (!stream && dnnl_stream_create(&stream, engine, dnnl_stream_default_flags)) return false;
  const DdpConvMade *m = ddp_conv_find(c, result, batch, engine);
  return m->primitive && ddp_conv_execute(m, stream, user, accumulate);
}
#else
DDP_INLINE bool ddp_conv_dnnl(const DdpConv *c, DdpConvResult result, int64_t batch,
                              float *const *user, bool accumulate) {
  (void)c, (void)result, (void)batch, (void)user, (void)accumulate;
  return false;
}
#endif

/* The operand that `result` names is written, or added to; the others are read. */
static __attribute__((unused, noinline)) void ddp_conv(const DdpConv *c, DdpConvResult result,
                                                       int64_t batch, const float *big,
                                                       const float *small, const float *filter,
                                                       bool accumulate) {
  float *user[3] = {(float *)(uintptr_t)big, (float *)(uintptr_t)small, (float *)(uintptr_t)filter};
  if (ddp_conv_dnnl(c, result, batch, user, accumulate)) return;
  ddp_conv_plain(c, result, batch, user[0], user[1], user[2], accumulate);
}
#endif
