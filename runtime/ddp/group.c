/* The process group. In: the launcher's word and settings. Out: collectives over all ranks, by
   shared memory inside a host and Gloo between hosts. Holds: used by one thread (only abort may
   come from another); every call of a world of one returns at once; after an error every call
   returns that error. */
#include "group.h"
#include "clock.h"
#include "group_state.h"
#include "log.h"
#include "sum.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---------- opening ---------- */

DdpCommOptions ddp_group_comm_options(DdpGroup *g, const char *prefix, double deadline) {
  return (DdpCommOptions){.store = ddp_control_store(g->control),
                          .prefix = prefix,
                          .address = ddp_control_peers(g->control)[g->rank].address,
                          .deadline = deadline,
                          .timeout = g->timeout,
                          .patience_self = g};
}

static DdpError *open_inside(DdpGroup *g, double deadline) {
  char prefix[32];
  int host = g->members.host[g->rank];
  snprintf(prefix, sizeof prefix, "shm/%d", host);
  DdpCommOptions o = ddp_group_comm_options(g, prefix, deadline);
  o.rank = g->members.local[g->rank];
  o.world = ddp_members_count(&g->members, host);
  o.patience = ddp_group_patience_inside;
  g->inside.backend = &ddp_backend_shm;
  return ddp_group_fail(g, DDP_LEVEL_inside, ddp_backend_shm.open(&g->inside.comm, &o));
}

static DdpError *open_between(DdpGroup *g, const char *name, double deadline) {
  DdpCommOptions o = ddp_group_comm_options(g, "between", deadline);
  o.rank = g->two_level ? g->members.host[g->rank] : g->rank;
  o.world = g->two_level ? g->members.n_hosts : g->world;
  o.patience = ddp_group_patience_between;
  g->between.backend = ddp_backend_find(name);
  if (!g->between.backend)
    return ddp_group_fail(
        g, DDP_LEVEL_between,
        ddp_error(DDP_USAGE, "ddp_backend %s: there is no such backend here", name));
  if (!g->leader) return NULL;
  ddp_group_at(g, -1,
               "opening connections"); /* the host's other ranks wait, and leave its error to it */
  DDP_TRY(ddp_group_fail(g, DDP_LEVEL_between, g->between.backend->open(&g->between.comm, &o)));
  ddp_group_at(g, -1, "start");
  return NULL;
}

/* The rendezvous has made hosts of the ranks then. */
static void tell_no_memory(const DdpGroup *g, const char *name) {
  const char *why;
  if (g->launch.local_rank == 0 && g->launch.local_world > 1 && !ddp_backend_shm.probe(&why))
    ddp_log(DDP_LOG_warning,
            "no shared memory on this host (%s): its ranks use %s, which is slower", why, name);
}

static DdpError *open_levels(DdpGroup *g, const DdpGroupOptions *options, double deadline) {
  const char *name = options->backend ? options->backend : "gloo";
  bool several = g->members.n_hosts > 1;
  bool inside = g->members.widest > 1 && !options->intra_node_backend;
  bool between = several || !inside;
  g->two_level = inside && between;
  if (g->world == 1) {
    atomic_store(&g->opened, true);
    return NULL;
  }
  if (!options->intra_node_backend) tell_no_memory(g, name);
  g->leader = !inside || g->members.local[g->rank] == 0;
  snprintf(g->path, sizeof g->path, "%s%s%s", inside ? "shared memory" : "",
           g->two_level ? " + " : "", between ? name : "");
  if (inside && ddp_members_count(&g->members, g->members.host[g->rank]) > 1)
    DDP_TRY(open_inside(g, deadline));
  if (between) DDP_TRY(open_between(g, name, deadline));
  atomic_store(&g->opened, true);
  DdpError *e = ddp_control_error(g->control); /* came before the levels could be told */
  if (e) atomic_store(&g->leaving, true);
  return e;
}

