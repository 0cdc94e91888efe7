/* In: the connections of the rendezvous, frames of other ranks. Out: store values, positions, the
   first error of the job. Holds: a lost connection without a goodbye is an error on every rank
   within milliseconds (rank 0 sees it and tells the others; rank 0's own loss all see); nothing
   here waits for a stopped rank: frames to it are dropped once its buffer fills. */
#include "control.h"
#include "clock.h"
#include "log.h"
#include "table.h"
#include "wire.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/sockios.h>

static const double beat_every = 0.25, send_wait = 1.0;
/* Seconds: a rank that others wait for is missed a moment before it is lost here (its last beat was up
   to beat_every before it went); a silence that is told; heard of again. */
static const double silence_slack = 0.5, silence_told = 10, heard_again = 1.0;
enum { BACKLOG = 32 << 10 }; /* unread bytes after which a rank gets no more positions */

typedef struct Link {
  int fd;       /* -1: none, or closed */
  int rank;     /* at the other end */
  bool bye;     /* said goodbye */
  double heard; /* clock at which something came */
  bool told, lost;
  char *in; /* frames under way */
  size_t size, capacity;
} Link;

struct DdpStore {
  DdpControl *control;
};

struct DdpControl {
  DdpMeeting meeting;
  DdpControlHooks hooks;
  Link *links;
  int n_links;
  DdpStore store;
  pthread_t thread;
  int wake; /* eventfd: the thread should look around */
  atomic_bool stop;
  pid_t parent;
  pthread_mutex_t send; /* one frame at a time on the links */
  pthread_mutex_t lock; /* all below */
  pthread_cond_t changed;
  DdpTable table; /* rank 0: the store; others: values received */
  DdpError *error;
  double failed_at;
  bool closing;
  int byes;
  DdpPosition *positions; /* [world] */
  double *heard;          /* [world]: clock at which the position was fresh */
};

static Link *link_to(DdpControl *c, int rank) {
  for (int i = 0; i < c->n_links; i++) {
    if (c->meeting.rank != 0 || c->links[i].rank == rank) return &c->links[i];
  }
  return NULL;
}

static int post(DdpControl *c, Link *l, DdpBytes *b, double wait) {
  pthread_mutex_lock(&c->send);
  int rc = -1;
  if (l->fd >= 0)
    rc = ddp_bytes_send(b, l->fd, ddp_clock() + wait);
  else
    ddp_bytes_free(b);
  pthread_mutex_unlock(&c->send);
  return rc;
}

static void wake(DdpControl *c) {
  uint64_t one = 1;
  ssize_t n = write(c->wake, &one, sizeof one);
  (void)n; /* a full counter wakes as well */
}

/* ---------- errors ---------- */

/* First one only; the lock is held. */
static bool keep_error(DdpControl *c, DdpError *e) {
  if (c->error || c->closing) {
    ddp_error_free(e);
    return false;
  }
  c->error = e;
  c->failed_at = ddp_clock();
  pthread_cond_broadcast(&c->changed);
  return true;
}

static DdpError *copy_of(const DdpError *e) {
  return e ? ddp_error_rank(e->klass, e->rank, "%s", e->message) : NULL;
}

static void send_abort(DdpControl *c, int but, const DdpError *e, double wait) {
  for (int i = 0; i < c->n_links; i++) {
    Link *l = &c->links[i];
    if (l->rank == but) continue;
    DdpBytes b;
    ddp_bytes_frame(&b, DDP_FRAME_abort, c->meeting.rank);
    ddp_bytes_u32(&b, (uint32_t)e->klass);
    ddp_bytes_u32(&b, (uint32_t)e->rank);
    ddp_bytes_text(&b, e->message);
    post(c, l, &b, wait);
  }
}

/* An error that came from elsewhere than this rank's own code. Rank 0 tells the others before its
   own training thread can hear of it and end the process. */
static void on_failure(DdpControl *c, DdpError *e, int from) {
  pthread_mutex_lock(&c->lock);
  bool first = !c->error && !c->closing;
  pthread_mutex_unlock(&c->lock);
  if (first && c->meeting.rank == 0) send_abort(c, from, e, 0.1);
  pthread_mutex_lock(&c->lock);
  first = keep_error(c, e);
  pthread_mutex_unlock(&c->lock);
  if (first) c->hooks.failed(c->hooks.self);
}

