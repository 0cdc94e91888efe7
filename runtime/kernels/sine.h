/* sin and cos in f32, after ddp_fmaf and ddp_fma of the processor's math.h. Meant for |x| < 2^40 (2^20 without
   fused multiply-add); beyond 1e15 they give 0. CUDA's own keep a table in local memory for large arguments.
   Coefficients: tools/fit_math.py. */
#ifndef DDP_KERNELS_SINE_H
#define DDP_KERNELS_SINE_H

/* sin(x + quarter pi/2): reduced in double, so that large arguments keep their digits */
DDP_INLINE float ddp_sincosf(float x, uint64_t quarter) {
  const double d = x, magic = 6755399441055744.0; /* 1.5 * 2^52 */
  const double t = ddp_fma(d, 0.63661977236758138, magic);
  const double n = t - magic;
  double rest = ddp_fma(n, -1.57079632673412561417, d); /* 33 bits of pi/2 */
  rest = ddp_fma(n, -6.07710050650619224932e-11, rest);
  uint64_t k;
  memcpy(&k, &t, sizeof k);
  k += quarter;
  const float r = (float)rest, z = r * r;
  float s = -1.9518072e-4f;
  s = ddp_fmaf(s, z, 8.332188e-3f);
  s = ddp_fmaf(s, z, -1.6666655e-1f);
  s = ddp_fmaf(s * z, r, r);
  float c = 2.4432338e-5f;
  c = ddp_fmaf(c, z, -1.388731e-3f);
  c = ddp_fmaf(c, z, 4.1666646e-2f);
  c = ddp_fmaf(c * z, z, ddp_fmaf(z, -0.5f, 1.0f));
  const float y = (k & 1) != 0 ? c : s;
  const float signed_y = (k & 2) != 0 ? -y : y;
  return fabsf(x) < 1e15f ? signed_y : x - x; /* inf and nan give nan */
}
DDP_INLINE float ddp_sinf(float x) {
  return x == 0.0f ? x : ddp_sincosf(x, 0);
}
DDP_INLINE float ddp_cosf(float x) {
  return ddp_sincosf(x, 1);
}

#endif
