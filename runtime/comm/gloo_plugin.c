/* In: the places where the plugin may lie: DDP_PLUGIN_DIR, the path compiled into the job, the
   folder of the executable and ../lib beside it, the loader's own path. Out: its table of
   functions. */
#include "gloo_plugin.h"
#include "ddp/job.h"
#include "env.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "libddp_gloo.so";
static char reason[4352];
static const DdpGlooPlugin *plugin;

static bool try_open(const char *folder, const char *sub) {
  char path[4096];
  int n = folder ? snprintf(path, sizeof path, "%s/%s%s", folder, sub, file_name)
                 : snprintf(path, sizeof path, "%s", file_name);
  if (n < 0 || (size_t)n >= sizeof path || (folder && access(path, F_OK))) return false;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(reason, sizeof reason, "Gloo: %s", dlerror());
    return false;
  }
  const DdpGlooPlugin *p = dlsym(library, DDP_GLOO_SYMBOL);
  if (!p || p->abi != DDP_GLOO_ABI) {
    snprintf(reason, sizeof reason, "Gloo: %s belongs to another ddpc version", path);
    return false;
  }
  plugin = p;
  return true;
}

static void load(void) {
  char folder[4096] = ".";
  const char *given = ddp_env(DDP_ENV_DDP_PLUGIN_DIR);
  snprintf(reason, sizeof reason,
           "Gloo: %s not found (set DDP_PLUGIN_DIR to its folder; ddpc builds it when libgloo is "
           "installed)",
           file_name);
  if (*given && try_open(given, "")) return;
  if (ddp_plugin_path && try_open(ddp_plugin_path, "")) return;
  ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
  folder[n > 0 ? n : 1] = 0;
  char *slash = strrchr(folder, '/');
  if (slash) *slash = 0;
  if (try_open(folder, "") || try_open(folder, "../lib/") || try_open(folder, "lib/")) return;
  char kept[sizeof reason];
  memcpy(kept, reason, sizeof kept);
  if (!try_open(NULL, "")) memcpy(reason, kept, sizeof kept);
}

const DdpGlooPlugin *ddp_gloo_load(const char **why) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  *why = plugin ? NULL : reason;
  return plugin;
}
