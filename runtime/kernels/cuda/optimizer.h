/* Hand-written optimizer steps over a range of the arenas, with the arithmetic of kernels/cpu/optimizer.h (and
   PyTorch's) but for the last n % 8 elements of a tensor, which round the second moment in another order
   there. Learning rates, the number of the step and the factor of clipping are read in device memory: a
   captured step is replayed with others. So is whether anything may change at all (DdpRates.hold). lr, weight_decay: a number that the job fixes, or NaN: that of the
   element's group. */
#ifndef DDP_KERNELS_CUDA_OPTIMIZER_H
#define DDP_KERNELS_CUDA_OPTIMIZER_H
#include "quad.h"
#include "../scratch.h"

/* What kernels read of a segment; a launch copies it. */
typedef struct DdpRangeStep {
  float *p;
  const float *g;
  float *state[2];
  int64_t n;
  const DdpRates *rates;
  const uint16_t *groups; /* NULL: all elements are of `group` */
  int32_t group;
  double lr, weight_decay;
} DdpRangeStep;

static inline DdpRangeStep ddp_range_step(const DdpSegment *s, double lr, double weight_decay) {
  const DdpRangeStep r = {s->p,     s->g,     {s->state[0], s->state[1]},
                          s->n,     s->rates, s->groups,
                          s->group, lr,       weight_decay};
  return r;
}

/* Of elements i .. i + 3: groups change at multiples of DDP_GROUP_ELEMENTS. */
DDP_DEVICE DdpRate ddp_rate_of(const DdpRangeStep &s, int64_t i) {
  DdpRate r = s.rates->rate[s.groups ? s.groups[i / DDP_GROUP_ELEMENTS] : s.group];
  if (!isnan(s.lr)) r.lr = s.lr;
  if (!isnan(s.weight_decay)) r.weight_decay = s.weight_decay;
  return r;
}

/* ---------- adamw ---------- */

typedef struct DdpAdamwBias { /* corrections of this step */
  double first;               /* 1 - beta1^step */
  float root;                 /* sqrt(1 - beta2^step) */
} DdpAdamwBias;
static_assert(ddp_adamw_scratch == sizeof(DdpAdamwBias));

typedef struct DdpAdamwNumbers {
  float lerp, b2, w2, eps;
  bool near; /* PyTorch's lerp: from m towards g where 1 - beta1 < 1/2, else back from g */
} DdpAdamwNumbers;

static __global__ void __launch_bounds__(32)
    ddp_adamw_bias(DdpAdamwBias *bias, const DdpRates *rates, double beta1, double beta2) {
  if (threadIdx.x > 0) return;
  const double t = static_cast<double>(rates->step);
  bias->first = 1 - pow(beta1, t);
  bias->root = static_cast<float>(sqrt(1 - pow(beta2, t)));
}

static __global__ void __launch_bounds__(256)
    ddp_adamw_kernel(const __grid_constant__ DdpRangeStep s,
                     const __grid_constant__ DdpAdamwNumbers a,
                     const DdpAdamwBias *__restrict__ bias) {
  const int64_t i = ddp_quad_here();
  if (i >= s.n || s.rates->hold) return;
  const DdpRate r = ddp_rate_of(s, i);
  const float rate = static_cast<float>(-(r.lr / bias->first)), root = bias->root;
  const float keep = static_cast<float>(1 - r.lr * r.weight_decay), clip = s.rates->clip;
  DdpQuad p = ddp_quad_load(s.p, i, s.n), g = ddp_quad_load(s.g, i, s.n);
  DdpQuad m = ddp_quad_load(s.state[0], i, s.n), v = ddp_quad_load(s.state[1], i, s.n);
  DDP_UNROLL
  for (int k = 0; k < 4; k++) {
    const float grad = g.at[k] * clip, d = grad - m.at[k];
    m.at[k] = fmaf(a.lerp, d, a.near ? m.at[k] : grad);
    v.at[k] = fmaf(a.w2 * grad, grad, v.at[k] * a.b2);
    p.at[k] = p.at[k] * keep + rate * m.at[k] / (sqrtf(v.at[k]) / root + a.eps);
  }
  ddp_quad_store(s.p, i, s.n, p);
  ddp_quad_store(s.state[0], i, s.n, m);
  ddp_quad_store(s.state[1], i, s.n, v);
}

static inline void ddp_adamw(const DdpSegment *s, double lr, double weight_decay, double beta1,
                             double beta2, double eps) {
  if (s->n <= 0) return;
  const float w = static_cast<float>(1 - beta1);
  const bool near = fabsf(w) < 0.5f;
  const DdpAdamwNumbers a = {near ? w : w - 1.0f, static_cast<float>(beta2),
                             static_cast<float>(1 - beta2), static_cast<float>(eps), near};
  DdpAdamwBias *const bias = static_cast<DdpAdamwBias *>(s->scratch);
  DDP_LAUNCH(ddp_adamw_bias, 1, 32, 0, s->stream, bias, s->rates, beta1, beta2);
  DDP_LAUNCH(ddp_adamw_kernel, ddp_quad_blocks(s->n), 256, 0, s->stream,
             ddp_range_step(s, lr, weight_decay), a, bias);
}

/* ---------- sgd ---------- */

typedef struct DdpSgdNumbers {
  float momentum, in; /* in: 1 - dampening */
  bool nesterov;
} DdpSgdNumbers;

static __global__ void __launch_bounds__(256)
    ddp_sgd_kernel(const __grid_constant__ DdpRangeStep s,
                   const __grid_constant__ DdpSgdNumbers a) {
  const int64_t i = ddp_quad_here();
  if (i >= s.n || s.rates->hold) return;
  const DdpRate r = ddp_rate_of(s, i);
  const float rate = static_cast<float>(-r.lr), decay = static_cast<float>(r.weight_decay);
  const float clip = s.rates->clip;
  const bool keeps = a.momentum != 0.0f, first = s.rates->step == 1;
  DdpQuad p = ddp_quad_load(s.p, i, s.n), g = ddp_quad_load(s.g, i, s.n), b = {{0, 0, 0, 0}};
  if (keeps && !first) b = ddp_quad_load(s.state[0], i, s.n);
  DDP_UNROLL
  for (int k = 0; k < 4; k++) {
    const float grad = g.at[k] * clip;
    const float d = r.weight_decay != 0 ? fmaf(p.at[k], decay, grad) : grad;
    b.at[k] = first ? d : fmaf(d, a.in, b.at[k] * a.momentum);
    const float by = !keeps ? d : a.nesterov ? fmaf(b.at[k], a.momentum, d) : b.at[k];
    p.at[k] = fmaf(by, rate, p.at[k]);
  }
  ddp_quad_store(s.p, i, s.n, p);
  if (keeps) ddp_quad_store(s.state[0], i, s.n, b);
}

static inline void ddp_sgd(const DdpSegment *s, double lr, double weight_decay, double momentum,
                           double dampening, int nesterov) {
  if (s->n <= 0) return;
  const DdpSgdNumbers a = {static_cast<float>(momentum), static_cast<float>(1 - dampening),
                           nesterov != 0};
  DDP_LAUNCH(ddp_sgd_kernel, ddp_quad_blocks(s->n), 256, 0, s->stream,
             ddp_range_step(s, lr, weight_decay), a);
}

#endif
