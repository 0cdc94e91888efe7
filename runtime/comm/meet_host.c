/* Rank 0's side of the rendezvous. In: a listener. Out: one checked connection per rank and the
   table. Holds: whatever is wrong (another program, another world, a rank twice, a missing rank)
   is told to every rank that came or still comes, with the same reason. */
#include "meet.h"
#include "clock.h"
#include "log.h"
#include "wire.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PENDING_LIMIT = 256 };
static const double hello_wait = 2.0, drain_wait = 0.5, linger = 1.5, progress_every = 10.0;

typedef struct Host {
  const DdpMeet *meet;
  DdpMeeting *out;
  int pending[PENDING_LIMIT]; /* connected, hello not read yet */
  int n_pending, here;
  DdpError *fault; /* tells it to all who still come */
} Host;

static void send_banner(const Host *h, int fd) {
  DdpBytes b;
  ddp_bytes_frame(&b, DDP_FRAME_banner, 0);
  ddp_bytes_u32(&b, DDP_WIRE_VERSION);
  ddp_bytes_u64(&b, h->out->nonce);
  ddp_bytes_u32(&b, (uint32_t)h->out->world);
  ddp_bytes_u64(&b, h->meet->job);
  ddp_bytes_send(&b, fd, ddp_clock() + hello_wait);
}

static void send_fault(int fd, DdpFrameType type, const DdpError *e) {
  DdpBytes b;
  ddp_bytes_frame(&b, type, 0);
  ddp_bytes_u32(&b, (uint32_t)e->klass);
  ddp_bytes_u32(&b, (uint32_t)e->rank);
  ddp_bytes_text(&b, e->message);
  ddp_bytes_send(&b, fd, ddp_clock() + hello_wait);
}

static DdpError *check_hello(const Host *h, const DdpHello *hello) {
  int world = h->out->world;
  char difference[512];
  if (hello->version != DDP_WIRE_VERSION)
    return ddp_error_rank(
        DDP_PEER, hello->rank,
        "rank %d runs a program of another ddpc version (protocol %u, rank 0 has %u)", hello->rank,
        hello->version, (unsigned)DDP_WIRE_VERSION);
  if (hello->world != world)
    return ddp_error_rank(DDP_PEER, hello->rank,
                          "rank %d was started for %d ranks, rank 0 for %d: check the world sizes",
                          hello->rank, hello->world, world);
  if (hello->rank < 1 || hello->rank >= world)
    return ddp_error_rank(DDP_PEER, hello->rank,
                          "two processes are rank %d (one on %s, pid %d): check the ranks",
                          hello->rank, hello->peer.host_name, hello->peer.pid);
  const DdpPeer *there = &h->out->peers[hello->rank];
  if (h->out->links[hello->rank] >= 0)
    return ddp_error_rank(
        DDP_PEER, hello->rank, "two processes are rank %d (%s pid %d, %s pid %d): check the ranks",
        hello->rank, there->host_name, there->pid, hello->peer.host_name, hello->peer.pid);
  if (hello->program_hash == h->meet->program->hash) return NULL;
  ddp_program_difference(hello->program_text, hello->rank, h->meet->program->text, difference,
                         sizeof difference);
  return ddp_error_rank(DDP_PEER, hello->rank, "rank %d runs another program: %s", hello->rank,
                        difference);
}

/* Takes a connection whose first bytes have come. */
static void admit(Host *h, int fd) {
  DdpHello hello;
  if (!ddp_hello_recv(fd, &hello, ddp_clock() + hello_wait) || hello.nonce != h->out->nonce) {
    close(fd); /* a stranger, or a rank of an earlier round that will ask again */
    return;
  }
  DdpError *e = h->fault ? NULL : check_hello(h, &hello);
  free(hello.program_text);
  if (e || h->fault) {
    send_fault(fd, DDP_FRAME_reject, e ? e : h->fault);
    ddp_net_drain(fd, ddp_clock() + drain_wait);
    close(fd);
    h->here++; /* one fewer to tell */
    h->fault = ddp_error_first(h->fault, e);
    return;
  }
  DdpPeer *p = &h->out->peers[hello.rank];
  *p = hello.peer;
  ddp_net_peer_name(fd, p->address);
  DdpBytes b;
  ddp_bytes_frame(&b, DDP_FRAME_accept, 0);
  ddp_bytes_send(&b, fd, ddp_clock() + hello_wait);
  h->out->links[hello.rank] = fd;
  h->here++;
}

