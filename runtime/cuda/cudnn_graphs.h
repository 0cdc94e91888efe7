/* cuDNN of the process: opened when it is first asked for, closed with the device. */
#ifndef DDP_CUDA_CUDNN_GRAPHS_H
#define DDP_CUDA_CUDNN_GRAPHS_H
#include "cudnn_plugin.h"

/* Another plugin than libddp_cudnn.so from now on, for tests; what was known is forgotten. NULL: none. */
void cudnn_use(const DdpCudnnPlugin *plugin, size_t version);
void cudnn_close(void);
#endif
