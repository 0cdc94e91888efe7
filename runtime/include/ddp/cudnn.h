/* What kernels/cuda/attention.h and conv.h ask of cuDNN, through libddp_cuda.a. It is opened at the first call;
   where it is not to be had, or is not trusted with a shape (runtime/cuda/cudnn_refuse.c), kernels of
   kernels/cuda do the work: the numbers are the same within rounding, and what one has written the
   other reads. */
#ifndef DDP_CUDNN_H
#define DDP_CUDNN_H
#include "ddp/job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shapes are what a graph of cuDNN is made for; they are compared as bytes, so all members have eight. */
typedef struct
    DdpCudnnHeads { /* steps of [batch, time, heads, width], in elements; that of the width is 1 */
  int64_t batch, time, head;
} DdpCudnnHeads;

typedef enum DdpCudnnOperand { /* of attention; from `gradient` on: of backward only */
                               DDP_CUDNN_q,
                               DDP_CUDNN_key,
                               DDP_CUDNN_value,
                               DDP_CUDNN_y,
                               DDP_CUDNN_lse, /* f32 [batch, heads, t] */
                               DDP_CUDNN_gradient,
                               DDP_CUDNN_dq,
                               DDP_CUDNN_dk,
                               DDP_CUDNN_dv,
                               DDP_CUDNN_OPERANDS
} DdpCudnnOperand;

typedef struct DdpCudnnAttention { /* without masks and dropout */
  int64_t type;                    /* DDP_bf16 or DDP_f16 */
  int64_t causal, backward;
  int64_t keep_lse; /* forward: it is written */
  double scale;
  int64_t batch, heads, groups, t, s, k, v;
  DdpCudnnHeads q, key, value, y, gradient; /* dq, dk and dv are dense */
} DdpCudnnAttention;

typedef struct DdpCudnnConv { /* channels last, sides and filter [small, kernel.., big / groups] */
  int64_t type,
      filter_type; /* of the sides and a filter that is read; of a filter that is written */
  int64_t result;  /* DdpConvResult */
  int64_t tf32;    /* f32 may be multiplied with 10 bits */
  int64_t batch, space, groups, big, small;
  int64_t big_size[3], small_size[3], kernel[3], stride[3], padding[3], dilation[3];
} DdpCudnnConv;

/* true: enqueued on step->stream (or an error is kept for DdpDevice.failure, and nothing more is to be done).
   false: nothing is enqueued. */
bool ddp_cudnn_attention(const DdpStep *step, const DdpCudnnAttention *shape,
                         void *const operands[DDP_CUDNN_OPERANDS]);
/* operands: big side, small side, filter. */
bool ddp_cudnn_conv(const DdpStep *step, const DdpCudnnConv *shape, void *const operands[3]);
/* Whether ddp_cudnn_conv will return true: what is read must be laid out for it first. */
bool ddp_cudnn_takes_conv(const DdpCudnnConv *shape);

#ifdef __cplusplus
}
#endif
#endif
