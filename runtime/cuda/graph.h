/* Passes of the emitted program that are replayed as CUDA graphs. */
#ifndef DDP_CUDA_GRAPH_H
#define DDP_CUDA_GRAPH_H
#include "ddp/job.h"
#include "ddp/status.h"

/* DdpDevice.replay. The first call with a key runs the pass (libraries choose, measure and allocate then), the
   next one captures it, all later ones enqueue what was captured. */
DdpError *cuda_graph_replay(uint64_t key, void (*pass)(DdpStep *step), DdpStep *step);
/* Forgets all graphs: before memory that they use is freed, and before a communicator ends that they call. */
void cuda_graph_drop(void);
#endif
