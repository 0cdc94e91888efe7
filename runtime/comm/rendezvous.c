/* In: what the launcher said. Out: the meeting. What differs between launchers is only how the
   ranks learn rank 0's place: torchrun's store (its keys survive restarts, so an old entry is
   recognised by its nonce and read again), a given address, the launcher's PMI or PMIx, or an
   abstract unix socket on one host. */
#include "rendezvous.h"
#include "clock.h"
#include "log.h"
#include "meet.h"
#include "pmi.h"
#include "pmix.h"
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
enum { PLACES = 8, HOST = 256, ANNOUNCEMENT = 1024 };

typedef struct Place {
  char host[HOST];
  int port;
} Place;

typedef struct Seek { /* of a rank above 0 */
  DdpLaunch *launch;
  DdpMeet *meet;
  DdpMeeting *out;
  double start, next;
  Place places[PLACES]; /* where rank 0 may be; none: not known yet, or a socket of this host */
  int n_places;
  uint64_t nonce; /* that rank 0 announced, 0: it announced none */
  int store, foreign;
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
  if (!l->master_addr)
    snprintf(out, size, l->channel == DDP_CHANNEL_direct ? "this host" : "the host it announced");
  else if (l->ports > 1)
    snprintf(out, size, "%s:%d (or one of %d other ports of this Slurm step)", l->master_addr,
             ddp_launch_port(l, 0), l->ports - 1);
  else
    snprintf(out, size, "%s:%d", l->master_addr, l->master_port);
}

static void store_key(const DdpLaunch *l, char *out, size_t size) {
  snprintf(out, size, "ddpc/%s/ep", l->run_id ? l->run_id : "none");
}

static bool one_host(const DdpLaunch *l) {
  return l->local_world == l->world;
}

/* ---------- rank 0 ---------- */

static DdpError *bind_error(const DdpLaunch *l) {
  char place[400];
  place_of(l, place, sizeof place);
  if (errno == EADDRINUSE && l->ports > 1)
    return ddp_error(DDP_USAGE, "%s: all are taken; set MASTER_ADDR and MASTER_PORT", place);
  char owner[128] = "another job?";
  if (errno == EADDRINUSE) {
    ddp_net_port_owner(l->master_port, owner, sizeof owner);
    return ddp_error(
        DDP_USAGE,
        "MASTER_PORT %d is taken by another program (%s); set MASTER_PORT to a free port",
        l->master_port, owner);
  }
  return ddp_error(DDP_USAGE, "cannot listen on %s: %s", place, ddp_net_reason(errno));
}

/* torchrun's store, with proof that it is one. */
static DdpError *store_open(const DdpLaunch *l, const DdpMeet *meet, const char *key, int *out) {
  char last[128] = "";
  int present;
  while ((*out = ddp_tcpstore_open(l->master_addr, l->master_port, key, &present,
                                   sooner(ddp_clock() + dial_wait, meet->deadline))) < 0) {
    snprintf(last, sizeof last, "%s",
             errno == EPROTO ? "no store answers there" : ddp_net_reason(errno));
    if (ddp_clock() >= meet->deadline)
      return ddp_error(DDP_TIMEOUT,
                       "rendezvous: torchrun's store at %s:%d: %s, for %g s (ddp_timeout)",
                       l->master_addr, l->master_port, last, meet->timeout);
    pause_until(ddp_clock() + 0.2, meet->deadline);
  }
  return NULL;
}

static bool is_store(const DdpLaunch *l, double deadline) {
  int present;
  int fd = ddp_tcpstore_open(l->master_addr, l->master_port, "ddpc", &present,
                             sooner(ddp_clock() + dial_wait, deadline));
  if (fd >= 0) close(fd);
  return fd >= 0;
}

/* Publishes where this rank listens: the address of the route to the store, and the store's own
   name for hosts that resolve it differently. */
