/* In: the places where plugins may lie (plugin.h). Out: the table of functions of libddp_gloo.so. */
#include "gloo_plugin.h"
#include "plugin.h"
#include <pthread.h>

static char reason[4352];
static const DdpGlooPlugin *plugin;

static void load(void) {
  static const DdpPlugin p = {"Gloo", "libddp_gloo.so", DDP_GLOO_SYMBOL, "libgloo is installed",
                              DDP_GLOO_ABI};
  plugin = ddp_plugin_open(&p, reason, sizeof reason);
}

const DdpGlooPlugin *ddp_gloo_load(const char **why) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  *why = plugin ? NULL : reason;
  return plugin;
}
