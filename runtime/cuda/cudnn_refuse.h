/* Shapes for which versions of cuDNN are not trusted. */
#ifndef DDP_CUDA_CUDNN_REFUSE_H
#define DDP_CUDA_CUDNN_REFUSE_H
#include "ddp/cudnn.h"

/* NULL: nothing is known against it; else why not, in one line. version: 91900 for 9.19.0; sm: 90. */
const char *cudnn_refuses(size_t version, int sm);
const char *cudnn_refuses_attention(const DdpCudnnAttention *a, size_t version, int sm);
#endif