static DdpError *open_world(DdpGroup *g, const DdpGroupOptions *options) {
  double deadline = ddp_clock() + g->timeout;
  const DdpProgramId program = {options->program_hash,
                                options->program_text ? options->program_text : ""};
  DdpMeeting meeting;
  DDP_TRY(ddp_rendezvous(&meeting, &g->launch, &program, g->timeout));
  DdpError *e = ddp_members_find(&g->members, g->rank, g->world, meeting.peers);
  const DdpControlHooks hooks = ddp_group_hooks(g);
  if (!e) e = ddp_control_open(&g->control, &meeting, &hooks);
  ddp_meeting_close(&meeting);
  return e ? e : open_levels(g, options, deadline);
}

static void release(DdpGroup *g) {
  ddp_control_close(g->control); /* first: its thread uses the levels */
  if (g->device.comm) g->device.backend->close(g->device.comm);
  if (g->inside.comm) g->inside.backend->close(g->inside.comm);
  if (g->between.comm) g->between.backend->close(g->between.comm);
  ddp_members_free(&g->members);
  ddp_flight_close(g->flight);
  free(g);
}

DdpError *ddp_group_open(DdpGroup **out, const DdpLaunch *launch, const DdpGroupOptions *options) {
  DdpGroup *g = calloc(1, sizeof *g);
  if (!g) return ddp_error(DDP_MEMORY, "no memory for the process group");
  g->launch = *launch;
  g->rank = launch->rank;
  g->world = launch->world;
  g->timeout = options->timeout;
  g->leader = true;
  atomic_init(&g->update, -1);
  g->op = DDP_FLIGHT_alloc; /* no words for what is waited for while opening */
  atomic_init(&g->phase, "start");
  snprintf(g->path, sizeof g->path, "one rank");
  DdpError *e = ddp_flight_open(&g->flight, options->record, g->rank, g->world);
  if (e) {
    free(g);
    return e;
  }
  *out = g;
  if (g->world == 1 && !options->alone) return NULL;
  e = open_world(g, options);
  if (!e) return NULL;
  release(g);
  *out = NULL;
  return e;
}

int ddp_group_rank(const DdpGroup *g) {
  return g->rank;
}
int ddp_group_world(const DdpGroup *g) {
  return g->world;
}
const char *ddp_group_path(const DdpGroup *g) {
  return g->path;
}
bool ddp_group_one_host(const DdpGroup *g) {
  return g->world == 1 || g->members.n_hosts == 1;
}
DdpFlight *ddp_group_flight(DdpGroup *g) {
  return g->flight;
}

void ddp_group_at(DdpGroup *g, int64_t update, const char *phase) {
  atomic_store_explicit(&g->update, update, memory_order_relaxed);
  atomic_store_explicit(&g->phase, phase, memory_order_relaxed);
}

const char *ddp_group_phase(const DdpGroup *g) {
  return atomic_load_explicit(&g->phase, memory_order_relaxed);
}

int64_t ddp_group_update(const DdpGroup *g) {
  return atomic_load_explicit(&g->update, memory_order_relaxed);
}

void ddp_group_ask_stop(DdpGroup *g, int reason) {
  atomic_store(&g->stop, reason);
}

int ddp_group_stop_asked(DdpGroup *g) {
  int reason = atomic_load(&g->stop);
  for (int r = 0; r < g->world && g->world > 1 && !reason; r++) {
    DdpPosition p;
    double age;
    ddp_control_position(g->control, r, &p, &age);
    reason = p.stop;
  }
  return reason;
}

/* ---------- the two levels ---------- */

/* What the caller spends here, it does not compute. */
static void enter(DdpGroup *g) {
  g->entered = ddp_clock();
}

void ddp_group_spend(DdpGroup *g, const char *what) {
  double now = ddp_clock();
  g->spent += now - g->entered;
  if (g->watch) g->watch(g->watch_self, what, g->entered, now);
}

double ddp_group_spent(const DdpGroup *g) {
  return g->spent;
}

