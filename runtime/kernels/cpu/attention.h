/* softmax(scale q k^T + mask) v and its gradient, in blocks of rows: the scores of a block stay in the cache
   and are never stored for the batch; backward computes them again from the logsumexp of each row. Heads are
   done one after another and sums run in a fixed order: the same bits whatever else runs.
   A row in which nothing may be seen gives zeros, and no gradient flows through it. */
#ifndef DDP_KERNELS_CPU_ATTENTION_H
#define DDP_KERNELS_CPU_ATTENTION_H
#include "../shapes.h"
#include "tile.h"
#include <stdio.h>
#include <stdlib.h>

enum { DDP_ROWS = 32, DDP_COLUMNS = 256 };

DDP_INLINE const float *ddp_attention_at(DdpHeads x, int64_t b, int64_t t, int64_t h) {
  return (const float *)x.at + b * x.batch + t * x.time + h * x.head;
}

/* Room for blocks: grows at the first calls, then stays. One thread calls kernels. */
static __attribute__((unused, noinline)) float *ddp_attention_room(int64_t floats) {
  static float *room;
  static int64_t size;
  if (floats > size) {
    free(room);
    size = (floats + 15) / 16 * 16;
    room = aligned_alloc(64, (size_t)size * sizeof *room);
    if (!room) {
      fprintf(stderr, "no memory for %lld bytes of attention\n", (long long)size * 4);
      abort();
    }
  }
  return room;
}

/* One row of scores: scaled, masked; columns j0 + n .. j0 + padded are not seen. Returns the largest.
   Loops run over whole vectors, whatever is seen. */
DDP_INLINE float ddp_attention_scores(const DdpAttention *a, int64_t b, int64_t h, int64_t i,
                                      int64_t j0, int64_t n, float *restrict x) {
  const float scale = a->scale;
  const int64_t vectors = (n + 15) / 16 * 16, here = i + 1 - j0;
  const int32_t seen = (int32_t)(a->causal && here < n ? here : n);
  if (a->mask) {
    const int64_t *s = a->mask_step, at = b * s[0] + h * s[1] + i * s[2] + j0 * s[3], step = s[3];
    if (a->mask_added) { /* scaled first */
      const float *m = (const float *)a->mask + at;
      for (int64_t j = 0; j < n; j++) x[j] = x[j] * scale + m[j * step];
    } else {
      const unsigned char *m = (const unsigned char *)a->mask + at;
      for (int64_t j = 0; j < n; j++) x[j] = m[j * step] ? x[j] * scale : -INFINITY;
    }
  }
  const float factor = a->mask ? 1.0f : scale;
  float most = -INFINITY;
#pragma omp simd reduction(max : most) simdlen(16)
  for (int32_t j = 0; j < (int32_t)vectors; j++) {
    const float y = j < seen ? x[j] * factor : -INFINITY;
    x[j] = y;
    most = y > most ? y : most;
  }
  return most;
}

/* What weights j0 .. j0 + n of a row are multiplied with: the draws of dropout(softmax). */
DDP_INLINE void ddp_attention_drop(const DdpAttention *a, DdpRow row, int64_t h, int64_t i,
                                   int64_t j0, int64_t n, float *restrict x) {
  const uint32_t first = (uint32_t)((h * a->t + i) * a->s + j0);
  const float keep = a->keep, factor = 1.0f / keep;
  for (int64_t j = 0; j < n; j++) x[j] *= ddp_bernoulli(row, first + (uint32_t)j, keep) * factor;
}

DDP_INLINE int64_t ddp_attention_seen(const DdpAttention *a, int64_t last_row) {
  return a->causal && last_row < a->s ? last_row : a->s;
}

