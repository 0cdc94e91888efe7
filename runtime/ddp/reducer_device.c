/* Gradients that are summed in the memory of devices. In: buckets as the emitted backward completes them. Out: their
   sums, enqueued on the stream of collectives behind the last kernel that wrote them, and in front of whatever the
   stream of computation gets after the pass. A pass may be captured and replayed with its collectives: what the host
   keeps of them (flight record, which buckets have come) is made anew for each replay. How far the device has come is
   read in memory of the host, where it writes a one behind each bucket. */
#include "clock.h"
#include "device.h"
#include "reducer_state.h"
#include <stdlib.h>
#include <string.h>

static const DdpDevice *device_of(const DdpReducer *r) {
  return r->job->target->device;
}

static size_t told_bytes(const DdpReducer *r) {
  return (size_t)(r->n + 1) * sizeof *r->device.told;
}

DdpError *ddp_reducer_device_open(DdpReducer *r) {
  DdpReducerDevice *v = &r->device;
  int64_t end = r->n ? r->info[r->n - 1].end : 0;
  static const uint32_t one = 1;
  void *p = NULL;
  if (!ddp_group_on_device(r->group)) return NULL;
  const DdpDevice *d = device_of(r);
  void *stream = d->stream(DDP_STREAM_compute);
  v->on = true;
  v->sequence = calloc((size_t)r->n + 1, sizeof *v->sequence);
  if (!v->sequence) return ddp_error(DDP_MEMORY, "no memory for buckets");
  if (r->wire != DDP_f32)
    DDP_TRY(ddp_group_alloc(r->group, (size_t)end * sizeof(uint16_t), &v->room));
  DDP_TRY(d->host_alloc(DDP_MEMORY_grads, told_bytes(r), &p));
  v->told = p;
  DDP_TRY(d->alloc(DDP_MEMORY_grads, sizeof one, &p));
  v->one = p;
  DDP_TRY(d->to_device(v->one, &one, sizeof one, stream));
  return d->synchronise(stream);
}

void ddp_reducer_device_close(DdpReducer *r) {
  DdpReducerDevice *v = &r->device;
  if (v->told) device_of(r)->host_free(DDP_MEMORY_grads, v->told, told_bytes(r));
  if (v->one) device_of(r)->free(DDP_MEMORY_grads, v->one, sizeof *v->one);
  free(v->sequence);
  for (int i = 0; i < 2; i++) free(v->script[i].entry);
}

/* ---------- a pass ---------- */

static DdpError *keep(DdpReducer *r, DdpPassEntry e) {
  DdpPassScript *s = &r->device.script[r->active];
  if (!r->device.by_hand) s->n = 0;
  r->device.by_hand = true;
  if (s->n == s->room) {
    int room = s->room ? 2 * s->room : 16;
    DdpPassEntry *more = realloc(s->entry, (size_t)room * sizeof *more);
    if (!more) return ddp_error(DDP_MEMORY, "no memory for buckets");
    s->entry = more;
    s->room = room;
  }
  s->entry[s->n++] = e;
  return NULL;
}

static void enter(DdpReducer *r, const DdpPassEntry *e) {
  uint64_t n = ddp_group_device_enter(r->group, DDP_FLIGHT_all_reduce, e->what, e->bytes);
  if (e->bucket >= 0) r->device.sequence[e->bucket] = n;
}

/* The host learns that the stream has come so far. */
static DdpError *tell(const DdpReducer *r, int place, DdpStream stream) {
  const DdpDevice *d = device_of(r);
  return d->to_host(r->device.told + place, r->device.one, sizeof *r->device.told,
                    d->stream(stream));
}

DdpError *ddp_reducer_device_bucket(DdpReducer *r, int bucket, const DdpStep *step) {
  const DdpBucketInfo *i = &r->info[bucket];
  int64_t n = i->end - i->begin;
  const size_t each = r->wire == DDP_f32 ? sizeof(float) : sizeof(uint16_t);
  const DdpPassEntry e = {r->buckets[bucket].what, n * (int64_t)each, bucket};
  float *at = r->grads + i->begin;
  char *room = r->device.room;
  if (n == 0) return NULL;
  DDP_TRY(keep(r, e));
  enter(r, &e);
  if (room) room += (size_t)i->begin * sizeof(uint16_t);
  if (bucket == r->tells) r->job->target->arena.tell(at, step->sums, step->stream);
  DDP_TRY(ddp_group_device_sum(r->group, at, at, n, r->wire, room, e.what));
  DDP_TRY(tell(r, bucket, DDP_STREAM_wire));
  const DdpDevice *d = device_of(r);
  return r->device.marks ? d->mark(bucket, d->stream(DDP_STREAM_wire)) : NULL;
}

