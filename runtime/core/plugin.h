/* Plugins: shared libraries of ddpc that know a vendor's library, opened when a job needs them. */
#ifndef DDP_CORE_PLUGIN_H
#define DDP_CORE_PLUGIN_H
#include <stddef.h>

typedef struct DdpPlugin {
  const char *what;   /* "Gloo" */
  const char *file;   /* "libddp_gloo.so" */
  const char *symbol; /* of its table, which begins with an int: the number of the interface */
  const char *built;  /* when ddpc has it: "libgloo is installed" */
  int abi;
} DdpPlugin;

/* Its table; it stays open. NULL: not to be had, and `why` gets one line. Looked for in DDP_PLUGIN_DIR, where the job
   was compiled, beside the executable and in ../lib, where the loader looks. */
const void *ddp_plugin_open(const DdpPlugin *p, char *why, size_t size);
#endif
