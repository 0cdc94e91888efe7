/* Arenas and the host. On CPUs the host reads and writes arenas where they are, and nothing here does anything.
   A device with memory of its own: copies of what is looked at; and for everything that fills the model (initial
   weights, files, checkpoints) the whole of it in the host's memory for as long as that takes. */
#include "run.h"
#include <stdlib.h>
#include <string.h>

bool run_apart(const DdpRun *r) {
  return r->device->apart && !r->there.shadow;
}

DdpError *run_synchronise(const DdpRun *r, void *stream) {
  if (!r->group || !ddp_group_on_device(r->group)) return r->device->synchronise(stream);
  return ddp_group_device_wait(r->group, stream, "work of the GPUs");
}

/* ---------- to look at ---------- */

DdpError *run_view(const DdpRun *r, const void *at, int64_t bytes, RunView *v) {
  *v = (RunView){.at = at};
  if (!run_apart(r)) return NULL;
  v->at = v->copy = malloc((size_t)bytes + 1);
  if (!v->copy) return ddp_error(DDP_MEMORY, "out of memory");
  DDP_TRY(r->device->to_host(v->copy, at, (size_t)bytes, r->there.stream));
  return run_synchronise(r, r->there.stream);
}

void run_view_close(RunView *v) {
  free(v->copy);
  v->copy = NULL;
}

/* ---------- to fill ---------- */

typedef struct Part { /* an arena: where the run points to it, and where it is on the device */
  void *pointer;
  char *device;
  int64_t bytes;
} Part;
typedef struct RunShadow {
  Part part[4 + DDP_MAX_STATES];
  int n;
} RunShadow;

/* The pointers of a run have types of their own. */
static char *points_to(const void *pointer) {
  char *p;
  memcpy(&p, pointer, sizeof p);
  return p;
}

static void point(const Part *p, char *to) {
  memcpy(p->pointer, &to, sizeof to);
}

static void part_add(RunShadow *s, void *pointer, int64_t bytes) {
  char *device = points_to(pointer);
  if (device && bytes) s->part[s->n++] = (Part){pointer, device, bytes};
}

static void parts_list(RunShadow *s, DdpRun *r, bool all) {
  const int64_t f = (int64_t)sizeof(float);
  part_add(s, &r->params, r->param_count * f);
  part_add(s, &r->frozen, r->frozen_count * f);
  part_add(s, &r->buffers, r->buffer_bytes);
  if (!all) return;
  part_add(s, &r->ema, r->param_count * f);
  for (int i = 0; i < DDP_MAX_STATES; i++) part_add(s, &r->state[i], r->state_count[i] * f);
}

/* Back to the device's memory. */
static void shadow_close(DdpRun *r) {
  RunShadow *s = r->there.shadow;
  for (int i = 0; i < s->n; i++) {
    char *here = points_to(s->part[i].pointer);
    if (here != s->part[i].device) free(here);
    point(&s->part[i], s->part[i].device);
  }
  free(s);
  r->there.shadow = NULL;
}

static DdpError *bring(DdpRun *r, const Part *p) {
  char *here = aligned_alloc(64, (size_t)(p->bytes + 63) / 64 * 64);
  if (!here)
    return ddp_error(DDP_MEMORY, "no memory on this host for %.1f MiB of the model",
                     (double)p->bytes / 1048576);
  point(p, here);
  return r->device->to_host(here, p->device, (size_t)p->bytes, r->there.stream);
}

DdpError *run_model_here(DdpRun *r, bool all) {
  if (!r->device->apart) return NULL;
  RunShadow *s = calloc(1, sizeof *s);
  if (!s) return ddp_error(DDP_MEMORY, "out of memory");
  parts_list(s, r, all);
  DdpError *error = NULL;
  for (int i = 0; i < s->n && !error; i++) error = bring(r, &s->part[i]);
  if (!error) error = run_synchronise(r, r->there.stream);
  r->there.shadow = s;
  if (error) shadow_close(r);
  return error;
}

DdpError *run_model_there(DdpRun *r, DdpError *error) {
  const RunShadow *s = r->there.shadow;
  if (!s) return error;
  for (int i = 0; i < s->n && !error; i++) {
    const Part *p = &s->part[i];
    error =
        r->device->to_device(p->device, points_to(p->pointer), (size_t)p->bytes, r->there.stream);
  }
  if (!error) error = run_synchronise(r, r->there.stream);
  shadow_close(r);
  return error;
}

/* ---------- to send ---------- */

DdpError *run_broadcast(DdpRun *r, void *data, int64_t bytes, const char *what) {
  if ((r->world == 1 && !ddp_group_on_device(r->group)) || bytes == 0) return NULL;
  if (!run_apart(r)) return ddp_group_broadcast(r->group, data, bytes, 0, what);
  if (ddp_group_on_device(r->group)) return ddp_group_device_broadcast(r->group, data, bytes, what);
  RunView v;
  DdpError *error = run_view(r, data, bytes, &v);
  if (!error) error = ddp_group_broadcast(r->group, v.copy, bytes, 0, what);
  if (!error && r->rank != 0) {
    error = r->device->to_device(data, v.copy, (size_t)bytes, r->there.stream);
    if (!error) error = run_synchronise(r, r->there.stream);
  }
  run_view_close(&v);
  return error;
}