void ddp_group_watch(DdpGroup *g, DdpGroupWatch *watch, void *self) {
  g->watch = watch;
  g->watch_self = self;
}

uint64_t ddp_group_arrive(DdpGroup *g, DdpFlightOp op, const char *what, int64_t bytes) {
  enter(g);
  g->op = op;
  g->awaited = atomic_fetch_add_explicit(&g->arrived, 1, memory_order_relaxed) + 1;
  return ddp_flight_begin(g->flight, op, what, bytes,
                          atomic_load_explicit(&g->update, memory_order_relaxed));
}

/* What was entered has ended; after an error the record says how far it came. */
static DdpError *leave(DdpGroup *g, uint64_t sequence, const char *what, DdpError *e) {
  if (!e) ddp_flight_complete(g->flight, sequence);
  ddp_group_spend(g, what);
  return e;
}

static DdpError *broadcast_in(DdpGroup *g, DdpLevelName name, void *data, int64_t bytes, int root,
                              const char *what) {
  DdpLevel *l = name == DDP_LEVEL_inside ? &g->inside : &g->between;
  if (!l->comm) return NULL;
  DdpWork *w;
  DdpError *e = l->backend->broadcast(l->comm, data, bytes, root, what, NULL, &w);
  if (!e) e = l->backend->wait(w);
  return ddp_group_fail(g, name, e);
}

static DdpError *gather_in(DdpGroup *g, DdpLevelName name, const void *mine, void *all,
                           int64_t bytes, const char *what) {
  DdpLevel *l = name == DDP_LEVEL_inside ? &g->inside : &g->between;
  if (!l->comm) {
    memcpy(all, mine, (size_t)bytes);
    return NULL;
  }
  DdpWork *w;
  DdpError *e = l->backend->all_gather(l->comm, mine, all, bytes, what, NULL, &w);
  if (!e) e = l->backend->wait(w);
  return ddp_group_fail(g, name, e);
}

static DdpError *barrier_in(DdpGroup *g, DdpLevelName name, const char *what) {
  DdpLevel *l = name == DDP_LEVEL_inside ? &g->inside : &g->between;
  return l->comm ? ddp_group_fail(g, name, l->backend->barrier(l->comm, what)) : NULL;
}

/* ---------- all-reduce ---------- */

struct DdpGroupWork {
  float *data;
  int64_t n;
  DdpDType wire;
  const char *what;
  DdpWork *inside, *between;
  bool passed_on;    /* leader: the second level has begun */
  bool seen;         /* progress has nothing more to do for it */
  uint64_t sequence; /* in the flight record */
  DdpGroupWork *next;
};

static void retire(DdpGroup *g, DdpGroupWork *w) {
  w->next = g->idle;
  g->idle = w;
}

static void free_works(DdpGroupWork *w) {
  while (w) {
    DdpGroupWork *next = w->next;
    free(w);
    w = next;
  }
}

/* Leaders hand a sum of their host on as soon as it is complete. */
static DdpError *pass_on(DdpGroup *g, DdpGroupWork *w) {
  if (w->passed_on || !g->between.comm) return NULL;
  w->passed_on = true;
  ddp_flight_start(g->flight, w->sequence);
  return ddp_group_fail(g, DDP_LEVEL_between,
                        g->between.backend->all_reduce(g->between.comm, w->data, w->n, w->wire,
                                                       w->what, NULL, &w->between));
}

/* In whose memory all-reduces work in place. */
static DdpLevelName arena_level(const DdpGroup *g) {
  return g->device.comm ? DDP_LEVEL_device : g->inside.comm ? DDP_LEVEL_inside : DDP_LEVEL_between;
}

static const DdpLevel *level_of(const DdpGroup *g, DdpLevelName name) {
  return name == DDP_LEVEL_device   ? &g->device
         : name == DDP_LEVEL_inside ? &g->inside
                                    : &g->between;
}

