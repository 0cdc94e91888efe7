/* In: an error of a backend, the positions of all ranks. Out: one error that names the operation,
   the update and the rank that is to blame; the watchdog that ends a rank which does not come back.
   Holds: the first error of the job is the one that every call returns. */
#include "group_state.h"
#include "clock.h"
#include "log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Seconds: silent for longer is stopped; true cause of a broken connection is awaited; a rank that
   is still computing long after the job's first error is ended. */
static const double silent = 1.0, cause_wait = 1.0, grace = 1.75;
/* Phases of a rank for which the others wait longer. */
static const char saving[] = "saving", opening[] = "opening";

int ddp_group_rank_of(const DdpGroup *g, DdpLevelName level, int number) {
  if (number < 0) return -1;
  if (level == DDP_LEVEL_inside)
    return ddp_members_rank(&g->members, g->members.host[g->rank], number);
  bool leaders = level == DDP_LEVEL_between && g->two_level;
  return leaders ? ddp_members_rank(&g->members, number, 0) : number;
}

static int own_unreachable(DdpGroup *g) {
  const DdpLevel *l = &g->between;
  if (!atomic_load(&g->opened) || !l->comm || !l->backend->unreachable) return -1;
  return ddp_group_rank_of(g, DDP_LEVEL_between, l->backend->unreachable(l->comm));
}

typedef struct Missing {
  int rank; /* to blame, -1: not known */
  int from; /* to which it does not get through, though both are heard of; -1: no such */
} Missing;

/* Who is missing: a rank that does not answer (rank 0 first: what is known of the others went
   through it), else one end of a connection that is cut, else the one that the backend saw, else the one
   that has come least far. */
static Missing suspect(DdpGroup *g, int seen) {
  Missing cut = {-1, -1}, late = {seen, -1};
  uint64_t least = atomic_load(&g->arrived);
  for (int r = 0; r < g->world; r++) {
    DdpPosition p = {.arrived = least, .unreachable = -1};
    double age = 0;
    if (r == g->rank)
      p.unreachable = own_unreachable(g);
    else
      ddp_control_position(g->control, r, &p, &age);
    if (age > silent) return (Missing){r, -1};
    if (p.unreachable >= 0 && cut.rank < 0) cut = (Missing){p.unreachable, r};
    if (p.arrived < least && seen < 0) {
      least = p.arrived;
      late.rank = r;
    }
  }
  return cut.rank >= 0 ? cut : late;
}

static void describe(DdpGroup *g, int rank, char *out, size_t size) {
  DdpPosition p;
  double age;
  ddp_control_position(g->control, rank, &p, &age);
  const char *host = ddp_control_peers(g->control)[rank].host_name;
  if (age > silent && p.cut)
    snprintf(out, size,
             "nothing reaches its host %s for %.1f s: it is gone, or the network to it is cut",
             host, age);
  else if (age > silent)
    snprintf(out, size, "it has not answered for %.1f s, though its host does: it is stopped", age);
  else if (p.phase[0])
    snprintf(out, size, "it is alive, in phase \"%s\" of update %lld", p.phase,
             (long long)p.update);
  else
    snprintf(out, size, "it is alive");
}

static bool busy(DdpGroup *g, int rank) {
  DdpPosition p;
  double age;
  if (rank < 0 || rank == g->rank) return false;
  ddp_control_position(g->control, rank, &p, &age);
  return age <= silent && (strncmp(p.phase, saving, sizeof saving - 1) == 0 ||
                           strncmp(p.phase, opening, sizeof opening - 1) == 0);
}

bool ddp_group_patience_inside(void *group, int local) {
  return busy(group, ddp_group_rank_of(group, DDP_LEVEL_inside, local));
}

bool ddp_group_patience_between(void *group, int number) {
  (void)number; /* neither Gloo nor NCCL knows who is missing */
  return busy(group, suspect(group, -1).rank);
}

/* The others that are missing, as far as it is known: news of them comes through rank 0. */
static void list_absent(DdpGroup *g, int blamed, char *out, size_t size) {
  DdpPosition p;
  double age;
  int n = 0;
  *out = 0;
  if (g->rank != 0) {
    ddp_control_position(g->control, 0, &p, &age);
    if (age > silent) return;
  }
  for (int r = 0; r < g->world; r++) {
    if (r == g->rank || r == blamed) continue;
    ddp_control_position(g->control, r, &p, &age);
    if (age <= silent && p.arrived >= g->awaited) continue;
    size_t used = strlen(out);
    if (n++ < 8)
      snprintf(out + used, size - used, "%s%d", used ? ", " : "; neither did rank ", r);
    else if (n == 9)
      snprintf(out + used, size - used, " and others");
  }
}

/* "update 12: all-reduce of bucket 0"; update below 0: before the first; op and name "": in none. */
static void put_doing(char *out, size_t size, int64_t update, const char *op, const char *name) {
  int n = update >= 0 ? snprintf(out, size, "update %lld", (long long)update) : 0;
  snprintf(out + n, size - (size_t)n, "%s%s%s", n && (*op || *name) ? ": " : "", op, name);
}