/* One block of rows of one head. kt, v: packed. */
static __attribute__((unused, noinline)) void
ddp_attention_rows(const DdpAttention *a, int64_t b, int64_t h, int64_t i0, int64_t m,
                   const float *kt, const float *v, float *p, float *o, float *y, float *lse) {
  const int64_t vp = ddp_padded(a->v), end = ddp_attention_seen(a, i0 + m);
  const float *q = ddp_attention_at(a->q, b, i0, h);
  float most[DDP_ROWS], sum[DDP_ROWS], here[DDP_ROWS];
  DdpRow row = {0, 0};
  if (a->keep < 1) row = ddp_row(a->draw, a->draw.sample[b]);
  for (int64_t i = 0; i < m; i++) {
    most[i] = -INFINITY;
    sum[i] = 0;
  }
  for (int64_t j0 = 0; j0 < end; j0 += DDP_COLUMNS) {
    const int64_t n = end - j0 < DDP_COLUMNS ? end - j0 : DDP_COLUMNS, np = (n + 15) / 16 * 16;
    ddp_product_packed(m, n, a->k, q, a->q.time, 1, kt + j0 * a->k, a->k, p, DDP_COLUMNS, false);
    /* Loops apart: each ends a row with a chain of dependent operations, and the next row's may begin. */
    for (int64_t i = 0; i < m; i++)
      here[i] = ddp_attention_scores(a, b, h, i0 + i, j0, n, p + i * DDP_COLUMNS);
    for (int64_t i = 0; i < m; i++) {
      float *x = p + i * DDP_COLUMNS, s = 0;
      const float above = here[i] > most[i] ? here[i] : most[i];
      const float shift = above == -INFINITY ? 0.0f : above;
#pragma omp simd reduction(+ : s) simdlen(16)
      for (int64_t j = 0; j < np; j++) {
        x[j] = ddp_expf(x[j] - shift);
        s += x[j];
      }
      if (j0) { /* what stands there was scaled with another maximum */
        const float f = ddp_expf(most[i] - shift);
        for (int64_t c = 0; c < vp; c++) o[i * vp + c] *= f;
        sum[i] *= f;
      }
      sum[i] += s;
      most[i] = above;
      if (a->keep < 1) ddp_attention_drop(a, row, h, i0 + i, j0, n, x);
    }
    ddp_product_packed(m, a->v, n, p, DDP_COLUMNS, 1, v + j0 * DDP_PANEL, a->s, o, vp, j0 > 0);
  }
  for (int64_t i = 0; i < m; i++) {
    here[i] = sum[i] == 0 ? 0.0f : most[i] + ddp_logf(sum[i]);
    sum[i] = sum[i] == 0 ? 0.0f : 1.0f / sum[i];
  }
  if (lse) memcpy(lse + (b * a->heads + h) * a->t + i0, here, sizeof *lse * (size_t)m);
  for (int64_t i = 0; i < m; i++) {
    const float f = sum[i];
    float *to = y + ((b * a->t + i0 + i) * a->heads + h) * a->v;
    for (int64_t c = 0; c < a->v; c++) to[c] = f == 0 ? 0.0f : o[i * vp + c] * f;
  }
}

/* y: [batch, t, heads, v]. lse: [batch, heads, t], or NULL. */
static __attribute__((unused, noinline)) void ddp_attention(const DdpAttention *a, float *y,
                                                            float *lse) {
  const int64_t kt_size = ddp_packed(a->k, a->s), v_size = ddp_packed(a->s, a->v);
  float *kt = ddp_attention_room(kt_size + v_size + DDP_ROWS * (DDP_COLUMNS + ddp_padded(a->v)));
  float *v = kt + kt_size, *p = v + v_size, *o = p + DDP_ROWS * DDP_COLUMNS;
  const int64_t share = a->heads / a->groups;
  for (int64_t b = 0; b < a->batch; b++)
    for (int64_t g = 0; g < a->groups; g++) {
      ddp_pack(a->k, a->s, ddp_attention_at(a->key, b, 0, g), 1, a->key.time, kt);
      ddp_pack(a->s, a->v, ddp_attention_at(a->value, b, 0, g), a->value.time, 1, v);
      for (int64_t h = g * share; h < (g + 1) * share; h++)
        for (int64_t i = 0; i < a->t; i += DDP_ROWS)
          ddp_attention_rows(a, b, h, i, a->t - i < DDP_ROWS ? a->t - i : DDP_ROWS, kt, v, p, o, y,
                             lse);
    }
}