static DdpError *publish(const DdpLaunch *l, DdpMeet *meet, const DdpMeeting *m) {
  char key[512], local[DDP_NET_NAME], value[512];
  int fd, port;
  store_key(l, key, sizeof key);
  DDP_TRY(store_open(l, meet, key, &fd));
  ddp_net_local_name(fd, local);
  bool exact = one_host(l) || !ddp_net_is_loopback(local);
  meet->listener = ddp_net_listen(exact ? local : NULL, 0, &port);
  if (meet->listener < 0) {
    DdpError *e = ddp_error(DDP_FAILED, "cannot listen on %s: %s", local, strerror(errno));
    close(fd);
    return e;
  }
  snprintf(value, sizeof value, "%016" PRIx64 ",%d,%s,%s", m->nonce, port, local, l->master_addr);
  int rc = ddp_tcpstore_set(fd, key, value, sooner(ddp_clock() + dial_wait, meet->deadline));
  DdpError *e = rc ? ddp_error(DDP_FAILED, "rendezvous: torchrun's store at %s:%d: %s",
                               l->master_addr, l->master_port, strerror(errno))
                   : NULL;
  close(fd);
  return e;
}

/* Through the launcher: rank 0's text reaches all ranks. */
static DdpError *share(const DdpLaunch *l, const DdpMeet *meet, char text[ANNOUNCEMENT]) {
  if (l->channel == DDP_CHANNEL_pmi)
    return ddp_pmi_share(l->pmi_fd, l->rank, text, ANNOUNCEMENT, meet->deadline, meet->timeout);
  DDP_TRY(ddp_pmix_open(NULL, meet->timeout));
  DDP_TRY(ddp_pmix_share(text, ANNOUNCEMENT, meet->timeout));
  ddp_pmix_close();
  return NULL;
}

static DdpError *announce(const DdpLaunch *l, DdpMeet *meet, const DdpMeeting *m) {
  char addresses[PLACES][DDP_NET_NAME] = {"127.0.0.1"}, text[ANNOUNCEMENT];
  int port, n = one_host(l) ? 1 : ddp_net_own_addresses(addresses, PLACES);
  if (n == 0)
    return ddp_error(DDP_USAGE, "this host has no address that others could reach (of the "
                                "interfaces that GLOO_SOCKET_IFNAME allows); set MASTER_ADDR");
  meet->listener = ddp_net_listen(one_host(l) ? addresses[0] : NULL, 0, &port);
  if (meet->listener < 0) return ddp_error(DDP_FAILED, "cannot listen: %s", strerror(errno));
  int at = snprintf(text, sizeof text, "%016" PRIx64 ",%d", m->nonce, port);
  for (int i = 0; i < n; i++)
    at += snprintf(text + at, sizeof text - (size_t)at, ",%s", addresses[i]);
  return share(l, meet, text);
}

static DdpError *listen_at_address(DdpLaunch *l, DdpMeet *meet, const DdpMeeting *m) {
  int got;
  for (int i = 0; i == 0 || i < l->ports; i++) {
    int port = ddp_launch_port(l, i);
    /* One host: only what the name leads to. Several: the name may be another interface's (NAT). */
    meet->listener = ddp_net_listen(one_host(l) ? l->master_addr : NULL, port, &got);
    if (meet->listener < 0 && one_host(l) && errno != EADDRINUSE)
      meet->listener = ddp_net_listen(NULL, port, &got);
    if (meet->listener >= 0) return NULL;
    if (errno != EADDRINUSE) break;
  }
  int why = errno;
  if (why == EADDRINUSE && l->perhaps_store && is_store(l, meet->deadline)) {
    l->channel = DDP_CHANNEL_store;
    return publish(l, meet, m);
  }
  errno = why;
  return bind_error(l);
}

static DdpError *listen_here(const DdpLaunch *l, DdpMeet *meet) {
  char name[128];
  socket_name(l, name, sizeof name);
  meet->listener = ddp_net_listen_unix(name);
  meet->own_uid_only = true;
  if (meet->listener >= 0) return NULL;
  return ddp_error(DDP_PEER, "two processes are rank 0 of this job (%s): check the ranks",
                   strerror(errno));
}

