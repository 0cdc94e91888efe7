/* The table of backends. In: a name of ddp_backend. Out: its functions, or in one line why there are none: what it
   needs, and what of that this machine lacks. */
#include "backend.h"
#include "comm.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATE_yes   false
#define STATE_later true
const DdpBackendInfo ddp_backend_infos[] = {
#define BACKEND(name, state, ...) {#name, STATE_##state, __VA_ARGS__},
#include "backend.def"
};
const int ddp_backend_count = sizeof ddp_backend_infos / sizeof *ddp_backend_infos;

static const DdpBackend *const backends[] = {&ddp_backend_shm, &ddp_backend_gloo};

const DdpBackend *ddp_backend_find(const char *name) {
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
    if (strcmp(backends[i]->name, name) == 0) return backends[i];
  }
  return NULL;
}

const DdpBackendInfo *ddp_backend_info(const char *name) {
  for (int i = 0; i < ddp_backend_count; i++) {
    if (strcmp(ddp_backend_infos[i].name, name) == 0) return &ddp_backend_infos[i];
  }
  return NULL;
}

/* Where the loader looks, and in the CUDA toolkit, as programs do. */
static bool loads(const char *library) {
  static const char *const folders[] = {"", "/usr/local/cuda/lib64/"};
  char path[256];
  void *handle = NULL;
  for (size_t i = 0; i < sizeof folders / sizeof *folders && !handle; i++) {
    snprintf(path, sizeof path, "%s%s", folders[i], library);
    handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  }
  if (handle) dlclose(handle);
  return handle != NULL;
}

void ddp_backend_missing(const DdpBackendInfo *b, char *out, size_t size) {
  const DdpBackend *built = ddp_backend_find(b->name);
  size_t n = 0;
  out[0] = 0;
  if (built) {
    const char *why;
    if (!built->probe(&why)) snprintf(out, size, "%s", why);
    return;
  }
  const struct {
    const char *name;
    bool here;
  } parts[] = {{b->file, !*b->file || access(b->file, F_OK) == 0},
               {b->driver, !*b->driver || loads(b->driver)},
               {b->library, loads(b->library)}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts && n < size; i++) {
    if (!parts[i].here)
      n += (size_t)snprintf(out + n, size - n, "%sno %s", n ? ", " : "", parts[i].name);
  }
}

/* One whose devices a target has. */
static const DdpBackendInfo *backend_of(const char *target) {
  for (int i = 0; i < ddp_backend_count; i++) {
    if (strcmp(ddp_backend_infos[i].target, target) == 0) return &ddp_backend_infos[i];
  }
  return NULL;
}

DdpError *ddp_backend_check(const char *name, const char *target) {
  const DdpBackendInfo *b = name ? ddp_backend_info(name) : NULL, *own = backend_of(target);
  char missing[512];
  bool serves = b && !b->later && (b == own || strcmp(b->target, "cpu") == 0);
  if (!name || serves) return NULL;
  if (!b) return ddp_error(DDP_USAGE, "there is no ddp_backend %s", name);
  if (!b->later)
    return ddp_error(DDP_USAGE,
                     "ddp_backend = %s sends between %s and this program computes on %s: it takes "
                     "--ddp_backend %s, which is its default",
                     b->name, b->devices, own->devices, own->name);
  ddp_backend_missing(b, missing, sizeof missing);
  return ddp_error(DDP_USAGE,
                   "ddp_backend = %s is not supported yet: it sends between %s and needs %s; this "
                   "program computes on "
                   "%s (--ddp_backend %s), and this machine has %s",
                   b->name, b->devices, b->library, own->devices, own->name,
                   *missing ? missing : "all of that");
}
