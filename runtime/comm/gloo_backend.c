/* Backend over Gloo. In: collectives on any memory. Out: the same, run in order by one worker
   thread that may block; the caller goes on computing. Holds: a wait ends by the deadline, because
   then the mesh's sockets are shut, which ends the worker's call; after any error the communicator
   is finished. */
#include "comm.h"
#include "clock.h"
#include "env.h"
#include "gloo_plugin.h"
#include "net.h"
#include "sum.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double shut_wait = 0.2, look_every = 0.25; /* seconds */

typedef enum GlooKind { GLOO_ALL_REDUCE, GLOO_BROADCAST, GLOO_ALL_GATHER, GLOO_BARRIER } GlooKind;

typedef struct GlooWork {
  struct DdpComm *comm;
  GlooKind kind;
  void *data;
  const void *mine;
  size_t n;      /* floats or bytes */
  DdpDType wire; /* of floats; 16 bits are packed by the worker: */
  uint16_t *packed;
  size_t packed_n; /* room; kept with the work */
  int root;
  uint32_t tag;
  const char *what;
  bool done;
  char *error; /* NULL: success */
  struct GlooWork *next;
} GlooWork;

struct DdpComm {
  const DdpGlooPlugin *plugin;
  DdpGlooContext *context;
  DdpStore *store;
  int rank, world;
  char (*addresses)[DDP_NET_NAME]; /* [world]: of each rank's end of its connections */
  int *sockets;
  size_t n_sockets;
  char prefix[64];
  double open_deadline, timeout;
  bool (*patience)(void *, int);
  void *patience_self;
  pthread_t thread;
  bool started;
  uint32_t tags;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  GlooWork *head; /* not yet done; the first one is running */
  GlooWork *idle; /* waited for, used again */
  bool stop, failed, aborted;
  bool was_shut;
  int cut; /* found unreachable before the sockets were shut, which then tell nothing any more */
};

/* ---------- sockets ---------- */

static int first_cut(const DdpComm *c) {
  for (size_t i = 0; i < c->n_sockets; i++) {
    char peer[DDP_NET_NAME];
    if (!ddp_net_cut(c->sockets[i], 2)) continue;
    ddp_net_peer_name(c->sockets[i], peer);
    for (int r = 0; r < c->world; r++) {
      if (r != c->rank && peer[0] && strcmp(c->addresses[r], peer) == 0) return r;
    }
  }
  return -1;
}

static int gloo_unreachable(DdpComm *c) {
  pthread_mutex_lock(&c->lock);
  int rank = c->was_shut ? c->cut : first_cut(c);
  pthread_mutex_unlock(&c->lock);
  return rank;
}

/* Wakes the worker wherever it is. The lock is held. */
static void shut(DdpComm *c) {
  if (!c->was_shut) c->cut = first_cut(c);
  c->was_shut = true;
  c->plugin->shut(c->context);
}

/* ---------- worker ---------- */

static int all_reduce(DdpComm *c, const GlooWork *w, char *error, size_t size) {
  if (w->wire == DDP_f32)
    return c->plugin->all_reduce(c->context, w->data, w->n, sizeof(float), ddp_sum_into(w->wire),
                                 w->tag, error, size);
  ddp_sum_pack(w->packed, w->data, w->n, w->wire);
  int rc = c->plugin->all_reduce(c->context, w->packed, w->n, sizeof *w->packed,
                                 ddp_sum_into(w->wire), w->tag, error, size);
  if (!rc) ddp_sum_unpack(w->data, w->packed, w->n, w->wire);
  return rc;
}

static int run(DdpComm *c, const GlooWork *w, char *error, size_t size) {
  switch (w->kind) {
  case GLOO_ALL_REDUCE:
    return all_reduce(c, w, error, size);
  case GLOO_BROADCAST:
    return c->plugin->broadcast(c->context, w->data, w->n, w->root, w->tag, error, size);
  case GLOO_ALL_GATHER:
    return c->plugin->all_gather(c->context, w->mine, w->data, w->n, w->tag, error, size);
  case GLOO_BARRIER:
    return c->plugin->barrier(c->context, w->tag, error, size);
  }
  return -1;
}

