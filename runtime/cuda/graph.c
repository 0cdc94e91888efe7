/* In: a pass with a key that stands for all that is fixed in it. Out: the same work, enqueued by one call.
   A capture is thread-local: what other threads ask of CUDA meanwhile (a watchdog, a saver) does not end it.
   Streams that the pass brings in by DdpDevice.order must be joined again before it returns. */
#include "graph.h"
#include "env.h"
#include "failure.h"
#include "gemm.h"
#include <cuda_runtime_api.h>
#include <string.h>

typedef struct Graph {
  uint64_t key;
  bool settled;         /* has run, and the next time it will enqueue the same */
  cudaGraphExec_t exec; /* NULL: not captured yet */
} Graph;
/* Sizes of B, with and without adding and synchronising, training and evaluation: a dozen at most. */
enum { GRAPHS = 64 };
static Graph graphs[GRAPHS];
static int count;

static DdpError *capture(void (*pass)(DdpStep *step), DdpStep *step, cudaGraphExec_t *out) {
  cudaStream_t stream = step->stream;
  cudaGraph_t graph = NULL;
  DDP_TRY(cuda_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                      "capture a pass"));
  pass(step);
  DdpError *e = cuda_failure(); /* the cause, where the capture has been broken off */
  e = ddp_error_first(e, cuda_status(cudaStreamEndCapture(stream, &graph), "capture a pass"));
  if (!e) e = cuda_status(cudaGraphInstantiate(out, graph, 0), "make a graph of a pass");
  if (graph) (void)cudaGraphDestroy(graph);
  return e;
}

/* NULL: there are too many. */
static Graph *graph_of(uint64_t key) {
  Graph *g = graphs;
  while (g < graphs + count && g->key != key) g++;
  if (g == graphs + GRAPHS) return NULL;
  if (g == graphs + count) graphs[count++] = (Graph){.key = key};
  return g;
}

DdpError *cuda_graph_replay(uint64_t key, void (*pass)(DdpStep *step), DdpStep *step) {
  Graph *g = strcmp(ddp_env(DDP_ENV_DDP_CUDA_GRAPHS), "0") == 0 ? NULL : graph_of(key);
  if (!g || !g->settled) {
    (void)cuda_gemm_measured();
    pass(step);
    if (g) g->settled = !cuda_gemm_measured();
    return cuda_failure();
  }
  if (!g->exec) DDP_TRY(capture(pass, step, &g->exec));
  return cuda_status(cudaGraphLaunch(g->exec, step->stream), "replay a pass");
}

void cuda_graph_drop(void) {
  for (int i = 0; i < count; i++)
    if (graphs[i].exec) (void)cudaGraphExecDestroy(graphs[i].exec);
  count = 0;
}