static DdpError *start_listening(DdpLaunch *l, DdpMeet *meet, const DdpMeeting *m) {
  if (l->channel == DDP_CHANNEL_store) return publish(l, meet, m);
  if (l->channel != DDP_CHANNEL_direct) return announce(l, meet, m);
  return l->master_addr ? listen_at_address(l, meet, m) : listen_here(l, meet);
}

static DdpError *host(DdpLaunch *l, DdpMeet *meet, DdpMeeting *out) {
  out->nonce = ddp_net_nonce();
  DdpError *e = start_listening(l, meet, out);
  if (!e) e = ddp_meet_host(meet, out);
  if (meet->listener >= 0) close(meet->listener);
  return e;
}

/* ---------- the others ---------- */

/* "nonce,port,host,host ..." as rank 0 wrote it. */
static bool read_announcement(Seek *s, const char *text) {
  int at = 0, port;
  if (sscanf(text, "%" SCNx64 ",%d%n", &s->nonce, &port, &at) != 2) return false;
  s->n_places = 0;
  for (const char *p = text + at; *p == ',' && s->n_places < PLACES;) {
    size_t n = strcspn(++p, ",");
    Place *place = &s->places[s->n_places];
    if (n == 0 || n >= HOST) return false;
    memcpy(place->host, p, n);
    place->host[n] = 0;
    place->port = port;
    bool known = s->n_places > 0 && strcmp(s->places[0].host, place->host) == 0;
    if (!known) s->n_places++;
    p += n;
  }
  return s->n_places > 0;
}

/* Something else than this job's rank 0 answers at its address. true: for good. */
static bool is_wrong(Seek *s, DdpGreeting g, DdpError **error) {
  DdpLaunch *l = s->launch;
  char place[400];
  place_of(l, place, sizeof place);
  const char *what = g == DDP_GREETING_other ? "rank 0 of another job"
                                             : "a program that is not rank 0 of a ddp job";
  snprintf(s->last, sizeof s->last, "%s listens there", what);
  if (s->nonce || l->ports > 1) return false; /* the right one is elsewhere, or still to come */
  if (l->perhaps_store && is_store(l, s->meet->deadline)) {
    l->channel = DDP_CHANNEL_store;
    s->n_places = 0;
    return false;
  }
  if (++s->foreign < FOREIGN_LIMIT) return false;
  *error = ddp_error(DDP_PEER, "rendezvous: %s listens at %s; set MASTER_PORT to a free port", what,
                     place);
  return true;
}