static DdpError *alloc_alone(size_t bytes, void **out) {
  size_t rounded = bytes ? (bytes + 63) / 64 * 64 : 64;
  *out = aligned_alloc(64, rounded);
  if (!*out) return ddp_error(DDP_MEMORY, "no memory for %zu bytes", bytes);
  memset(*out, 0, rounded);
  return NULL;
}

static bool is_alone(const DdpGroup *g) {
  return g->world == 1 && !g->device.comm;
}

DdpError *ddp_group_alloc(DdpGroup *g, size_t bytes, void **out) {
  if (g->n_arenas == DDP_GROUP_ARENAS)
    return ddp_error(DDP_FAILED, "too many arenas of a process group (internal fault)");
  if (is_alone(g)) {
    DDP_TRY(alloc_alone(bytes, out));
  } else {
    uint64_t n = ddp_group_arrive(g, DDP_FLIGHT_alloc, "memory", (int64_t)bytes);
    DdpLevelName name = arena_level(g);
    const DdpLevel *l = level_of(g, name);
    DdpError *e = ddp_group_fail(g, name, l->backend->alloc(l->comm, bytes, out));
    DDP_TRY(leave(g, n, "memory", e));
  }
  g->arenas[g->n_arenas++] = *out;
  return NULL;
}

/* Not after an error: a backend may still be busy with it, and the process ends. */
static void free_arenas(DdpGroup *g) {
  const DdpLevel *l = level_of(g, arena_level(g));
  for (int i = 0; i < g->n_arenas && !atomic_load(&g->leaving); i++) {
    if (is_alone(g))
      free(g->arenas[i]);
    else
      l->backend->free(l->comm, g->arenas[i]);
  }
}

DdpError *ddp_group_all_reduce_start(DdpGroup *g, float *data, int64_t n, DdpDType wire,
                                     const char *what, DdpGroupWork **out) {
  *out = NULL;
  if (g->world == 1 || n == 0) return NULL;
  int64_t bytes = n * (int64_t)(wire == DDP_f32 ? sizeof *data : sizeof(uint16_t));
  uint64_t sequence = ddp_group_arrive(g, DDP_FLIGHT_all_reduce, what, bytes);
  DdpGroupWork *w = g->idle;
  if (w)
    g->idle = w->next;
  else if (!(w = malloc(sizeof *w)))
    return ddp_error(DDP_MEMORY, "%s: no memory", what);
  *w = (DdpGroupWork){.data = data, .n = n, .wire = wire, .what = what, .sequence = sequence};
  DdpError *e = NULL;
  ddp_sum_compress(data, n, wire, g->world);
  if (g->inside.comm)
    e = ddp_group_fail(
        g, DDP_LEVEL_inside,
        g->inside.backend->all_reduce(g->inside.comm, data, n, wire, what, NULL, &w->inside));
  else
    e = pass_on(g, w);
  ddp_group_spend(g, what);
  if (e) {
    retire(g, w);
    return e;
  }
  DdpGroupWork **end = &g->works;
  while (*end) end = &(*end)->next;
  *end = w;
  *out = w;
  return NULL;
}

/* Second level begins in the order of the first one, on every leader the same. What is complete is
   recorded when it is seen. */
static DdpError *progress(DdpGroup *g) {
  const DdpLevelName name = g->inside.comm ? DDP_LEVEL_inside : DDP_LEVEL_between;
  const DdpLevel *l = g->inside.comm ? &g->inside : &g->between;
  for (DdpGroupWork *w = g->works; w; w = w->next) {
    DdpWork *work = g->inside.comm ? w->inside : w->between;
    bool done = false;
    if (!work || w->seen) continue;
    DDP_TRY(ddp_group_fail(g, name, l->backend->poll(work, &done)));
    if (!done) return NULL; /* one poll moves all of them, and they end in order */
    w->seen = true;
    if (g->two_level)
      DDP_TRY(pass_on(g, w));
    else
      ddp_flight_complete(g->flight, w->sequence);
  }
  return NULL;
}