/* Accepts, and reads those who have spoken, for at most until `until`. */
static void serve(Host *h, double until) {
  struct pollfd p[PENDING_LIMIT + 1];
  p[0] = (struct pollfd){.fd = h->meet->listener, .events = POLLIN};
  for (int i = 0; i < h->n_pending; i++)
    p[i + 1] = (struct pollfd){.fd = h->pending[i], .events = POLLIN};
  double left = (until - ddp_clock()) * 1e3;
  if (poll(p, (nfds_t)h->n_pending + 1, left > 0 ? (int)left + 1 : 0) <= 0) return;
  int kept = 0, n = h->n_pending;
  for (int i = 0; i < n; i++) {
    if (p[i + 1].revents)
      admit(h, h->pending[i]);
    else
      h->pending[kept++] = h->pending[i];
  }
  h->n_pending = kept;
  if (!p[0].revents) return;
  int fd = ddp_net_accept(h->meet->listener, ddp_clock());
  if (fd < 0) return;
  if (h->meet->own_uid_only && ddp_net_peer_uid(fd) != (long)getuid()) {
    close(fd);
    return;
  }
  if (h->n_pending == PENDING_LIMIT) { /* strangers that never speak */
    close(h->pending[0]);
    memmove(h->pending, h->pending + 1, (PENDING_LIMIT - 1) * sizeof *h->pending);
    h->n_pending--;
  }
  send_banner(h, fd);
  h->pending[h->n_pending++] = fd;
}

/* A rank that died after it was admitted will not be waited for. */
static void drop_dead(Host *h) {
  for (int r = 1; r < h->out->world; r++) {
    int fd = h->out->links[r];
    if (fd < 0 || h->fault) continue;
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    if (poll(&p, 1, 0) > 0)
      h->fault = ddp_error_rank(DDP_PEER, r, "lost rank %d while waiting for the others", r);
  }
}

static void missing(const Host *h, char *out, size_t size) {
  size_t n = 0;
  out[0] = 0;
  for (int r = 1; r < h->out->world && n + 16 < size; r++) {
    if (h->out->links[r] < 0) n += (size_t)snprintf(out + n, size - n, "%s%d", n ? ", " : "", r);
  }
}

static void gather(Host *h) {
  double next = ddp_clock() + progress_every, start = ddp_clock();
  char list[256];
  while (!h->fault && h->here < h->out->world) {
    double now = ddp_clock();
    if (now >= h->meet->deadline) {
      missing(h, list, sizeof list);
      int first = (int)strtol(list, NULL, 10);
      h->fault = ddp_error_rank(
          DDP_TIMEOUT, first,
          "rendezvous: rank %s did not come within %g s (ddp_timeout); %d of %d ranks are here",
          list, h->meet->timeout, h->here, h->out->world);
      return;
    }
    if (now >= next) {
      missing(h, list, sizeof list);
      ddp_log(DDP_LOG_info, "%d of %d ranks are here after %.0f s, waiting for rank %s", h->here,
              h->out->world, now - start, list);
      next = now + progress_every;
    }
    double until = now + 0.25;
    serve(h, until < h->meet->deadline ? until : h->meet->deadline);
    drop_dead(h);
  }
}

/* Every rank gets the reason: those here now, and for a moment those who come too late. */
static void tell_fault(Host *h) {
  for (int r = 1; r < h->out->world; r++) {
    if (h->out->links[r] >= 0) send_fault(h->out->links[r], DDP_FRAME_abort, h->fault);
  }
  double drained = ddp_clock() + drain_wait; /* for all together: some may be cut off */
  for (int r = 1; r < h->out->world; r++) {
    if (h->out->links[r] >= 0) ddp_net_drain(h->out->links[r], drained);
  }
  double end = ddp_clock() + linger;
  while (h->here < h->out->world && ddp_clock() < end) serve(h, end);
}

/* A loopback address means "rank 0's own host"; other hosts need one that reaches it. */
static void fix_addresses(Host *h) {
  char mine[DDP_NET_NAME] = "127.0.0.1";
  for (int r = 1; r < h->out->world; r++) {
    if (!ddp_net_is_loopback(h->out->peers[r].address)) ddp_net_local_name(h->out->links[r], mine);
  }
  for (int r = 0; r < h->out->world; r++) {
    char *a = h->out->peers[r].address;
    if (ddp_net_is_loopback(a)) memcpy(a, mine, sizeof mine);
  }
}

static void send_table(const Host *h) {
  for (int r = 1; r < h->out->world; r++) {
    DdpBytes b;
    ddp_bytes_frame(&b, DDP_FRAME_table, 0);
    for (int q = 0; q < h->out->world; q++) ddp_peer_put(&b, &h->out->peers[q]);
    ddp_bytes_send(&b, h->out->links[r], ddp_clock() + hello_wait);
  }
}

DdpError *ddp_meet_host(const DdpMeet *meet, DdpMeeting *out) {
  Host h = {.meet = meet, .out = out, .here = 1};
  ddp_host_identity(&out->peers[0]);
  gather(&h);
  if (h.fault) tell_fault(&h);
  for (int i = 0; i < h.n_pending; i++) close(h.pending[i]);
  if (h.fault) return h.fault;
  fix_addresses(&h);
  send_table(&h);
  return NULL;
}