/* ---------- gradient ---------- */

typedef struct DdpAttentionBack { /* blocks in the cache */
  float *kt, *k, *vt;             /* packed, of one head of k and v */
  float *dk, *dv;                 /* [s, padded width] */
  float *q, *g;                   /* packed, of one block of rows */
  float *p, *ds, *dq;
} DdpAttentionBack;

DDP_INLINE DdpAttentionBack ddp_attention_back_room(const DdpAttention *a) {
  const int64_t kp = ddp_padded(a->k), vp = ddp_padded(a->v);
  const int64_t size[] = {ddp_packed(a->k, a->s),
                          ddp_packed(a->s, a->k),
                          ddp_packed(a->v, a->s),
                          a->s * kp,
                          a->s * vp,
                          ddp_packed(DDP_ROWS, a->k),
                          ddp_packed(DDP_ROWS, a->v),
                          DDP_ROWS * DDP_COLUMNS,
                          DDP_ROWS * DDP_COLUMNS,
                          DDP_ROWS * kp};
  int64_t all = 0;
  for (int i = 0; i < 10; i++) all += size[i];
  float *at = ddp_attention_room(all), *part[10];
  for (int i = 0; i < 10; at += size[i++]) part[i] = at;
  return (DdpAttentionBack){part[0], part[1], part[2], part[3], part[4],
                            part[5], part[6], part[7], part[8], part[9]};
}

/* Weights and the gradients of the scores of one row; x: scores, becomes weights; d: gradient of the
   weights after dropout, becomes that of the scores. */
DDP_INLINE void ddp_attention_row_back(const DdpAttention *a, int64_t b, int64_t h, int64_t i,
                                       int64_t j0, int64_t n, float lse, float delta,
                                       float *restrict x, float *restrict d) {
  const int64_t np = (n + 15) / 16 * 16;
  ddp_attention_scores(a, b, h, i, j0, n, x);
  if (a->keep < 1) {
    const DdpRow row = ddp_row(a->draw, a->draw.sample[b]);
    const uint32_t first = (uint32_t)((h * a->t + i) * a->s + j0);
    const float keep = a->keep, factor = 1.0f / keep;
    for (int64_t j = 0; j < np; j++) {
      const float w = ddp_expf(x[j] - lse);
      const float f = ddp_bernoulli(row, first + (uint32_t)j, keep) * factor;
      d[j] = w * (d[j] * f - delta) * a->scale;
      x[j] = w * f;
    }
    return;
  }
  for (int64_t j = 0; j < np; j++) {
    x[j] = ddp_expf(x[j] - lse);
    d[j] = x[j] * (d[j] - delta) * a->scale;
  }
}

