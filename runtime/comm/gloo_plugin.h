/* Finds and opens libddp_gloo.so; internal to the gloo backend. */
#ifndef DDP_COMM_GLOO_PLUGIN_H
#define DDP_COMM_GLOO_PLUGIN_H
#include "gloo.h"

/* NULL: not to be had, *why says in one line what is missing. Opened once and kept. */
const DdpGlooPlugin *ddp_gloo_load(const char **why);
#endif