static void *work(void *argument) {
  DdpComm *c = argument;
  char error[512];
  pthread_mutex_lock(&c->lock);
  for (;;) {
    while (!c->head && !c->stop) pthread_cond_wait(&c->changed, &c->lock);
    GlooWork *w = c->head;
    if (!w) break;
    bool failed = c->failed || c->aborted;
    pthread_mutex_unlock(&c->lock);
    snprintf(error, sizeof error, "given up");
    int rc = failed ? -1 : run(c, w, error, sizeof error);
    pthread_mutex_lock(&c->lock);
    if (rc) {
      c->failed = true;
      w->error = strdup(error);
    }
    w->done = true;
    c->head = w->next;
    pthread_cond_broadcast(&c->changed);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

/* A finished work with room for what is packed, else any finished one, else a new one. */
static GlooWork *take(DdpComm *c, size_t packed) {
  GlooWork **best = &c->idle; /* touched by the caller's thread only */
  for (GlooWork **p = &c->idle; *p; p = &(*p)->next) {
    bool fits = (*p)->packed_n >= packed;
    if (fits && ((*best)->packed_n < packed || (*p)->packed_n < (*best)->packed_n)) best = p;
  }
  GlooWork *w = *best;
  if (w)
    *best = w->next;
  else if (!(w = calloc(1, sizeof *w)))
    return NULL;
  if (packed > w->packed_n) {
    free(w->packed);
    w->packed = malloc(packed * sizeof *w->packed);
    w->packed_n = w->packed ? packed : 0;
  }
  if (packed <= w->packed_n) return w;
  free(w);
  return NULL;
}

static DdpError *submit(DdpComm *c, const GlooWork *model, DdpWork **out) {
  *out = NULL;
  GlooWork *w = take(c, model->wire == DDP_f32 ? 0 : model->n);
  if (!w) return ddp_error(DDP_MEMORY, "%s: no memory", model->what);
  GlooWork whole = *model;
  whole.packed = w->packed;
  whole.packed_n = w->packed_n;
  *w = whole;
  w->comm = c;
  w->tag = ++c->tags;
  pthread_mutex_lock(&c->lock);
  GlooWork **end = &c->head;
  while (*end) end = &(*end)->next;
  *end = w;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
  *out = (DdpWork *)w;
  return NULL;
}

static DdpError *gloo_poll(DdpWork *handle, bool *done) {
  GlooWork *w = (GlooWork *)handle;
  *done = true;
  if (!w) return NULL;
  pthread_mutex_lock(&w->comm->lock);
  *done = w->done;
  pthread_mutex_unlock(&w->comm->lock);
  return NULL;
}

static void wait_changed(DdpComm *c, double deadline) {
  struct timespec t = {.tv_sec = (time_t)deadline};
  t.tv_nsec = (long)((deadline - (double)t.tv_sec) * 1e9);
  pthread_cond_timedwait(&c->changed, &c->lock, &t);
}

/* Until done, given up or out of time; an error in the last case. The lock is held. */
static DdpError *wait_done(DdpComm *c, const GlooWork *w) {
  double last = ddp_clock(), deadline = last + c->timeout;
  while (!w->done && !c->aborted) {
    deadline += ddp_clock_paused(&last);
    if (last < deadline) {
      wait_changed(c, last + look_every < deadline ? last + look_every : deadline);
      continue;
    }
    pthread_mutex_unlock(&c->lock);
    bool more = c->patience && c->patience(c->patience_self, -1);
    pthread_mutex_lock(&c->lock);
    deadline = ddp_clock() + c->timeout;
    if (more || w->done) continue;
    c->failed = true;
    shut(c);
    return ddp_error(DDP_TIMEOUT, "%s", w->what);
  }
  return NULL;
}

/* Whether the worker comes back from sockets that were shut. Now and then Gloo sleeps on in a send
   that it had not begun; then the worker keeps its work for good. The lock is held. */
static bool worker_returns(DdpComm *c, const GlooWork *w) {
  double deadline = ddp_clock() + shut_wait;
  while ((w ? !w->done : c->head != NULL) && ddp_clock() < deadline) wait_changed(c, deadline);
  return w ? w->done : c->head == NULL;
}

static DdpError *gloo_wait(DdpWork *handle) {
  GlooWork *w = (GlooWork *)handle;
  if (!w) return NULL;
  DdpComm *c = w->comm;
  pthread_mutex_lock(&c->lock);
  DdpError *e = wait_done(c, w);
  bool returned = worker_returns(c, w);
  pthread_mutex_unlock(&c->lock);
  if (!returned) return e ? e : ddp_error(DDP_PEER, "%s was given up", w->what);
  if (w->error && !e) e = ddp_error(DDP_PEER, "%s: Gloo: %s", w->what, w->error);
  free(w->error);
  w->next = c->idle;
  c->idle = w;
  return e;
}

/* ---------- collectives ---------- */

static DdpError *gloo_all_reduce(DdpComm *c, void *data, int64_t n, DdpDType wire, const char *what,
                                 void *stream, DdpWork **out) {
  (void)stream;
  *out = NULL;
  if (n == 0) return NULL;
  GlooWork w = {.kind = GLOO_ALL_REDUCE, .data = data, .n = (size_t)n, .wire = wire, .what = what};
  return submit(c, &w, out);
}

static DdpError *gloo_broadcast(DdpComm *c, void *data, int64_t bytes, int root, const char *what,
                                void *stream, DdpWork **out) {
  (void)stream;
  *out = NULL;
  if (bytes == 0) return NULL;
  GlooWork w = {.kind = GLOO_BROADCAST,
                .wire = DDP_f32,
                .data = data,
                .n = (size_t)bytes,
                .root = root,
                .what = what};
  return submit(c, &w, out);
}

static DdpError *gloo_all_gather(DdpComm *c, const void *mine, void *all, int64_t bytes,
                                 const char *what, void *stream, DdpWork **out) {
  (void)stream;
  *out = NULL;
  if (bytes == 0) return NULL;
  GlooWork w = {.kind = GLOO_ALL_GATHER,
                .wire = DDP_f32,
                .mine = mine,
                .data = all,
                .n = (size_t)bytes,
                .what = what};
  return submit(c, &w, out);
}

static DdpError *gloo_barrier(DdpComm *c, const char *what) {
  GlooWork w = {.kind = GLOO_BARRIER, .wire = DDP_f32, .what = what};
  DdpWork *work = NULL;
  DDP_TRY(submit(c, &w, &work));
  return gloo_wait(work);
}

/* ---------- life ---------- */

static int store_set(void *self, const char *key, const void *data, size_t size) {
  DdpComm *c = self;
  char full[256];
  snprintf(full, sizeof full, "%s/%s", c->prefix, key);
  DdpError *e = ddp_store_set(c->store, full, data, size);
  ddp_error_free(e);
  return e != NULL;
}

static int store_get(void *self, const char *key, void **out, size_t *size) {
  DdpComm *c = self;
  char full[256];
  snprintf(full, sizeof full, "%s/%s", c->prefix, key);
  DdpError *e = ddp_store_get(c->store, full, c->open_deadline, out, size);
  ddp_error_free(e);
  return e != NULL;
}

/* All ranks are asked for first: Gloo's own wait for one that never comes is five times too
   long. */
static DdpError *meet(DdpComm *c, const DdpCommOptions *o) {
  char key[256];
  for (int r = -1; r < o->world; r++) {
    snprintf(key, sizeof key, "%s/here/%d", o->prefix, r < 0 ? o->rank : r);
    if (r < 0) {
      DDP_TRY(ddp_store_set(o->store, key, "", 0));
      continue;
    }
    void *data;
    size_t n;
    DdpError *e = ddp_store_get(o->store, key, c->open_deadline, &data, &n);
    if (!e) {
      free(data);
    } else if (e->klass == DDP_TIMEOUT) {
      ddp_error_free(e);
      return ddp_error_rank(DDP_TIMEOUT, r, "opening Gloo");
    } else {
      return e;
    }
  }
  return NULL;
}

/* Which connection leads to whom: every rank tells by which address it takes part. */
static DdpError *find_connections(DdpComm *c) {
  size_t limit = (size_t)c->world;
  char key[256], mine[DDP_NET_NAME] = "";
  c->addresses = calloc(limit, sizeof *c->addresses);
  c->sockets = calloc(limit, sizeof *c->sockets);
  if (!c->addresses || !c->sockets) return ddp_error(DDP_MEMORY, "no memory for Gloo");
  c->n_sockets = c->plugin->sockets(c->context, c->sockets, limit);
  for (size_t i = 0; i < c->n_sockets; i++) ddp_net_keep_alive(c->sockets[i]);
  if (c->n_sockets) ddp_net_local_name(c->sockets[0], mine);
  for (int r = -1; r < c->world; r++) {
    void *data;
    size_t n;
    snprintf(key, sizeof key, "%s/at/%d", c->prefix, r < 0 ? c->rank : r);
    if (r < 0) {
      DDP_TRY(ddp_store_set(c->store, key, mine, strlen(mine)));
      continue;
    }
    DdpError *e = ddp_store_get(c->store, key, c->open_deadline, &data, &n);
    if (e && e->klass == DDP_TIMEOUT) {
      ddp_error_free(e);
      return ddp_error_rank(DDP_TIMEOUT, r, "opening Gloo");
    }
    DDP_TRY(e);
    snprintf(c->addresses[r], sizeof *c->addresses, "%.*s", (int)n, (char *)data);
    free(data);
  }
  return NULL;
}

static bool gloo_probe(const char **why) {
  return ddp_gloo_load(why) != NULL;
}

static void gloo_close(DdpComm *c) {
  if (!c) return;
  if (c->started) {
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    if (c->head && c->context) shut(c);
    pthread_cond_broadcast(&c->changed);
    bool returned = worker_returns(c, NULL);
    pthread_mutex_unlock(&c->lock);
    if (!returned) { /* it still uses all of this; the process is about to end */
      pthread_detach(c->thread);
      return;
    }
    pthread_join(c->thread, NULL);
  }
  if (c->context) c->plugin->close(c->context);
  while (c->idle) {
    GlooWork *w = c->idle;
    c->idle = w->next;
    free(w->packed);
    free(w);
  }
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->changed);
  free(c->addresses);
  free(c->sockets);
  free(c);
}

static DdpError *start_worker(DdpComm *c) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int rc = pthread_create(&c->thread, NULL, work, c);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  c->started = rc == 0;
  return rc ? ddp_error(DDP_FAILED, "cannot start Gloo's worker thread: %s", strerror(rc)) : NULL;
}

