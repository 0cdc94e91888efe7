/* Hand-written optimizer steps for one tensor: bit for bit what PyTorch's CPU kernels give for equal
   gradients on a machine with fused multiply-add (sgd: foreach; adamw: fused). n is the whole tensor,
   or a part that starts at a multiple of 8 elements and ends there or at the tensor's end: PyTorch
   rounds the second moment of the last n % 8 elements in another order. step counts from 1. */
#ifndef DDP_KERNELS_CPU_OPTIMIZER_H
#define DDP_KERNELS_CPU_OPTIMIZER_H
#include "math.h"

DDP_INLINE void ddp_adamw(float *restrict p, const float *restrict g, float *restrict m,
                          float *restrict v, int64_t n, double lr, double weight_decay,
                          double beta1, double beta2, double eps, int64_t step) {
  const double t = (double)step;
  const float rate = (float)-(lr / (1 - pow(beta1, t)));
  const float root = (float)sqrt(1 - pow(beta2, t)); /* of the second moment's bias correction */
  const float w = (float)(1 - beta1), w2 = (float)(1 - beta2), b2 = (float)beta2, e = (float)eps;
  const float keep = weight_decay != 0 ? (float)(1 - lr * weight_decay) : 1.0f;
  /* PyTorch's lerp: from m towards g where w < 1/2, else back from g */
  const int near = fabsf(w) < 0.5f;
  const float lerp = near ? w : w - 1.0f;
  const int64_t whole = n - n % 8;
  for (int64_t i = 0; i < whole; i++) {
    const float d = g[i] - m[i];
    m[i] = ddp_fmaf(lerp, d, near ? m[i] : g[i]);
    v[i] = ddp_fmaf(w2 * g[i], g[i], v[i] * b2);
    p[i] = p[i] * keep + rate * m[i] / (sqrtf(v[i]) / root + e);
  }
  for (int64_t i = whole; i < n; i++) {
    const float d = g[i] - m[i];
    m[i] = ddp_fmaf(lerp, d, near ? m[i] : g[i]);
    v[i] = ddp_fmaf(v[i], b2, w2 * g[i] * g[i]);
    p[i] = p[i] * keep + rate * m[i] / (sqrtf(v[i]) / root + e);
  }
}

/* buf: momentum buffer, NULL when momentum is 0. */
DDP_INLINE void ddp_sgd(float *restrict p, const float *restrict g, float *restrict buf, int64_t n,
                        double lr, double weight_decay, double momentum, double dampening,
                        int nesterov, int64_t step) {
  const float rate = (float)-lr, wd = (float)weight_decay, mu = (float)momentum;
  const float in = (float)(1 - dampening);
  if (momentum == 0) {
    for (int64_t i = 0; i < n; i++) {
      const float d = weight_decay != 0 ? ddp_fmaf(p[i], wd, g[i]) : g[i];
      p[i] = ddp_fmaf(d, rate, p[i]);
    }
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    const float d = weight_decay != 0 ? ddp_fmaf(p[i], wd, g[i]) : g[i];
    const float b = step == 1 ? d : ddp_fmaf(d, in, buf[i] * mu);
    buf[i] = b;
    p[i] = ddp_fmaf(nesterov ? ddp_fmaf(b, mu, d) : b, rate, p[i]);
  }
}

#endif
