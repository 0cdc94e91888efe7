/* Side of the ranks above 0. In: a connection to what may be rank 0. Out: accepted, refused with a
   reason, or not rank 0 at all. Also the fields of hello and table, used by both sides. */
#include "meet.h"
#include "clock.h"
#include "log.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double greeting_wait = 3.0, table_slack = 2.0, progress_every = 10.0;

void ddp_peer_put(DdpBytes *b, const DdpPeer *p) {
  ddp_bytes_u32(b, (uint32_t)p->pid);
  ddp_bytes_text(b, p->host_id);
  ddp_bytes_text(b, p->host_name);
  ddp_bytes_text(b, p->address);
}

void ddp_peer_get(DdpReader *r, DdpPeer *p) {
  p->pid = (int)ddp_read_u32(r);
  ddp_read_text(r, p->host_id, sizeof p->host_id);
  ddp_read_text(r, p->host_name, sizeof p->host_name);
  ddp_read_text(r, p->address, sizeof p->address);
}

static bool hello_send(int fd, const DdpMeet *meet, const DdpMeeting *me, double deadline) {
  DdpPeer self = {0};
  ddp_host_identity(&self);
  DdpBytes b;
  ddp_bytes_frame(&b, DDP_FRAME_hello, me->rank);
  ddp_bytes_u32(&b, DDP_WIRE_VERSION);
  ddp_bytes_u64(&b, me->nonce);
  ddp_bytes_u32(&b, (uint32_t)me->world);
  ddp_bytes_u64(&b, meet->program->hash);
  ddp_bytes_text(&b, meet->program->text);
  ddp_peer_put(&b, &self);
  return ddp_bytes_send(&b, fd, deadline) == 0;
}

bool ddp_hello_recv(int fd, DdpHello *out, double deadline) {
  DdpFrame f;
  char *payload;
  if (ddp_frame_recv(fd, &f, &payload, deadline)) return false;
  *out = (DdpHello){.rank = f.rank};
  DdpReader r = {.at = payload, .end = payload + f.length, .bad = f.type != DDP_FRAME_hello};
  out->version = ddp_read_u32(&r);
  out->nonce = ddp_read_u64(&r);
  out->world = (int)ddp_read_u32(&r);
  out->program_hash = ddp_read_u64(&r);
  out->program_text = ddp_read_text_new(&r);
  ddp_peer_get(&r, &out->peer);
  free(payload);
  if (r.bad) free(out->program_text);
  return !r.bad;
}

static DdpError *fault_of(const DdpFrame *f, const char *payload) {
  DdpReader r = {.at = payload, .end = payload + f->length};
  DdpClass klass = (DdpClass)ddp_read_u32(&r);
  int rank = (int)ddp_read_u32(&r);
  char *text = ddp_read_text_new(&r);
  DdpError *e = r.bad ? ddp_error_rank(DDP_PEER, 0, "rank 0 refused this rank without a reason")
                      : ddp_error_rank(klass, rank, "%s", text);
  free(text);
  return e;
}

static DdpGreeting banner_recv(int fd, const DdpMeet *meet, uint64_t *nonce) {
  DdpFrame f;
  char *payload;
  if (ddp_frame_recv(fd, &f, &payload, ddp_clock() + greeting_wait))
    return errno == ETIMEDOUT || errno == EPROTO ? DDP_GREETING_foreign : DDP_GREETING_lost;
  DdpReader r = {.at = payload, .end = payload + f.length, .bad = f.type != DDP_FRAME_banner};
  /* Only version and nonce: rank 0 compares the versions, so that both sides say it. */
  uint32_t version = ddp_read_u32(&r);
  uint64_t theirs = ddp_read_u64(&r), job = 0;
  if (version == DDP_WIRE_VERSION) {
    ddp_read_u32(&r); /* the world, which rank 0 compares too */
    job = ddp_read_u64(&r);
  }
  free(payload);
  if (r.bad) return DDP_GREETING_foreign;
  if (job && meet->job && job != meet->job) return DDP_GREETING_other;
  if (*nonce && *nonce != theirs) return DDP_GREETING_stale;
  *nonce = theirs;
  return DDP_GREETING_ok;
}

DdpGreeting ddp_meet_greet(int fd, const DdpMeet *meet, const DdpMeeting *me, uint64_t *expected,
                           DdpError **error) {
  *error = NULL;
  DdpGreeting g = banner_recv(fd, meet, expected);
  if (g != DDP_GREETING_ok) return g;
  DdpMeeting named = *me;
  named.nonce = *expected;
  if (!hello_send(fd, meet, &named, ddp_clock() + greeting_wait)) return DDP_GREETING_lost;
  DdpFrame f;
  char *payload;
  /* It is rank 0, which has heard this rank: on a bad network its answer may take long, and a rank that
     hangs up and comes again would be lost, or there twice. */
  if (ddp_frame_recv(fd, &f, &payload, meet->deadline + table_slack)) return DDP_GREETING_lost;
  if (f.type == DDP_FRAME_reject) *error = fault_of(&f, payload);
  free(payload);
  return f.type == DDP_FRAME_accept || *error ? DDP_GREETING_ok : DDP_GREETING_foreign;
}

static DdpError *table_of(const DdpFrame *f, const char *payload, DdpMeeting *out) {
  if (f->type != DDP_FRAME_table) return fault_of(f, payload);
  DdpReader r = {.at = payload, .end = payload + f->length};
  for (int q = 0; q < out->world; q++) ddp_peer_get(&r, &out->peers[q]);
  return r.bad ? ddp_error_rank(DDP_PEER, 0, "rank 0 sent a broken table of ranks") : NULL;
}

DdpError *ddp_meet_table(const DdpMeet *meet, DdpMeeting *out) {
  double start = ddp_clock(), end = meet->deadline + table_slack, next = start + progress_every;
  while (!ddp_net_wait(out->links[0], POLLIN, next < end ? next : end)) {
    if (ddp_clock() >= end)
      return ddp_error_rank(
          DDP_TIMEOUT, 0,
          "rendezvous: rank 0 accepted this rank but did not answer within %g s (ddp_timeout)",
          meet->timeout);
    ddp_log(DDP_LOG_info, "waiting for the other ranks since %.0f s", ddp_clock() - start);
    next += progress_every;
  }
  DdpFrame f;
  char *payload;
  if (ddp_frame_recv(out->links[0], &f, &payload, end))
    return ddp_error_rank(DDP_PEER, 0, "lost rank 0 during the rendezvous (%s)", strerror(errno));
  DdpError *e = table_of(&f, payload, out);
  free(payload);
  return e;
}
