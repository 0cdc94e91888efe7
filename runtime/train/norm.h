/* Norm and scaling of gradients as torch.nn.utils.clip_grad_norm_ computes them, bit for bit. */
#ifndef DDP_TRAIN_NORM_H
#define DDP_TRAIN_NORM_H
#include <stdint.h>

/* Euclidean norm: 8 lanes of floats, multiply and add rounded apart, lanes added in order; what is left
   below 8: groups of 4 rounded apart, the rest fused. */
float ddp_norm(const float *x, int64_t n);
/* min(1, max_norm / (norm + 1e-6)). */
float ddp_norm_coefficient(float norm, double max_norm);
void ddp_norm_scale(float *x, int64_t n, float factor);
#endif