/* That a rank is missing, which this one has come upon itself while it was doing something. */
static void on_missing(DdpControl *c, DdpError *e) {
  char doing[160] = "";
  c->hooks.doing(c->hooks.self, doing, sizeof doing);
  on_failure(c, ddp_error_rank(e->klass, e->rank, "%s%s%s", doing, *doing ? ": " : "", e->message),
             e->rank);
  ddp_error_free(e);
}

static void on_lost(DdpControl *c, Link *l, int reason) {
  pthread_mutex_lock(&c->send);
  close(l->fd);
  l->fd = -1;
  pthread_mutex_unlock(&c->send);
  if (l->bye) return;
  const DdpPeer *p = &c->meeting.peers[l->rank];
  bool network = reason == ETIMEDOUT || reason == EHOSTUNREACH || reason == ENETUNREACH;
  DdpError *e = ddp_error_rank(
      DDP_PEER, l->rank, "lost rank %d (pid %d on %s): %s%s%s%s", l->rank, p->pid, p->host_name,
      network ? "its host is gone, or the network to it is cut" : "its process is gone",
      reason ? " (" : "", reason ? strerror(reason) : "", reason ? ")" : "");
  on_missing(c, e);
}

/* ---------- frames ---------- */

static void answer_waiters(DdpControl *c, const char *key) {
  int rank;
  const DdpEntry *e = ddp_table_find(&c->table, key);
  while (e && (rank = ddp_table_waiter(&c->table, key)) >= 0) {
    DdpBytes b;
    ddp_bytes_frame(&b, DDP_FRAME_value, c->meeting.rank);
    ddp_bytes_text(&b, key);
    ddp_bytes_block(&b, e->data, e->size);
    Link *l = link_to(c, rank);
    if (l)
      post(c, l, &b, send_wait);
    else
      ddp_bytes_free(&b);
  }
}