static DdpError *timed_out(DdpGroup *g, Missing missing, const DdpError *e) {
  char doing[256], what[256] = "", others[160];
  int rank = missing.rank;
  put_doing(doing, sizeof doing, atomic_load(&g->update), ddp_flight_op_words(g->op), e->message);
  if (rank < 0)
    return ddp_error(DDP_TIMEOUT, "%s did not finish within %g s (ddp_timeout)", doing, g->timeout);
  const DdpPeer *peers = ddp_control_peers(g->control);
  if (missing.from >= 0)
    return ddp_error_rank(
        DDP_TIMEOUT, rank,
        "%s did not finish within %g s (ddp_timeout): nothing gets through between "
        "rank %d on %s and rank %d on %s, though both are alive: the network between them is cut",
        doing, g->timeout, missing.from, peers[missing.from].host_name, rank,
        peers[rank].host_name);
  describe(g, rank, what, sizeof what);
  list_absent(g, rank, others, sizeof others);
  return ddp_error_rank(DDP_TIMEOUT, rank,
                        "%s: rank %d did not arrive within %g s (ddp_timeout); %s%s", doing, rank,
                        g->timeout, what, others);
}

DdpError *ddp_group_fail(DdpGroup *g, DdpLevelName level, DdpError *e) {
  if (!e) return NULL;
  /* A broken connection is an effect; its cause is on its way over the control plane. */
  double wait = e->klass == DDP_PEER && e->rank < 0 ? cause_wait : 0;
  DdpError *known = ddp_control_error_soon(g->control, wait);
  if (!known) {
    int rank = ddp_group_rank_of(g, level, e->rank);
    if (e->klass == DDP_TIMEOUT) {
      DdpError *worded = timed_out(g, suspect(g, rank), e);
      ddp_error_free(e);
      e = worded;
    } else {
      e->rank = rank;
    }
    ddp_control_abort(g->control, e);
    known = ddp_control_error(g->control);
  }
  atomic_store(&g->leaving, true);
  if (!known) return e;
  ddp_error_free(e);
  return known;
}

/* ---------- the flight record ---------- */

static int peers_of(DdpGroup *g, DdpPosition *at, DdpFlightPeer *out) {
  int n = 0;
  for (int r = 0; r < g->world; r++) {
    double age;
    if (r == g->rank) continue;
    ddp_control_position(g->control, r, &at[n], &age);
    out[n] = (DdpFlightPeer){.rank = r,
                             .sequence = at[n].arrived,
                             .update = at[n].update,
                             .phase = at[n].phase,
                             .silent = age};
    n++;
  }
  return n;
}

void ddp_group_record(DdpGroup *g, const DdpError *why) {
  if (why->klass == DDP_USAGE || why->klass == DDP_DATA || why->klass == DDP_NUMERIC ||
      why->klass == DDP_STOPPED)
    return;
  DdpFlightCause cause = {.reason = why->message,
                          .code = (int)why->klass,
                          .blamed = why->rank >= 0 ? why->rank : g->rank,
                          .update = atomic_load(&g->update),
                          .phase = atomic_load(&g->phase)};
  DdpPosition *at = calloc((size_t)g->world, sizeof *at);
  DdpFlightPeer *peers = calloc((size_t)g->world, sizeof *peers);
  cause.peers = peers;
  if (at && peers) cause.n_peers = peers_of(g, at, peers);
  if (!ddp_flight_write(g->flight, &cause)) /* on a full disk: nothing new */
    ddp_log(why->klass == DDP_IO ? DDP_LOG_debug : DDP_LOG_warning, "cannot write '%s': %s",
            ddp_flight_path(g->flight), strerror(errno));
  free(at);
  free(peers);
}

void ddp_group_crash(DdpGroup *g, int code, const char *reason) {
  const DdpFlightCause cause = {.reason = reason,
                                .code = code,
                                .blamed = g->rank,
                                .update = ddp_group_update(g),
                                .phase = ddp_group_phase(g)};
  ddp_flight_write(g->flight, &cause); /* nobody is left to be told that it failed */
}

/* ---------- hooks of the control thread ---------- */

static void position(void *self, DdpPosition *out) {
  DdpGroup *g = self;
  out->arrived = atomic_load(&g->arrived);
  out->update = atomic_load(&g->update);
  out->stop = atomic_load(&g->stop);
  snprintf(out->phase, sizeof out->phase, "%s", atomic_load(&g->phase));
  out->unreachable = own_unreachable(g);
}

static void doing(void *self, char *out, size_t size) {
  DdpGroup *g = self;
  DdpFlightEntry e;
  if (ddp_flight_pending(g->flight, &e))
    put_doing(out, size, e.update, ddp_flight_op_words(e.op), e.name);
  else
    put_doing(out, size, atomic_load(&g->update), "", "");
}

static void failed(void *self) {
  DdpGroup *g = self;
  if (!atomic_load(&g->opened)) return;
  if (g->inside.comm) g->inside.backend->abort(g->inside.comm);
  if (g->between.comm) g->between.backend->abort(g->between.comm);
  if (atomic_load(&g->device_opened)) g->device.backend->abort(g->device.comm);
}

/* The training thread has not come back since the first error: it computes, or hangs. A rank that saves
   has all it needs for that and may finish. */
static void tick(void *self, double since) {
  DdpGroup *g = self;
  bool saves = strncmp(atomic_load(&g->phase), saving, sizeof saving - 1) == 0;
  double wait = saves && g->timeout > grace ? g->timeout : grace;
  if (since < wait || atomic_load(&g->leaving)) return;
  DdpError *e = ddp_control_error(g->control);
  ddp_log(DDP_LOG_error, "%s", e->message);
  ddp_group_record(g, e);
  ddp_launch_report(&g->launch, e);
  _exit((int)e->klass);
}

DdpControlHooks ddp_group_hooks(DdpGroup *g) {
  return (DdpControlHooks){.self = g,
                           .position = position,
                           .doing = doing,
                           .failed = failed,
                           .tick = tick,
                           .timeout = g->timeout,
                           .with_parent = strcmp(g->launch.by, "torchrun") == 0};
}
