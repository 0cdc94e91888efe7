/* In: the name of a library and of its functions. Out: their addresses. Looked for where the environment
   says, where the loader looks, and in the CUDA toolkit that ddpc was built with. */
#include "library.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *open_file(const CudaLibrary *library, char *why, size_t bytes) {
  static const char *const folders[] = {"", "/usr/local/cuda/lib64/", DDP_CUDA_LIBRARY_FOLDER "/"};
  const char *other = ddp_env(library->other);
  void *handle = NULL;
  char path[4096];
  if (*other) {
    handle = dlopen(other, RTLD_NOW | RTLD_LOCAL);
    if (!handle) snprintf(why, bytes, "%s", dlerror());
    return handle;
  }
  for (size_t i = 0; i < sizeof folders / sizeof *folders && !handle; i++) {
    snprintf(path, sizeof path, "%s%s", folders[i], library->file);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle && i == 0) snprintf(why, bytes, "%s", dlerror());
  }
  return handle;
}

static const char *env_name(DdpEnv which) {
  static const char *const names[] = {
#define ENV(name, default_, doc) #name,
#include "env.def"
  };
  return names[which];
}

DdpError *cuda_library_open(const CudaLibrary *library, const char *const *names, void *pointers) {
  char why[1024] = "";
  void *handle = open_file(library, why, sizeof why);
  if (!handle)
    return ddp_error(DDP_FAILED,
                     "%s is needed and cannot be opened: %s; %s, or set %s to its file or "
                     "LD_LIBRARY_PATH to its folder",
                     library->what, why, library->install, env_name(library->other));
  for (size_t i = 0; names[i]; i++) {
    void *p = dlsym(handle, names[i]);
    if (!p)
      return ddp_error(DDP_FAILED, "%s has no %s: this program needs another version of it; %s",
                       library->what, names[i], library->install);
    memcpy((char *)pointers + i * sizeof p, &p, sizeof p);
  }
  return NULL;
}
