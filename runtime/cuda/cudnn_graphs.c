/* Attention and convolutions of an emitted program through cuDNN. In: a shape and where operands lie. Out: a graph,
   made at the first call with that shape and kept, enqueued on the stream of the step; or false, and why is
   said once. */
#include "cudnn_graphs.h"
#include "choose.h"
#include "cudnn_refuse.h"
#include "device.h"
#include "failure.h"
#include "library.h"
#include "log.h"
#include "plugin.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct Known Known;
struct Known {
  Known *next;
  DdpCudnnGraph *graph; /* NULL: cuDNN does not do it */
  bool is_conv;
  union {
    DdpCudnnAttention attention;
    DdpCudnnConv conv;
  } shape;
};

/* Room for graphs, one after another on one stream. A captured pass keeps where it lay: rooms that became too small
   stay. */
typedef struct Room Room;
struct Room {
  Room *next;
  void *at;
  size_t bytes;
};

static struct {
  bool asked; /* for the plugin */
  const DdpCudnnPlugin *plugin;
  size_t version;
  int sm;
  Known *known;
  Room *room; /* the largest first */
} cudnn;

/* ---------- opening ---------- */

static const DdpCudnnPlugin *unusable(const char *why) {
  ddp_log(DDP_LOG_info, "without cuDNN, by ddpc's own kernels: %s", why);
  return NULL;
}

/* Where the file lies, since the plugin opens it again. */
static DdpError *find_library(const char **file) {
  static const CudaLibrary library = {"cuDNN", "libcudnn.so.9", DDP_ENV_DDP_CUDNN_LIBRARY,
                                      "install nvidia-cudnn or cudnn9-cuda"};
  static const char *const names[] = {"cudnnGetVersion", NULL};
  static Dl_info info;
  void *function;
  DDP_TRY(cuda_library_open(&library, names, &function));
  if (!dladdr(function, &info)) return ddp_error(DDP_FAILED, "cuDNN has no file");
  *file = info.dli_fname;
  return NULL;
}

static const DdpCudnnPlugin *open_plugin(void) {
  static const DdpPlugin file = {"cuDNN", "libddp_cudnn.so", DDP_CUDNN_SYMBOL,
                                 "the headers of cudnn-frontend are there", DDP_CUDNN_ABI};
  char why[4352] = "";
  const char *library = "";
  if (!strcmp(ddp_env(DDP_ENV_DDP_CUDNN_LIBRARY), "none"))
    return unusable("DDP_CUDNN_LIBRARY=none");
  const DdpCudnnPlugin *p = ddp_plugin_open(&file, why, sizeof why);
  if (!p) return unusable(why);
  DdpError *e = find_library(&library);
  if (e) {
    unusable(e->message);
    ddp_error_free(e);
    return NULL;
  }
  return p->open(library, &cudnn.version, why, sizeof why) ? unusable(why) : p;
}

static bool opened(void) {
  int device = 0;
  if (cudnn.asked) return cudnn.plugin != NULL;
  cudnn.asked = true;
  cudnn.plugin = open_plugin();
  if (!cudnn.plugin) return false;
  DdpError *e = cuda_status(cudaGetDevice(&device), "ask for the GPU");
  if (!e) e = cuda_capability(device, &cudnn.sm);
  const char *why = e ? e->message : cudnn_refuses(cudnn.version, cudnn.sm);
  if (why) cudnn.plugin = unusable(why);
  ddp_error_free(e);
  return cudnn.plugin != NULL;
}

/* ---------- graphs ---------- */

static size_t shape_bytes(bool is_conv) {
  return is_conv ? sizeof(DdpCudnnConv) : sizeof(DdpCudnnAttention);
}

static DdpCudnnGraph *make(const Known *k) {
  char why[1024] = "";
  bool planned;
  const char *what = k->is_conv ? "a convolution" : "attention";
  const char *refused =
      k->is_conv ? NULL : cudnn_refuses_attention(&k->shape.attention, cudnn.version, cudnn.sm);
  DdpCudnnGraph *g =
      refused      ? NULL
      : k->is_conv ? cudnn.plugin->conv(&k->shape.conv, NULL, &planned, why, sizeof why)
                   : cudnn.plugin->attention(&k->shape.attention, NULL, &planned, why, sizeof why);
  if (!g)
    ddp_log(DDP_LOG_info, "%s without cuDNN, by ddpc's own kernel: %s", what,
            refused ? refused : why);
  return g;
}

static DdpCudnnGraph *find(bool is_conv, const void *shape) {
  if (!opened()) return NULL;
  for (const Known *k = cudnn.known; k; k = k->next)
    if (k->is_conv == is_conv && !memcmp(&k->shape, shape, shape_bytes(is_conv))) return k->graph;
  Known *k = calloc(1, sizeof *k);
  if (!k) return NULL;
  k->is_conv = is_conv;
  memcpy(&k->shape, shape, shape_bytes(is_conv));
  k->graph = make(k);
  k->next = cudnn.known;
  cudnn.known = k;
  return k->graph;
}

static DdpError *room_for(size_t bytes, void **at) {
  *at = NULL;
  if (!bytes) return NULL;
  if (!cudnn.room || cudnn.room->bytes < bytes) {
    Room *r = calloc(1, sizeof *r);
    if (!r) return ddp_error(DDP_FAILED, "no memory");
    DdpError *e = ddp_device_cuda.alloc(DDP_MEMORY_block, bytes, &r->at);
    if (e) {
      free(r);
      return e;
    }
    r->bytes = bytes;
    r->next = cudnn.room;
    cudnn.room = r;
  }
  *at = cudnn.room->at;
  return NULL;
}

static DdpError *run(const DdpCudnnGraph *g, void *const *operands, int n, void *stream) {
  char why[1024] = "";
  void *room;
  DDP_TRY(room_for((size_t)cudnn.plugin->workspace(g), &room));
  if (!cudnn.plugin->run(g, operands, n, room, stream, why, sizeof why)) return NULL;
  return ddp_error(DDP_FAILED, "cuDNN, %s: %s", cudnn.plugin->name(g), why);
}

bool ddp_cudnn_attention(const DdpStep *step, const DdpCudnnAttention *shape,
                         void *const operands[DDP_CUDNN_OPERANDS]) {
  const DdpCudnnGraph *g = find(false, shape);
  if (g) cuda_fail(run(g, operands, DDP_CUDNN_OPERANDS, step->stream));
  return g != NULL;
}

bool ddp_cudnn_takes_conv(const DdpCudnnConv *shape) {
  return find(true, shape) != NULL;
}

bool ddp_cudnn_conv(const DdpStep *step, const DdpCudnnConv *shape, void *const operands[3]) {
  const DdpCudnnGraph *g = find(true, shape);
  if (g) cuda_fail(run(g, operands, 3, step->stream));
  return g != NULL;
}

void cudnn_close(void) {
  while (cudnn.known) {
    Known *k = cudnn.known;
    cudnn.known = k->next;
    if (k->graph) cudnn.plugin->free(k->graph);
    free(k);
  }
  while (cudnn.room) {
    Room *r = cudnn.room;
    cudnn.room = r->next;
    ddp_device_cuda.free(DDP_MEMORY_block, r->at, r->bytes);
    free(r);
  }
}

void cudnn_use(const DdpCudnnPlugin *plugin, size_t version) {
  int device = 0;
  cudnn_close();
  cudnn.asked = true;
  cudnn.plugin = plugin;
  cudnn.version = version;
  cuda_fail(cuda_status(cudaGetDevice(&device), "ask for the GPU"));
  cuda_fail(cuda_capability(device, &cudnn.sm));
}