static void on_store(DdpControl *c, const DdpFrame *f, DdpReader *r) {
  char key[256];
  size_t n = 0;
  ddp_read_text(r, key, sizeof key);
  const void *data = f->type == DDP_FRAME_get ? NULL : ddp_read_block(r, &n);
  if (r->bad) return;
  pthread_mutex_lock(&c->lock);
  if (f->type == DDP_FRAME_get)
    ddp_table_await(&c->table, key, f->rank);
  else
    ddp_table_set(&c->table, key, data, n);
  if (c->meeting.rank == 0) answer_waiters(c, key);
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

static void position_get(DdpReader *r, DdpPosition *p, double *age) {
  p->arrived = ddp_read_u64(r);
  p->update = (int64_t)ddp_read_u64(r);
  p->stop = (int)ddp_read_u32(r);
  ddp_read_text(r, p->phase, sizeof p->phase);
  p->unreachable = (int)ddp_read_u32(r);
  p->cut = ddp_read_u32(r) != 0;
  *age = (double)ddp_read_u64(r) * 1e-3;
}

static void position_put(DdpBytes *b, const DdpPosition *p, double age) {
  ddp_bytes_u64(b, p->arrived);
  ddp_bytes_u64(b, (uint64_t)p->update);
  ddp_bytes_u32(b, (uint32_t)p->stop);
  ddp_bytes_text(b, p->phase);
  ddp_bytes_u32(b, (uint32_t)p->unreachable);
  ddp_bytes_u32(b, p->cut);
  ddp_bytes_u64(b, (uint64_t)(age * 1e3));
}

static void on_position(DdpControl *c, const DdpFrame *f, DdpReader *r) {
  double now = ddp_clock();
  int first = f->type == DDP_FRAME_beat ? f->rank : 0;
  int last = f->type == DDP_FRAME_beat ? f->rank : c->meeting.world - 1;
  pthread_mutex_lock(&c->lock);
  for (int q = first; q <= last && !r->bad; q++) {
    DdpPosition p;
    double age;
    position_get(r, &p, &age);
    if (r->bad || q == c->meeting.rank) continue;
    if (c->meeting.rank == 0 || q == 0) p.cut = c->positions[q].cut; /* this rank sees for itself */
    c->positions[q] = p;
    c->heard[q] = now - age;
  }
  pthread_mutex_unlock(&c->lock);
}

static void on_abort(DdpControl *c, const DdpFrame *f, DdpReader *r) {
  DdpClass klass = (DdpClass)ddp_read_u32(r);
  int rank = (int)ddp_read_u32(r);
  char *text = ddp_read_text_new(r);
  if (!r->bad) {
    /* A peer's own error is the loss of that peer; a stop of the job is no error. */
    DdpError *e =
        rank == f->rank && klass != DDP_PEER && klass != DDP_TIMEOUT && klass != DDP_STOPPED
            ? ddp_error_rank(DDP_PEER, rank, "lost rank %d: %s", rank, text)
            : ddp_error_rank(klass, rank, "%s", text);
    on_failure(c, e, f->rank);
  }
  free(text);
}

static void on_bye(DdpControl *c, Link *l) {
  pthread_mutex_lock(&c->lock);
  if (!l->bye) c->byes++;
  l->bye = true;
  pthread_cond_broadcast(&c->changed);
  pthread_mutex_unlock(&c->lock);
}

static void on_frame(DdpControl *c, Link *l, DdpFrame *f, const char *payload) {
  DdpReader r = {.at = payload, .end = payload + f->length};
  f->rank = l->rank; /* who it is was settled at the rendezvous */
  switch (f->type) {
  case DDP_FRAME_set:
  case DDP_FRAME_get:
  case DDP_FRAME_value:
    on_store(c, f, &r);
    break;
  case DDP_FRAME_beat:
  case DDP_FRAME_state:
    on_position(c, f, &r);
    break;
  case DDP_FRAME_abort:
    on_abort(c, f, &r);
    break;
  case DDP_FRAME_bye:
    on_bye(c, l);
    break;
  default:
    break;
  }
}

/* Reads what is there; false: the connection has ended (*reason: errno or 0). */
static bool read_link(DdpControl *c, Link *l, int *reason) {
  for (;;) {
    if (l->capacity - l->size < 4096) {
      l->capacity = l->capacity * 2 + 16384;
      l->in = realloc(l->in, l->capacity);
      if (!l->in) abort();
    }
    ssize_t n = recv(l->fd, l->in + l->size, l->capacity - l->size, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n <= 0) {
      *reason = n < 0 ? errno : 0;
      return false;
    }
    l->size += (size_t)n;
    l->heard = ddp_clock();
    size_t at = 0;
    DdpFrame f;
    while (l->size - at >= sizeof f) {
      memcpy(&f, l->in + at, sizeof f);
      if (!ddp_frame_valid(&f)) {
        *reason = EPROTO;
        return false;
      }
      if (l->size - at < sizeof f + f.length) break;
      on_frame(c, l, &f, l->in + at + sizeof f);
      at += sizeof f + f.length;
    }
    memmove(l->in, l->in + at, l->size - at);
    l->size -= at;
  }
}

/* ---------- the thread ---------- */

static bool backlog(int fd) {
  int bytes = 0;
  return ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > BACKLOG;
}

static void send_positions(DdpControl *c) {
  DdpPosition mine = {.unreachable = -1};
  c->hooks.position(c->hooks.self, &mine);
  double now = ddp_clock();
  for (int i = 0; i < c->n_links; i++) {
    Link *l = &c->links[i];
    if (l->fd < 0 || l->bye || backlog(l->fd)) continue;
    DdpBytes b;
    bool center = c->meeting.rank == 0;
    ddp_bytes_frame(&b, center ? DDP_FRAME_state : DDP_FRAME_beat, c->meeting.rank);
    if (!center) position_put(&b, &mine, 0);
    pthread_mutex_lock(&c->lock);
    for (int q = 0; center && q < c->meeting.world; q++) {
      if (q == 0)
        position_put(&b, &mine, 0);
      else
        position_put(&b, &c->positions[q], now - c->heard[q]);
    }
    pthread_mutex_unlock(&c->lock);
    post(c, l, &b, 0.01);
  }
}

static void look_at_network(DdpControl *c) {
  pthread_mutex_lock(&c->lock);
  for (int i = 0; i < c->n_links; i++) {
    const Link *l = &c->links[i];
    c->positions[l->rank].cut = l->fd >= 0 && ddp_net_cut(l->fd, 0);
  }
  pthread_mutex_unlock(&c->lock);
}

static void look(DdpControl *c, struct pollfd *p, int wait) {
  p[0] = (struct pollfd){.fd = c->wake, .events = POLLIN};
  for (int i = 0; i < c->n_links; i++)
    p[i + 1] = (struct pollfd){.fd = c->links[i].fd, .events = POLLIN};
  if (poll(p, (nfds_t)c->n_links + 1, wait) <= 0) return;
  if (p[0].revents) {
    uint64_t n;
    ssize_t k = read(c->wake, &n, sizeof n);
    (void)k;
  }
  for (int i = 0; i < c->n_links; i++) {
    int reason = 0;
    if (p[i + 1].revents && !read_link(c, &c->links[i], &reason)) on_lost(c, &c->links[i], reason);
  }
}

static void on_silence(DdpControl *c, Link *l, double silence) {
  const DdpPeer *p = &c->meeting.peers[l->rank];
  bool cut = c->positions[l->rank].cut; /* written by this thread */
  const char *why = cut ? "its host is gone, or the network to it is cut" : "it is stopped";
  if (silence < c->hooks.timeout + silence_slack) {
    ddp_log(DDP_LOG_warning,
            "rank %d (pid %d on %s) has not been heard of for %.0f s: %s; after %g s the job ends "
            "(ddp_timeout)",
            l->rank, p->pid, p->host_name, silence, why, c->hooks.timeout);
    l->told = true;
    return;
  }
  l->lost = true;
  on_missing(
      c, ddp_error_rank(
             DDP_TIMEOUT, l->rank,
             "rank %d (pid %d on %s) has not been heard of for more than %g s (ddp_timeout): %s",
             l->rank, p->pid, p->host_name, c->hooks.timeout, why));
}

/* paused: seconds in which this thread could hear nothing. */
static void check_silence(DdpControl *c, double now, double paused) {
  if (paused > 0) {
    pthread_mutex_lock(&c->lock);
    for (int q = 0; q < c->meeting.world; q++) c->heard[q] += paused;
    pthread_mutex_unlock(&c->lock);
  }
  for (int i = 0; i < c->n_links; i++) {
    Link *l = &c->links[i];
    l->heard += paused;
    double silence = now - l->heard;
    if (l->fd < 0 || l->bye || l->lost) continue;
    if (l->told && silence < heard_again) {
      ddp_log(DDP_LOG_warning, "rank %d is heard of again", l->rank);
      l->told = false;
    }
    double limit = l->told || silence_told > c->hooks.timeout ? c->hooks.timeout + silence_slack
                                                              : silence_told;
    if (silence >= limit) on_silence(c, l, silence);
  }
}

static void check_parent(DdpControl *c) {
  if (!c->hooks.with_parent || c->parent == 1 || getppid() == c->parent) return;
  c->hooks.with_parent = false;
  DdpError *e = ddp_error(DDP_PEER, "the launcher (pid %d) is gone", (int)c->parent);
  ddp_control_abort(c, e);
  ddp_error_free(e);
}

static void *serve(void *argument) {
  DdpControl *c = argument;
  struct pollfd *p = calloc((size_t)c->n_links + 1, sizeof *p);
  if (!p) abort();
  double next = 0, last = ddp_clock();
  while (!atomic_load(&c->stop)) {
    double paused = ddp_clock_paused(&last), now = last;
    if (now >= next) {
      look_at_network(c);
      check_silence(c, now, paused);
      send_positions(c);
      check_parent(c);
      next = now + beat_every;
    }
    double left = (next - ddp_clock()) * 1e3;
    look(c, p, left > 0 ? (int)left + 1 : 0);
    pthread_mutex_lock(&c->lock);
    double failed_at = c->failed_at;
    pthread_mutex_unlock(&c->lock);
    if (failed_at > 0) c->hooks.tick(c->hooks.self, ddp_clock() - failed_at);
  }
  free(p);
  return NULL;
}

static DdpError *start_thread(DdpControl *c) {
  sigset_t all, old;
  sigfillset(&all); /* signals are the training thread's */
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int rc = pthread_create(&c->thread, NULL, serve, c);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return rc ? ddp_error(DDP_FAILED, "cannot start the control thread: %s", strerror(rc)) : NULL;
}

static void release(DdpControl *c) {
  for (int i = 0; c->links && i < c->n_links; i++) {
    if (c->links[i].fd >= 0) close(c->links[i].fd);
    free(c->links[i].in);
  }
  if (c->wake >= 0) close(c->wake);
  free(c->links);
  free(c->positions);
  free(c->heard);
  free(c->meeting.peers);
  free(c->meeting.links);
  ddp_table_clear(&c->table);
  ddp_error_free(c->error);
  pthread_mutex_destroy(&c->send);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->changed);
  free(c);
}

