/* In: what the launcher said. Out: the meeting. What differs between launchers is only how the
   ranks learn rank 0's place: torchrun's store (its keys survive restarts, so an old entry is
   recognised by its nonce and read again), a given address, or an abstract unix socket on one
   host. */
#include "rendezvous.h"
#include "clock.h"
#include "log.h"
#include "meet.h"
#include "tcpstore.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double dial_wait = 3.0, retry_wait = 0.05, progress_every = 10.0;
enum { FOREIGN_LIMIT = 3 }; /* that many times the wrong program at rank 0's address: give up */

typedef struct Seek { /* of a rank above 0 */
  const DdpLaunch *launch;
  DdpMeet *meet;
  DdpMeeting *out;
  double start, next;
  int foreign;
  char last[256]; /* what the last attempt found */
} Seek;

static double sooner(double a, double b) {
  return a < b ? a : b;
}

static void pause_until(double when, double deadline) {
  double left = sooner(when, deadline) - ddp_clock();
  if (left <= 0) return;
  struct timespec t = {.tv_sec = (time_t)left,
                       .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
  nanosleep(&t, NULL);
}

static void socket_name(const DdpLaunch *l, char *out, size_t size) {
  snprintf(out, size, "ddp-%u-%s", (unsigned)getuid(), l->job_key);
}

static void place_of(const DdpLaunch *l, char *out, size_t size) {
  if (l->master_addr)
    snprintf(out, size, "%s:%d", l->master_addr, l->master_port);
  else
    snprintf(out, size, "this host");
}

static void store_key(const DdpLaunch *l, char *out, size_t size) {
  snprintf(out, size, "ddpc/%s/ep", l->run_id ? l->run_id : "none");
}

/* ---------- rank 0 ---------- */

static DdpError *bind_error(const DdpLaunch *l) {
  if (errno == EADDRINUSE)
    return ddp_error(
        DDP_USAGE,
        "MASTER_PORT %d is taken by another program (another job?); set MASTER_PORT to a free port",
        l->master_port);
  return ddp_error(DDP_USAGE, "cannot listen on %s:%d: %s", l->master_addr, l->master_port,
                   strerror(errno));
}

/* Publishes where this rank listens: the address of the route to the store, and the store's own
   name for hosts that resolve it differently. */
static DdpError *publish(const DdpLaunch *l, DdpMeet *meet, const DdpMeeting *m) {
  char key[512], local[DDP_NET_NAME], value[512], last[128] = "";
  int present, fd;
  store_key(l, key, sizeof key);
  while ((fd = ddp_tcpstore_open(l->master_addr, l->master_port, key, &present,
                                 sooner(ddp_clock() + dial_wait, meet->deadline))) < 0) {
    snprintf(last, sizeof last, "%s", errno == EPROTO ? "no store answers there" : strerror(errno));
    if (ddp_clock() >= meet->deadline)
      return ddp_error(DDP_TIMEOUT,
                       "rendezvous: torchrun's store at %s:%d: %s, for %g s (ddp_timeout)",
                       l->master_addr, l->master_port, last, meet->timeout);
    pause_until(ddp_clock() + 0.2, meet->deadline);
  }
  ddp_net_local_name(fd, local);
  bool one_host = l->local_world == l->world;
  bool exact = one_host || !ddp_net_is_loopback(local);
  int port;
  meet->listener = ddp_net_listen(exact ? local : NULL, 0, &port);
  if (meet->listener < 0) {
    DdpError *e = ddp_error(DDP_FAILED, "cannot listen on %s: %s", local, strerror(errno));
    close(fd);
    return e;
  }
  snprintf(value, sizeof value, "%016" PRIx64 " %d %s %s", m->nonce, port, local, l->master_addr);
  int rc = ddp_tcpstore_set(fd, key, value, sooner(ddp_clock() + dial_wait, meet->deadline));
  DdpError *e = rc ? ddp_error(DDP_FAILED, "rendezvous: torchrun's store at %s:%d: %s",
                               l->master_addr, l->master_port, strerror(errno))
                   : NULL;
  close(fd);
  return e;
}

static DdpError *host(const DdpLaunch *l, DdpMeet *meet, DdpMeeting *out) {
  out->nonce = ddp_net_nonce();
  if (l->agent_store) {
    DDP_TRY(publish(l, meet, out));
  } else if (l->master_addr) {
    int port;
    /* One host: only what the name leads to. Several: the name may be another interface's (NAT). */
    bool one_host = l->local_world == l->world;
    meet->listener = ddp_net_listen(one_host ? l->master_addr : NULL, l->master_port, &port);
    if (meet->listener < 0 && one_host && errno != EADDRINUSE)
      meet->listener = ddp_net_listen(NULL, l->master_port, &port);
    if (meet->listener < 0) return bind_error(l);
  } else {
    char name[128];
    socket_name(l, name, sizeof name);
    meet->listener = ddp_net_listen_unix(name);
    meet->own_uid_only = true;
    if (meet->listener < 0)
      return ddp_error(DDP_PEER, "two processes are rank 0 of this job (%s): check the ranks",
                       strerror(errno));
  }
  DdpError *e = ddp_meet_host(meet, out);
  close(meet->listener);
  return e;
}

/* ---------- the others ---------- */

/* Greets over fd (or notes why there is none). true: done, *error says how. */
static bool try_greet(Seek *s, int fd, uint64_t nonce, DdpError **error) {
  char place[300];
  place_of(s->launch, place, sizeof place);
  *error = NULL;
  if (fd < 0) {
    snprintf(s->last, sizeof s->last, "%s", strerror(errno));
    return false;
  }
  DdpGreeting g = ddp_meet_greet(fd, s->meet, s->out, &nonce, error);
  if (g == DDP_GREETING_ok && !*error) {
    s->out->links[0] = fd;
    s->out->nonce = nonce;
    return true;
  }
  close(fd);
  if (*error) return true;
  if (g == DDP_GREETING_foreign) {
    snprintf(s->last, sizeof s->last,
             "something that is not rank 0 of a ddp program listens there");
    if (++s->foreign < FOREIGN_LIMIT || s->launch->agent_store) return false;
    *error = ddp_error(DDP_PEER,
                       "rendezvous: a program that is not rank 0 of a ddp job listens at %s; set "
                       "MASTER_PORT to a free port",
                       place);
    return true;
  }
  snprintf(s->last, sizeof s->last,
           g == DDP_GREETING_stale ? "an entry of an earlier round" : "it hung up");
  return false;
}

/* One look into torchrun's store, one attempt at what stands there. */
static bool try_store(Seek *s, int *store, DdpError **error) {
  const DdpLaunch *l = s->launch;
  char key[512], value[512], local[256], named[256];
  int present, port;
  uint64_t nonce;
  double step = sooner(ddp_clock() + dial_wait, s->meet->deadline);
  store_key(l, key, sizeof key);
  if (*store < 0) {
    *store = ddp_tcpstore_open(l->master_addr, l->master_port, key, &present, step);
    if (*store < 0) {
      snprintf(s->last, sizeof s->last, "torchrun's store: %s", strerror(errno));
      return false;
    }
  } else {
    present = ddp_tcpstore_check(*store, key, step);
  }
  if (present == 1 && ddp_tcpstore_get(*store, key, value, sizeof value, step)) present = -1;
  if (present < 0) {
    close(*store);
    *store = -1;
    return false;
  }
  snprintf(s->last, sizeof s->last, "rank 0 has not published its address");
  if (!present || sscanf(value, "%" SCNx64 " %d %255s %255s", &nonce, &port, local, named) != 4)
    return false;
  if (try_greet(s, ddp_net_dial(local, port, step), nonce, error)) return true;
  if (strcmp(local, named) == 0 || s->launch->local_world == s->launch->world) return false;
  return try_greet(s, ddp_net_dial(named, port, step), nonce, error);
}

static bool try_once(Seek *s, int *store, DdpError **error) {
  const DdpLaunch *l = s->launch;
  if (l->agent_store) return try_store(s, store, error);
  double step = sooner(ddp_clock() + dial_wait, s->meet->deadline);
  if (l->master_addr)
    return try_greet(s, ddp_net_dial(l->master_addr, l->master_port, step), 0, error);
  char name[128];
  socket_name(l, name, sizeof name);
  int fd = ddp_net_dial_unix(name);
  if (fd >= 0 && ddp_net_peer_uid(fd) != (long)getuid()) {
    close(fd);
    fd = -1;
    errno = EPERM;
  }
  return try_greet(s, fd, 0, error);
}

static DdpError *seek(Seek *s) {
  int store = -1;
  DdpError *error = NULL;
  char place[300];
  place_of(s->launch, place, sizeof place);
  double wait = s->launch->master_addr ? retry_wait : 0.005;
  while (!try_once(s, &store, &error)) {
    double now = ddp_clock();
    if (now >= s->meet->deadline) {
      error = ddp_error_rank(DDP_TIMEOUT, 0,
                             "rendezvous: rank 0 was not found at %s within %g s (ddp_timeout): %s",
                             place, s->meet->timeout, s->last);
      break;
    }
    if (now >= s->next) {
      ddp_log(DDP_LOG_info, "waiting for rank 0 at %s since %.0f s: %s", place, now - s->start,
              s->last);
      s->next += progress_every;
    }
    pause_until(now + wait, s->meet->deadline);
    if (wait < 0.25) wait *= 1.2;
  }
  if (store >= 0) close(store);
  return error ? error : ddp_meet_table(s->meet, s->out);
}

DdpError *ddp_rendezvous(DdpMeeting *out, const DdpLaunch *launch, const DdpProgramId *program,
                         double timeout) {
  int world = launch->world;
  *out = (DdpMeeting){.rank = launch->rank, .world = world};
  out->links = malloc((size_t)world * sizeof *out->links);
  out->peers = calloc((size_t)world, sizeof *out->peers);
  if (!out->links || !out->peers) {
    ddp_meeting_close(out);
    return ddp_error(DDP_MEMORY, "no memory for a table of %d ranks", world);
  }
  for (int r = 0; r < world; r++) out->links[r] = -1;
  double now = ddp_clock();
  DdpMeet meet = {
      .listener = -1, .deadline = now + timeout, .timeout = timeout, .program = program};
  Seek s = {
      .launch = launch, .meet = &meet, .out = out, .start = now, .next = now + progress_every};
  DdpError *e = launch->rank == 0 ? host(launch, &meet, out) : seek(&s);
  if (e) ddp_meeting_close(out);
  return e;
}

void ddp_meeting_close(DdpMeeting *m) {
  for (int r = 0; m->links && r < m->world; r++) {
    if (m->links[r] >= 0) close(m->links[r]);
  }
  free(m->links);
  free(m->peers);
  m->links = NULL;
  m->peers = NULL;
}
