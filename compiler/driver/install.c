/* In: where this executable lies, and the layouts that CMake gave, relative to it (build tree first, then
   an installed prefix, which may have been moved as a whole). Out: folders that exist. */
#include "install.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
  const char *include, *library, *plugins;
} layouts[] = {
    {"include/ddpc", "lib", "lib"},
    {DDPC_RELATIVE_INCLUDE, DDPC_RELATIVE_LIBRARY, DDPC_RELATIVE_LIBRARY},
};

static const char *folder_of_executable(Arena *a) {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0) return NULL;
  path[n] = 0;
  char *slash = strrchr(path, '/');
  if (!slash) return NULL;
  *slash = 0;
  return arena_strdup(a, path);
}

static const char *resolve(Arena *a, const char *folder, const char *relative) {
  char *path = realpath(arena_printf(a, "%s/%s", folder, relative), NULL);
  const char *kept = path ? arena_strdup(a, path) : NULL;
  free(path);
  return kept;
}

const Install *install_find(Arena *a) {
  const char *folder = folder_of_executable(a);
  for (size_t i = 0; folder && i < sizeof layouts / sizeof *layouts; i++) {
    const char *include = resolve(a, folder, layouts[i].include);
    const char *library = resolve(a, folder, layouts[i].library);
    if (!include || !library) continue;
    if (access(arena_printf(a, "%s/ddp/job.h", include), R_OK) ||
        access(arena_printf(a, "%s/libddp_runtime.a", library), R_OK))
      continue;
    Install *found = ARENA_NEW(a, Install);
    *found = (Install){include, library, resolve(a, folder, layouts[i].plugins)};
    return found;
  }
  fprintf(
      stderr,
      "ddpc: the runtime library libddp_runtime.a and its headers are not where they belong\n"
      "  looked from %s into %s and %s\n"
      "help: build all targets (`cmake --build build`), or install with `cmake --install build`\n",
      folder ? folder : "/proc/self/exe", layouts[0].library, layouts[1].library);
  return NULL;
}