DdpError *ddp_control_open(DdpControl **out, DdpMeeting *meeting, const DdpControlHooks *hooks) {
  DdpControl *c = calloc(1, sizeof *c);
  if (!c) return ddp_error(DDP_MEMORY, "no memory for the control plane");
  c->meeting = *meeting;
  *meeting = (DdpMeeting){0};
  c->hooks = *hooks;
  c->store.control = c;
  c->parent = getppid();
  c->n_links = c->meeting.rank == 0 ? c->meeting.world - 1 : 1;
  pthread_mutex_init(&c->send, NULL);
  pthread_mutex_init(&c->lock, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&c->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  c->links = calloc((size_t)c->n_links, sizeof *c->links);
  c->positions = calloc((size_t)c->meeting.world, sizeof *c->positions);
  c->heard = calloc((size_t)c->meeting.world, sizeof *c->heard);
  DdpError *e = NULL;
  if (c->wake < 0 || !c->links || !c->positions || !c->heard)
    e = ddp_error(DDP_MEMORY, "no memory for the control plane");
  for (int i = 0; !e && i < c->n_links; i++) {
    int rank = c->meeting.rank == 0 ? i + 1 : 0;
    c->links[i] = (Link){.fd = c->meeting.links[rank], .rank = rank, .heard = ddp_clock()};
  }
  for (int q = 0; !e && q < c->meeting.world; q++) {
    c->heard[q] = ddp_clock();
    c->positions[q].unreachable = -1;
  }
  if (!e) e = start_thread(c);
  if (e)
    release(c);
  else
    *out = c;
  return e;
}

const DdpPeer *ddp_control_peers(const DdpControl *c) {
  return c->meeting.peers;
}
uint64_t ddp_control_nonce(const DdpControl *c) {
  return c->meeting.nonce;
}
DdpStore *ddp_control_store(DdpControl *c) {
  return &c->store;
}

static void wait_changed(DdpControl *c, double deadline) {
  struct timespec t = {.tv_sec = (time_t)deadline};
  t.tv_nsec = (long)((deadline - (double)t.tv_sec) * 1e9);
  pthread_cond_timedwait(&c->changed, &c->lock, &t);
}

DdpError *ddp_control_error(DdpControl *c) {
  pthread_mutex_lock(&c->lock);
  DdpError *e = copy_of(c->error);
  pthread_mutex_unlock(&c->lock);
  return e;
}

DdpError *ddp_control_error_soon(DdpControl *c, double seconds) {
  double deadline = ddp_clock() + seconds;
  pthread_mutex_lock(&c->lock);
  while (!c->error && ddp_clock() < deadline) wait_changed(c, deadline);
  DdpError *e = copy_of(c->error);
  pthread_mutex_unlock(&c->lock);
  return e;
}

/* Until the others' kernels have what was sent; not those that are cut off. */
static void drain(DdpControl *c, double seconds) {
  double end = ddp_clock() + seconds;
  for (int i = 0; i < c->n_links; i++) {
    int fd = c->links[i].fd;
    if (fd >= 0 && !ddp_net_cut(fd, 0)) ddp_net_drain(fd, end);
  }
}

void ddp_control_abort(DdpControl *c, const DdpError *e) {
  DdpError *mine =
      e->rank >= 0 ? copy_of(e) : ddp_error_rank(e->klass, c->meeting.rank, "%s", e->message);
  DdpError *copy = copy_of(mine);
  pthread_mutex_lock(&c->lock);
  bool first = keep_error(c, mine);
  pthread_mutex_unlock(&c->lock);
  if (first) send_abort(c, -1, copy, send_wait);
  pthread_mutex_lock(&c->send);
  drain(c, 0.5); /* a process that ends with unread input resets the connection */
  pthread_mutex_unlock(&c->send);
  if (first) {
    c->hooks.failed(c->hooks.self);
    wake(c);
  }
  ddp_error_free(copy);
}

void ddp_control_position(DdpControl *c, int rank, DdpPosition *out, double *age) {
  pthread_mutex_lock(&c->lock);
  *out = c->positions[rank];
  *age = ddp_clock() - c->heard[rank];
  pthread_mutex_unlock(&c->lock);
}

static void send_bye(DdpControl *c) {
  for (int i = 0; i < c->n_links; i++) {
    DdpBytes b;
    ddp_bytes_frame(&b, DDP_FRAME_bye, c->meeting.rank);
    post(c, &c->links[i], &b, send_wait);
  }
}

/* Rank 0 answers when it has heard everybody, so all leave together and none is mistaken for
   lost. */
DdpError *ddp_control_bye(DdpControl *c, double deadline) {
  if (c->meeting.rank != 0) send_bye(c);
  pthread_mutex_lock(&c->lock);
  while (!c->error && c->byes < c->n_links && ddp_clock() < deadline) wait_changed(c, deadline);
  DdpError *e = copy_of(c->error);
  if (!e && c->byes < c->n_links) {
    int missing = 0;
    while (c->links[missing].bye) missing++;
    e = ddp_error_rank(DDP_TIMEOUT, c->links[missing].rank,
                       "rank %d did not reach the end of the job", c->links[missing].rank);
  }
  if (!e) c->closing = true;
  pthread_mutex_unlock(&c->lock);
  if (!e && c->meeting.rank == 0) send_bye(c);
  return e;
}

void ddp_control_close(DdpControl *c) {
  if (!c) return;
  atomic_store(&c->stop, true);
  wake(c);
  pthread_join(c->thread, NULL);
  drain(c, 0.2);
  release(c);
}

/* ---------- the store ---------- */

DdpError *ddp_store_set(DdpStore *s, const char *key, const void *data, size_t size) {
  DdpControl *c = s->control;
  if (c->meeting.rank == 0) {
    pthread_mutex_lock(&c->lock);
    ddp_table_set(&c->table, key, data, size);
    answer_waiters(c, key);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
  }
  DdpBytes b;
  ddp_bytes_frame(&b, DDP_FRAME_set, c->meeting.rank);
  ddp_bytes_text(&b, key);
  ddp_bytes_block(&b, data, size);
  if (post(c, &c->links[0], &b, send_wait) == 0) return NULL;
  DdpError *e = ddp_control_error_soon(c, 1.0);
  return e ? e : ddp_error_rank(DDP_PEER, 0, "rank 0 does not take the key %s", key);
}

DdpError *ddp_store_get(DdpStore *s, const char *key, double deadline, void **out, size_t *size) {
  DdpControl *c = s->control;
  if (c->meeting.rank != 0) {
    DdpBytes b;
    ddp_bytes_frame(&b, DDP_FRAME_get, c->meeting.rank);
    ddp_bytes_text(&b, key);
    post(c, &c->links[0], &b, send_wait);
  }
  pthread_mutex_lock(&c->lock);
  const DdpEntry *found = NULL;
  while (!c->error && !(found = ddp_table_find(&c->table, key)) && ddp_clock() < deadline)
    wait_changed(c, deadline);
  DdpError *e = copy_of(c->error);
  if (!e && !found) e = ddp_error(DDP_TIMEOUT, "no rank has set %s in time", key);
  if (!e) {
    *size = found->size;
    *out = malloc(found->size + 1);
    if (*out)
      memcpy(*out, found->data, found->size + 1);
    else
      e = ddp_error(DDP_MEMORY, "no memory for %s", key);
  }
  pthread_mutex_unlock(&c->lock);
  return e;
}