/* Gloo's text without the line of its source. */
static DdpError *open_error(const DdpCommOptions *o, const char *text) {
  const char *words = *text == '[' ? strstr(text, "] ") : NULL;
  const char *interface = ddp_env(DDP_ENV_GLOO_SOCKET_IFNAME);
  char place[128];
  words = words ? words + 2 : text;
  if (*interface)
    snprintf(place, sizeof place, "on interface %s (GLOO_SOCKET_IFNAME)", interface);
  else
    snprintf(place, sizeof place, "at %s", o->address);
  if (strstr(words, "Unable to find address for"))
    return ddp_error(DDP_USAGE, "opening Gloo %s: there is no such address here", place);
  if (strncmp(words, "Connect timeout", 15) == 0)
    return ddp_error(
        DDP_TIMEOUT,
        "opening Gloo %s (%s: does a firewall let any port through between the hosts?)", place,
        words);
  return ddp_error(DDP_PEER, "opening Gloo %s: %s", place, words);
}

static DdpError *gloo_open(DdpComm **out, const DdpCommOptions *o) {
  const char *why;
  const DdpGlooPlugin *plugin = ddp_gloo_load(&why);
  if (!plugin) return ddp_error(DDP_FAILED, "%s", why);
  if (strncmp(o->address, "fe80:", 5) == 0 && !*ddp_env(DDP_ENV_GLOO_SOCKET_IFNAME))
    return ddp_error(DDP_USAGE,
                     "Gloo cannot use the link-local address %s; give as MASTER_ADDR an address of "
                     "a network that the "
                     "hosts share, or name an interface with GLOO_SOCKET_IFNAME",
                     o->address);
  DdpComm *c = calloc(1, sizeof *c);
  if (!c) return ddp_error(DDP_MEMORY, "no memory for Gloo");
  c->plugin = plugin;
  c->store = o->store;
  c->rank = o->rank;
  c->world = o->world;
  snprintf(c->prefix, sizeof c->prefix, "%s", o->prefix);
  c->open_deadline = o->deadline;
  c->timeout = o->timeout;
  c->patience = o->patience;
  c->patience_self = o->patience_self;
  pthread_mutex_init(&c->lock, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&c->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  DdpError *e = meet(c, o);
  if (!e) {
    const DdpGlooStore store = {c, store_set, store_get};
    char error[512];
    double left = o->deadline - ddp_clock();
    sigset_t all, old; /* signals are not for Gloo's event loop, which starts here */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (plugin->open(&c->context, o->rank, o->world, o->address, &store, left > 1 ? left : 1, error,
                     sizeof error))
      e = open_error(o, error);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
  }
  if (!e) e = find_connections(c);
  if (!e) e = start_worker(c);
  if (e)
    gloo_close(c);
  else
    *out = c;
  return e;
}

static DdpError *gloo_alloc(DdpComm *c, size_t bytes, void **out) {
  (void)c;
  size_t rounded = (bytes + 63) / 64 * 64;
  *out = aligned_alloc(64, rounded ? rounded : 64);
  if (!*out) return ddp_error(DDP_MEMORY, "no memory for %zu bytes", bytes);
  memset(*out, 0, rounded ? rounded : 64);
  return NULL;
}

static void gloo_free(DdpComm *c, void *p) {
  (void)c;
  free(p);
}

static DdpError *gloo_async_error(DdpComm *c) {
  pthread_mutex_lock(&c->lock);
  bool failed = c->failed;
  pthread_mutex_unlock(&c->lock);
  return failed ? ddp_error(DDP_PEER, "Gloo's connections have failed") : NULL;
}

static void gloo_abort(DdpComm *c) {
  pthread_mutex_lock(&c->lock);
  c->aborted = true;
  shut(c);
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

const DdpBackend ddp_backend_gloo = {
    .name = "gloo",
    .probe = gloo_probe,
    .open = gloo_open,
    .alloc = gloo_alloc,
    .free = gloo_free,
    .all_reduce = gloo_all_reduce,
    .broadcast = gloo_broadcast,
    .all_gather = gloo_all_gather,
    .barrier = gloo_barrier,
    .poll = gloo_poll,
    .wait = gloo_wait,
    .async_error = gloo_async_error,
    .unreachable = gloo_unreachable,
    .abort = gloo_abort,
    .close = gloo_close,
};
