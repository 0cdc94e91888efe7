/* The group's collectives in the memory of devices. In: a target with a backend, streams. Out: work on the stream of
   collectives, ordered with that of computation. Holds: the host waits nowhere but in ddp_group_device_wait and what
   is built of its parts, and there for no longer than ddp_timeout. */
#include "group.h"
#include "clock.h"
#include "device.h"
#include "group_state.h"
#include <sched.h>
#include <stdio.h>
#include <time.h>

/* ---------- opening ---------- */

DdpError *ddp_group_device_probe(const DdpTarget *target) {
  const char *why = "the program was built without a backend for its devices";
  if (target->backend && target->backend->probe(&why)) return NULL;
  return ddp_error(DDP_FAILED, "%s", why);
}

DdpError *ddp_group_device_open(DdpGroup *g, const DdpTarget *target) {
  DdpCommOptions o = ddp_group_comm_options(g, target->backend->name, ddp_clock() + g->timeout);
  o.rank = g->rank;
  o.world = g->world;
  o.patience = ddp_group_patience_between;
  g->target = target;
  g->device.backend = target->backend;
  ddp_group_at(g, -1, "opening between devices");
  DDP_TRY(ddp_group_fail(g, DDP_LEVEL_device, target->backend->open(&g->device.comm, &o)));
  ddp_group_at(g, -1, "start");
  snprintf(g->path, sizeof g->path, "%s", target->backend->name);
  atomic_store(&g->device_opened, true);
  DdpError *e = ddp_control_error(g->control); /* came before the level could be told */
  if (e) atomic_store(&g->leaving, true);
  return e;
}

bool ddp_group_on_device(const DdpGroup *g) {
  return g->device.comm != NULL;
}

/* ---------- collectives ---------- */

static void *computation(const DdpGroup *g) {
  return g->target->device->stream(DDP_STREAM_compute);
}
static void *wire_stream(const DdpGroup *g) {
  return g->target->device->stream(DDP_STREAM_wire);
}

static DdpError *begin(const DdpGroup *g) {
  return g->target->device->order(computation(g), wire_stream(g));
}

DdpError *ddp_group_device_join(DdpGroup *g) {
  return g->target->device->order(wire_stream(g), computation(g));
}

DdpError *ddp_group_device_sum(DdpGroup *g, float *out, const float *in, int64_t n, DdpDType wire,
                               void *room, const char *what) {
  const DdpArenaKernels *k = &g->target->arena;
  void *stream = wire_stream(g), *data = wire == DDP_f32 ? out : room;
  DdpWork *none;
  if (n == 0) return NULL;
  DDP_TRY(begin(g));
  if (wire != DDP_f32)
    k->narrow(room, in, n, wire, g->world, stream);
  else if (out != in)
    DDP_TRY(g->target->device->copy(out, in, (size_t)n * sizeof *out, stream));
  DDP_TRY(ddp_group_fail(
      g, DDP_LEVEL_device,
      g->device.backend->all_reduce(g->device.comm, data, n, wire, what, stream, &none)));
  if (wire != DDP_f32) k->widen(out, room, n, wire, stream);
  return NULL;
}

DdpError *ddp_group_device_broadcast(DdpGroup *g, void *data, int64_t bytes, const char *what) {
  DdpWork *none;
  if (bytes == 0) return NULL;
  (void)ddp_group_device_enter(g, DDP_FLIGHT_broadcast, what, bytes);
  DDP_TRY(begin(g));
  DDP_TRY(ddp_group_fail(
      g, DDP_LEVEL_device,
      g->device.backend->broadcast(g->device.comm, data, bytes, 0, what, wire_stream(g), &none)));
  return ddp_group_device_join(g);
}

uint64_t ddp_group_device_enter(DdpGroup *g, DdpFlightOp op, const char *what, int64_t bytes) {
  uint64_t sequence = ddp_group_arrive(g, op, what, bytes);
  ddp_flight_start(g->flight, sequence);
  return sequence;
}

/* ---------- waiting ---------- */

DdpDeviceWait ddp_group_device_deadline(const DdpGroup *g) {
  double now = ddp_clock();
  return (DdpDeviceWait){now, now + g->timeout};
}

DdpError *ddp_group_device_look(DdpGroup *g, DdpDeviceWait *w, const char *what) {
  const DdpLevel *l = &g->device;
  DDP_TRY(ddp_group_fail(g, DDP_LEVEL_device, l->backend->async_error(l->comm)));
  w->at += ddp_clock_paused(&w->last);
  if (w->last < w->at) return NULL;
  if (ddp_group_patience_between(g, -1)) {
    w->at = ddp_clock() + g->timeout;
    return NULL;
  }
  return ddp_group_fail(g, DDP_LEVEL_device, ddp_error(DDP_TIMEOUT, "%s", what));
}

void ddp_group_device_nap(int turn) {
  const struct timespec t = {0, 20000};
  if (turn < 1000)
    sched_yield();
  else
    nanosleep(&t, NULL);
}

DdpError *ddp_group_device_wait(DdpGroup *g, void *stream, const char *what) {
  const DdpDevice *d = g->target->device;
  DdpDeviceWait w = ddp_group_device_deadline(g);
  uint64_t last = ddp_flight_last(g->flight);
  bool done = false;
  for (int turn = 0; !done; turn++) {
    DDP_TRY(d->poll(stream, &done));
    if (done) break;
    DDP_TRY(ddp_group_device_look(g, &w, what));
    ddp_group_device_nap(turn);
  }
  if (stream != computation(g)) return NULL;
  while (g->device_seen < last) ddp_flight_complete(g->flight, ++g->device_seen);
  return NULL;
}
