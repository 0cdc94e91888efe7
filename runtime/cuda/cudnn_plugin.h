/* libddp_cudnn.so: graphs of cuDNN behind a C interface, so that only one file knows cudnn_frontend (C++, 20 s to
   compile) and a program without it runs. */
#ifndef DDP_CUDA_CUDNN_PLUGIN_H
#define DDP_CUDA_CUDNN_PLUGIN_H
#include "ddp/cudnn.h"

#define DDP_CUDNN_ABI 1

typedef struct DdpCudnnGraph DdpCudnnGraph; /* one plan, for one shape */

/* Where a function fails, `why` gets one line. */
typedef struct DdpCudnnPlugin {
  int abi;
  /* Opens this file of cuDNN, once. 0: done, and *version is 91900 for 9.19.0. */
  int (*open)(const char *file, size_t *version, char *why, size_t size);
  /* NULL: there is no engine for it. device: NULL for the one that is chosen, else a description (JSON, as
     cuDNN writes it): no GPU is needed, and the graph cannot be run. *planned: there is an engine, whatever comes
     after that (a described device may end where the driver would load code). */
  DdpCudnnGraph *(*attention)(const DdpCudnnAttention *shape, const char *device, bool *planned,
                              char *why, size_t size);
  DdpCudnnGraph *(*conv)(const DdpCudnnConv *shape, const char *device, bool *planned, char *why,
                         size_t size);
  int64_t (*workspace)(const DdpCudnnGraph *g); /* bytes */
  const char *(*name)(const DdpCudnnGraph *g);  /* of the engine */
  int (*run)(const DdpCudnnGraph *g, void *const *operands, int n, void *workspace, void *stream,
             char *why, size_t size); /* 0: enqueued */
  void (*free)(DdpCudnnGraph *g);
} DdpCudnnPlugin;

/* The only symbol that is looked up, by this name. */
#define DDP_CUDNN_SYMBOL "ddp_cudnn_plugin"
#ifdef __cplusplus
extern "C"
#else
extern
#endif
    const DdpCudnnPlugin ddp_cudnn_plugin;
#endif
