/* Asynchronous copies stand in sm_collectives.h. */
#include "cuda_runtime.h"