/* Greets over fd (or notes why there is none). true: done, *error says how. */
static bool try_greet(Seek *s, int fd, DdpError **error) {
  uint64_t nonce = s->nonce;
  *error = NULL;
  if (fd < 0) {
    snprintf(s->last, sizeof s->last, "%s", ddp_net_reason(errno));
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
  if (g == DDP_GREETING_foreign || g == DDP_GREETING_other) return is_wrong(s, g, error);
  snprintf(s->last, sizeof s->last,
           g == DDP_GREETING_stale ? "an entry of an earlier round" : "it hung up");
  return false;
}

/* One look into torchrun's store for rank 0's announcement. */
static bool look_into_store(Seek *s) {
  const DdpLaunch *l = s->launch;
  char key[512], value[ANNOUNCEMENT];
  int present;
  double step = sooner(ddp_clock() + dial_wait, s->meet->deadline);
  store_key(l, key, sizeof key);
  if (s->store < 0) {
    s->store = ddp_tcpstore_open(l->master_addr, l->master_port, key, &present, step);
    if (s->store < 0) {
      snprintf(s->last, sizeof s->last, "torchrun's store: %s", ddp_net_reason(errno));
      return false;
    }
  } else {
    present = ddp_tcpstore_check(s->store, key, step);
  }
  if (present == 1 && ddp_tcpstore_get(s->store, key, value, sizeof value, step)) present = -1;
  if (present < 0) {
    close(s->store);
    s->store = -1;
    return false;
  }
  snprintf(s->last, sizeof s->last, "rank 0 has not published its address");
  return present && read_announcement(s, value);
}

static int dial_here(const DdpLaunch *l) {
  char name[128];
  socket_name(l, name, sizeof name);
  int fd = ddp_net_dial_unix(name);
  if (fd < 0 || ddp_net_peer_uid(fd) == (long)getuid()) return fd;
  close(fd);
  errno = EPERM;
  return -1;
}

static bool try_once(Seek *s, DdpError **error) {
  DdpLaunch *l = s->launch;
  *error = NULL;
  if (l->channel == DDP_CHANNEL_direct && !l->master_addr) return try_greet(s, dial_here(l), error);
  if (l->channel == DDP_CHANNEL_store && !look_into_store(s)) return false;
  for (int i = 0; i < s->n_places; i++) {
    double step = sooner(ddp_clock() + dial_wait, s->meet->deadline);
    const Place *p = &s->places[i];
    if (try_greet(s, ddp_net_dial(p->host, p->port, step), error)) return true;
  }
  return false;
}

static DdpError *first_places(Seek *s) {
  const DdpLaunch *l = s->launch;
  char text[ANNOUNCEMENT] = "";
  if (l->channel == DDP_CHANNEL_pmi || l->channel == DDP_CHANNEL_pmix) {
    DDP_TRY(share(l, s->meet, text));
    if (!read_announcement(s, text))
      return ddp_error_rank(DDP_PEER, 0, "rendezvous: rank 0 announced \"%s\", no address", text);
  } else if (l->channel == DDP_CHANNEL_direct && l->master_addr) {
    for (int i = 0; i == 0 || i < l->ports; i++) {
      Place *p = &s->places[s->n_places++];
      snprintf(p->host, sizeof p->host, "%s", l->master_addr);
      p->port = ddp_launch_port(l, i);
    }
  }
  return NULL;
}

static DdpError *seek(Seek *s) {
  DDP_TRY(first_places(s));
  DdpError *error = NULL;
  char place[400];
  place_of(s->launch, place, sizeof place);
  double wait = s->launch->master_addr ? retry_wait : 0.005;
  while (!try_once(s, &error)) {
    double now = ddp_clock();
    if (now >= s->meet->deadline) {
      error = ddp_error_rank(DDP_TIMEOUT, 0,
                             "rendezvous: rank 0 was not found at %s within %g s (ddp_timeout): %s",
                             place, s->meet->timeout, s->last);
      break;
    }
    if (now >= s->next) {
      ddp_log(DDP_LOG_warning, "waiting for rank 0 at %s since %.0f s: %s", place, now - s->start,
              s->last);
      s->next += progress_every;
    }
    pause_until(now + wait, s->meet->deadline);
    if (wait < 0.25) wait *= 1.2;
  }
  if (s->store >= 0) close(s->store);
  return error ? error : ddp_meet_table(s->meet, s->out);
}

static uint64_t job_hash(const char *job) {
  uint64_t h = 14695981039346656037u;
  for (const char *p = job; p && *p; p++) h = (h ^ (unsigned char)*p) * 1099511628211u;
  return job ? h : 0;
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
  DdpLaunch own = *launch; /* the channel may turn out to be another one */
  DdpMeet meet = {.listener = -1,
                  .deadline = now + timeout,
                  .timeout = timeout,
                  .job = job_hash(own.job),
                  .program = program};
  Seek s = {.launch = &own,
            .meet = &meet,
            .out = out,
            .start = now,
            .next = now + progress_every,
            .store = -1};
  DdpError *e = own.rank == 0 ? host(&own, &meet, out) : seek(&s);
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