DdpError *ddp_group_progress(DdpGroup *g) {
  enter(g);
  DdpError *e = progress(g);
  ddp_group_spend(g, "sums");
  return e;
}

static DdpError *finish_inside(DdpGroup *g, DdpGroupWork *w) {
  if (!w->inside) return NULL;
  DdpWork *inside = w->inside;
  w->inside = NULL;
  ddp_flight_start(g->flight, w->sequence);
  return ddp_group_fail(g, DDP_LEVEL_inside, g->inside.backend->wait(inside));
}

/* All that has begun goes on to the second level, so that whatever comes next there comes after it on every
   leader. */
static DdpError *pass_all_on(DdpGroup *g) {
  for (DdpGroupWork *v = g->works; v; v = v->next) {
    DDP_TRY(finish_inside(g, v));
    DDP_TRY(pass_on(g, v));
  }
  return NULL;
}

static DdpError *finish(DdpGroup *g, DdpGroupWork *w) {
  if (!g->two_level) {
    if (g->inside.comm) return finish_inside(g, w);
    DdpWork *between = w->between;
    w->between = NULL;
    return ddp_group_fail(g, DDP_LEVEL_between, g->between.backend->wait(between));
  }
  DDP_TRY(pass_all_on(g));
  if (w->between) {
    DdpWork *between = w->between;
    w->between = NULL;
    DDP_TRY(ddp_group_fail(g, DDP_LEVEL_between, g->between.backend->wait(between)));
  }
  return broadcast_in(g, DDP_LEVEL_inside, w->data, w->n * (int64_t)sizeof(float), 0, w->what);
}

DdpError *ddp_group_wait(DdpGroup *g, DdpGroupWork *w) {
  if (!w) return NULL;
  enter(g);
  g->op = DDP_FLIGHT_all_reduce;
  g->awaited = w->sequence;
  DdpError *e = leave(g, w->sequence, w->what, finish(g, w));
  DdpGroupWork **p = &g->works;
  while (*p != w) p = &(*p)->next;
  *p = w->next;
  retire(g, w);
  return e;
}

/* ---------- small values ---------- */

/* From the root's host to its leader, over the leaders, then inside the other hosts. */
static DdpError *broadcast(DdpGroup *g, void *data, int64_t bytes, int root, const char *what) {
  if (!g->two_level)
    return broadcast_in(g, g->inside.comm ? DDP_LEVEL_inside : DDP_LEVEL_between, data, bytes, root,
                        what);
  int root_host = g->members.host[root];
  bool same = g->members.host[g->rank] == root_host;
  if (same) DDP_TRY(broadcast_in(g, DDP_LEVEL_inside, data, bytes, g->members.local[root], what));
  DDP_TRY(broadcast_in(g, DDP_LEVEL_between, data, bytes, root_host, what));
  return same ? NULL : broadcast_in(g, DDP_LEVEL_inside, data, bytes, 0, what);
}

DdpError *ddp_group_broadcast(DdpGroup *g, void *data, int64_t bytes, int root, const char *what) {
  if (g->world == 1) return NULL;
  uint64_t n = ddp_group_arrive(g, DDP_FLIGHT_broadcast, what, bytes);
  return leave(g, n, what, broadcast(g, data, bytes, root, what));
}

/* Leaders exchange blocks as wide as the largest host. */
static DdpError *gather_two_level(DdpGroup *g, const void *mine, void *all, int64_t bytes,
                                  const char *what) {
  const DdpMembers *m = &g->members;
  size_t block = (size_t)m->widest * (size_t)bytes;
  char *here = calloc(1, block), *there = calloc((size_t)m->n_hosts, block);
  DdpError *e = here && there ? NULL : ddp_error(DDP_MEMORY, "%s: no memory", what);
  if (!e) e = gather_in(g, DDP_LEVEL_inside, mine, here, bytes, what);
  if (!e && g->leader) e = gather_in(g, DDP_LEVEL_between, here, there, (int64_t)block, what);
  for (int h = 0; !e && g->leader && h < m->n_hosts; h++) {
    for (int i = 0; i < ddp_members_count(m, h); i++)
      memcpy((char *)all + (size_t)ddp_members_rank(m, h, i) * (size_t)bytes,
             there + (size_t)h * block + (size_t)i * (size_t)bytes, (size_t)bytes);
  }
  if (!e) e = broadcast_in(g, DDP_LEVEL_inside, all, bytes * g->world, 0, what);
  free(here);
  free(there);
  return e;
}