static __attribute__((unused, noinline)) void
ddp_attention_rows_back(const DdpAttention *a, DdpAttentionBack w, int64_t b, int64_t h, int64_t i0,
                        int64_t m, DdpHeads g, DdpHeads y, const float *lse, float *dq) {
  const int64_t kp = ddp_padded(a->k), vp = ddp_padded(a->v);
  const int64_t end = ddp_attention_seen(a, i0 + m);
  const float *q = ddp_attention_at(a->q, b, i0, h);
  const float *gi = ddp_attention_at(g, b, i0, h), *yi = ddp_attention_at(y, b, i0, h);
  float delta[DDP_ROWS];
  ddp_pack(m, a->k, q, a->q.time, 1, w.q);
  ddp_pack(m, a->v, gi, g.time, 1, w.g);
  for (int64_t i = 0; i < m; i++) {
    float s = 0;
#pragma omp simd reduction(+ : s) simdlen(16)
    for (int64_t c = 0; c < a->v; c++) s += gi[i * g.time + c] * yi[i * y.time + c];
    delta[i] = s;
  }
  lse += (b * a->heads + h) * a->t + i0;
  for (int64_t j0 = 0; j0 < end; j0 += DDP_COLUMNS) {
    const int64_t n = end - j0 < DDP_COLUMNS ? end - j0 : DDP_COLUMNS;
    ddp_product_packed(m, n, a->k, q, a->q.time, 1, w.kt + j0 * a->k, a->k, w.p, DDP_COLUMNS,
                       false);
    ddp_product_packed(m, n, a->v, gi, g.time, 1, w.vt + j0 * a->v, a->v, w.ds, DDP_COLUMNS, false);
    for (int64_t i = 0; i < m; i++)
      ddp_attention_row_back(a, b, h, i0 + i, j0, n, lse[i], delta[i], w.p + i * DDP_COLUMNS,
                             w.ds + i * DDP_COLUMNS);
    ddp_product_packed(n, a->v, m, w.p, 1, DDP_COLUMNS, w.g, m, w.dv + j0 * vp, vp, true);
    ddp_product_packed(n, a->k, m, w.ds, 1, DDP_COLUMNS, w.q, m, w.dk + j0 * kp, kp, true);
    ddp_product_packed(m, a->k, n, w.ds, DDP_COLUMNS, 1, w.k + j0 * DDP_PANEL, a->s, w.dq, kp,
                       j0 > 0);
  }
  for (int64_t i = 0; i < m; i++)
    memcpy(dq + ((b * a->t + i0 + i) * a->heads + h) * a->k, w.dq + i * kp,
           sizeof *dq * (size_t)a->k);
}

/* g, y: gradient and value of the result; lse as ddp_attention left it. dq: [batch, t, heads, k], dk:
   [batch, s, groups, k], dv: [batch, s, groups, v]; NULL: nobody reads it. */
static __attribute__((unused, noinline)) void ddp_attention_grad(const DdpAttention *a, DdpHeads g,
                                                                 DdpHeads y, const float *lse,
                                                                 float *dq, float *dk, float *dv) {
  const int64_t kp = ddp_padded(a->k), vp = ddp_padded(a->v), share = a->heads / a->groups;
  const DdpAttentionBack w = ddp_attention_back_room(a);
  for (int64_t b = 0; b < a->batch; b++)
    for (int64_t r = 0; r < a->groups; r++) {
      const float *key = ddp_attention_at(a->key, b, 0, r);
      ddp_pack(a->k, a->s, key, 1, a->key.time, w.kt);
      ddp_pack(a->s, a->k, key, a->key.time, 1, w.k);
      ddp_pack(a->v, a->s, ddp_attention_at(a->value, b, 0, r), 1, a->value.time, w.vt);
      memset(w.dk, 0, sizeof *w.dk * (size_t)(a->s * kp));
      memset(w.dv, 0, sizeof *w.dv * (size_t)(a->s * vp));
      for (int64_t h = r * share; h < (r + 1) * share; h++)
        for (int64_t i = 0; i < a->t; i += DDP_ROWS)
          ddp_attention_rows_back(a, w, b, h, i, a->t - i < DDP_ROWS ? a->t - i : DDP_ROWS, g, y,
                                  lse, dq);
      for (int64_t j = 0; j < a->s; j++) {
        const int64_t at = (b * a->s + j) * a->groups + r;
        if (dk) memcpy(dk + at * a->k, w.dk + j * kp, sizeof *dk * (size_t)a->k);
        if (dv) memcpy(dv + at * a->v, w.dv + j * vp, sizeof *dv * (size_t)a->v);
      }
    }
}

#endif