DdpError *ddp_reducer_device_sum(DdpReducer *r, float *out, const float *in, int64_t n) {
  static const char what[] = "a sum over ranks in the model";
  const DdpPassEntry e = {what, n * (int64_t)sizeof *out, -1};
  DDP_TRY(keep(r, e));
  enter(r, &e);
  DDP_TRY(ddp_group_device_sum(r->group, out, in, n, DDP_f32, NULL, what));
  return ddp_group_device_join(r->group);
}

/* ---------- behind backward ---------- */

void ddp_reducer_marks(DdpReducer *r, bool on) {
  r->device.marks = on;
}

DdpError *ddp_reducer_over(DdpReducer *r) {
  return tell(r, r->n, DDP_STREAM_compute);
}

DdpError *ddp_reducer_await(DdpReducer *r, int bucket) {
  const DdpDevice *d = device_of(r);
  if (r->info[bucket].end == r->info[bucket].begin) return NULL;
  return d->await(bucket, d->stream(DDP_STREAM_compute));
}

DdpError *ddp_reducer_join(DdpReducer *r) {
  return ddp_group_device_join(r->group);
}

static void pass_and_join(DdpStep *step) {
  DdpReducer *r = step->reducer;
  r->job->forward_backward(step);
  if (!r->active || r->error) return;
  r->error = ddp_reducer_over(r);
  if (!r->error) r->error = ddp_reducer_join(r);
}

DdpPass *ddp_reducer_pass_of(const DdpReducer *r, DdpPass *pass) {
  bool sums = r && r->device.on && r->active && pass == r->job->forward_backward;
  return sums ? pass_and_join : pass;
}

void ddp_reducer_passed(DdpReducer *r) {
  const DdpPassScript *s = &r->device.script[r->active];
  if (!r->device.on || r->device.by_hand) return;
  for (int k = 0; k < s->n; k++) enter(r, &s->entry[k]);
  r->started = r->active ? r->n : 0;
}

/* ---------- waiting ---------- */

/* A device wrote it. */
static bool is_told(const DdpReducer *r, int place) {
  return __atomic_load_n(&r->device.told[place], __ATOMIC_ACQUIRE) != 0;
}

/* Buckets that have come since; returns the first one that has not. */
static int look(DdpReducer *r, int bucket) {
  while (bucket < r->n && (is_told(r, bucket) || r->info[bucket].end == r->info[bucket].begin)) {
    if (r->device.sequence[bucket])
      ddp_flight_complete(r->group->flight, r->device.sequence[bucket]);
    bucket++;
  }
  return bucket;
}

DdpError *ddp_reducer_arrive(DdpReducer *r, double *exposed_seconds) {
  DdpGroup *g = r->group;
  const DdpDevice *d = device_of(r);
  void *stream = d->stream(DDP_STREAM_compute);
  DdpDeviceWait w = ddp_group_device_deadline(g);
  int next = 0;
  g->op = DDP_FLIGHT_all_reduce;
  g->entered = 0;
  for (int turn = 0; (next = look(r, next)) < r->n; turn++) {
    bool done = false;
    if (g->entered == 0 && is_told(r, r->n)) g->entered = ddp_clock(); /* backward is over */
    g->awaited = r->device.sequence[next];
    DDP_TRY(d->poll(stream, &done));
    if (done) continue;
    DDP_TRY(ddp_group_device_look(g, &w, r->buckets[next].what));
    ddp_group_device_nap(turn);
  }
  if (g->entered > 0) {
    double before = g->spent;
    ddp_group_spend(g, "gradients");
    if (exposed_seconds) *exposed_seconds += g->spent - before;
  }
  return ddp_group_device_wait(g, stream, "gradients");
}