static DdpError *gather(DdpGroup *g, const void *mine, void *all, int64_t bytes, DdpFlightOp op,
                        const char *what) {
  if (g->world == 1) {
    if (all != mine) memcpy(all, mine, (size_t)bytes);
    return NULL;
  }
  if (g->two_level) DDP_TRY(pass_all_on(g));
  uint64_t n = ddp_group_arrive(g, op, what, bytes);
  DdpLevelName level = g->inside.comm ? DDP_LEVEL_inside : DDP_LEVEL_between;
  return leave(g, n, what,
               g->two_level ? gather_two_level(g, mine, all, bytes, what)
                            : gather_in(g, level, mine, all, bytes, what));
}

DdpError *ddp_group_all_gather(DdpGroup *g, const void *mine, void *all, int64_t bytes,
                               const char *what) {
  return gather(g, mine, all, bytes, DDP_FLIGHT_all_gather, what);
}

/* Gathered, then added in the order of ranks: the same bits everywhere. */
DdpError *ddp_group_sum(DdpGroup *g, double *data, int n, const char *what) {
  if (g->world == 1 || n == 0) return NULL;
  size_t row = (size_t)n, need = (size_t)g->world * row;
  if (need > g->gathered_n) {
    free(g->gathered);
    g->gathered = malloc(need * sizeof *g->gathered);
    g->gathered_n = g->gathered ? need : 0;
  }
  double *all = g->gathered;
  if (!all) return ddp_error(DDP_MEMORY, "%s: no memory", what);
  DdpError *e = gather(g, data, all, (int64_t)(row * sizeof *all), DDP_FLIGHT_all_reduce, what);
  for (size_t i = 0; !e && i < row; i++) {
    data[i] = all[i];
    for (size_t r = 1; r < (size_t)g->world; r++) data[i] += all[r * row + i];
  }
  return e;
}

static DdpError *barrier(DdpGroup *g, const char *what) {
  DDP_TRY(barrier_in(g, DDP_LEVEL_inside, what));
  if (!g->two_level && g->inside.comm) return NULL;
  DDP_TRY(barrier_in(g, DDP_LEVEL_between, what));
  return g->two_level ? barrier_in(g, DDP_LEVEL_inside, what) : NULL;
}

DdpError *ddp_group_barrier(DdpGroup *g, const char *what) {
  if (g->world == 1) return NULL;
  uint64_t n = ddp_group_arrive(g, DDP_FLIGHT_barrier, what, 0);
  return leave(g, n, what, barrier(g, what));
}

/* ---------- ends ---------- */

void ddp_group_abort(DdpGroup *g, const DdpError *why) {
  if (!g || !g->control) return;
  atomic_store(&g->leaving, true);
  ddp_control_abort(g->control, why); /* first: the others wait for it */
  ddp_group_record(g, why);
}

void ddp_group_close(DdpGroup *g) {
  if (!g) return;
  if (g->control && !atomic_load(&g->leaving)) {
    ddp_group_at(g, atomic_load(&g->update), "end");
    DdpError *e = ddp_control_bye(g->control, ddp_clock() + g->timeout);
    if (e) ddp_log(DDP_LOG_warning, "at the end of the job: %s", e->message);
    ddp_error_free(e);
  }
  free_works(g->works);
  free_works(g->idle);
  free(g->gathered);
  free_arenas(g);
  release(g);
}
