/* In: the name of a plugin. Out: its table of functions, from the first place where it lies. */
#include "plugin.h"
#include "ddp/job.h"
#include "env.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const void *try_open(const DdpPlugin *p, const char *folder, const char *sub, char *why,
                            size_t size) {
  char path[PATH_MAX];
  int n = folder ? snprintf(path, sizeof path, "%s/%s%s", folder, sub, p->file)
                 : snprintf(path, sizeof path, "%s", p->file);
  if (n < 0 || (size_t)n >= sizeof path || (folder && access(path, F_OK))) return NULL;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    snprintf(why, size, "%s: %s", p->what, dlerror());
    return NULL;
  }
  const void *table = dlsym(library, p->symbol);
  int abi = 0;
  if (table) memcpy(&abi, table, sizeof abi);
  if (table && abi == p->abi) return table;
  snprintf(why, size, "%s: %s belongs to another ddpc version", p->what, path);
  return NULL;
}

const void *ddp_plugin_open(const DdpPlugin *p, char *why, size_t size) {
  static const char *const beside[] = {"", "../lib/", "lib/"};
  char folder[PATH_MAX] = ".", loader[PATH_MAX];
  const char *given = ddp_env(DDP_ENV_DDP_PLUGIN_DIR);
  const void *table = NULL;
  snprintf(why, size, "%s: %s not found (set DDP_PLUGIN_DIR to its folder; ddpc builds it when %s)",
           p->what, p->file, p->built);
  if (*given) table = try_open(p, given, "", why, size);
  if (!table && ddp_plugin_path) table = try_open(p, ddp_plugin_path, "", why, size);
  ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
  folder[n > 0 ? n : 1] = 0;
  char *slash = strrchr(folder, '/');
  if (slash) *slash = 0;
  for (size_t i = 0; i < sizeof beside / sizeof *beside && !table; i++)
    table = try_open(p, folder, beside[i], why, size);
  /* What the loader says of a name without a folder is no better reason. */
  return table ? table : try_open(p, NULL, "", loader, sizeof loader);
}
