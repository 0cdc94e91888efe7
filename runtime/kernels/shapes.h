/* Shapes of the library ops that are kernels of their own: what the emitter prints for a call, read by the
   kernels of the CPU and of devices. */
#ifndef DDP_KERNELS_SHAPES_H
#define DDP_KERNELS_SHAPES_H
#include "random.h"
#include "ddp/defaults.h"

/* ---------- convolution ---------- */

typedef struct DdpConv {
  int64_t space; /* dimensions, 1 to 3; no padding in the struct: it is compared as bytes */
  int64_t groups;
  int64_t big, small; /* channels */
  int64_t big_block, small_block;
  int64_t big_size[3], small_size[3], kernel[3], stride[3], padding[3], dilation[3];
} DdpConv;

typedef enum DdpConvResult { DDP_CONV_SMALL, DDP_CONV_BIG, DDP_CONV_FILTER } DdpConvResult;

/* ---------- pooling ---------- */

typedef struct DdpPool {
  int64_t space; /* dimensions, 1 to 3 */
  int64_t in[3], out[3], window[3], stride[3], padding[3], dilation[3];
  bool adaptive;
  int divide; /* 0: a sum; 1: by the window with its padding; 2: by what lies in the tensor */
} DdpPool;

typedef struct DdpPoolRange { /* of a window along one dimension */
  int64_t first, n, step, padded;
} DdpPoolRange;

DDP_INLINE DdpPoolRange ddp_pool_range(const DdpPool *p, int64_t i, int64_t o) {
  if (p->adaptive) {
    const int64_t first = o * p->in[i] / p->out[i];
    const int64_t n = ((o + 1) * p->in[i] + p->out[i] - 1) / p->out[i] - first;
    const DdpPoolRange all = {first, n, 1, n};
    return all;
  }
  const int64_t step = p->dilation[i], last = p->in[i] + p->padding[i];
  int64_t first = o * p->stride[i] - p->padding[i];
  const int64_t end = first + step * (p->window[i] - 1) + 1;
  const int64_t padded = (end < last ? end : last) - first;
  while (first < 0) first += step;
  const int64_t stop = end < p->in[i] ? end : p->in[i];
  int64_t n = stop > first ? stop - first : 0;
  if (step > 1) n = (n + step - 1) / step;
  const DdpPoolRange r = {first, n, step, padded};
  return r;
}

/* ---------- attention ---------- */

/* [batch, time, heads, width]: element (b, t, h, w) is at[b * batch + t * time + h * head + w]. */
typedef struct DdpHeads {
  const void *at; /* f32; on devices also 16-bit floats */
  int64_t batch, time, head;
} DdpHeads;

typedef struct DdpAttention {
  int64_t batch, heads, groups; /* a head of k and v serves heads / groups heads of q */
  int64_t t, s, k, v;           /* queries, keys, widths of q and of v */
  float scale;
  bool causal DDP_UNSAID(false);
  DdpHeads q, key, value;
  /* NULL: none. Strides over batch, head, query and key; 0 where it is broadcast */
  const void *mask DDP_UNSAID(NULL);
  int64_t mask_step[4] DDP_UNSAID({});
  bool mask_added DDP_UNSAID(false); /* floats that are added, not bools that say what is seen */
  float keep;                        /* probability of keeping a weight; 1: none is drawn */
  DdpDraw draw DDP_UNSAID({});
} DdpAttention;

#endif
