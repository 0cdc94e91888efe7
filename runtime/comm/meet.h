/* The two sides of the rendezvous; internal to rendezvous.c. */
#ifndef DDP_COMM_MEET_H
#define DDP_COMM_MEET_H
#include "rendezvous.h"
#include "wire.h"

typedef struct DdpMeet {
  int listener;      /* rank 0 */
  bool own_uid_only; /* unix socket: no other user's processes */
  double deadline, timeout;
  uint64_t job; /* what tells this job from others, 0: not known */
  const DdpProgramId *program;
} DdpMeet;

typedef struct DdpHello {
  uint32_t version;
  uint64_t nonce, program_hash;
  int rank, world;
  DdpPeer peer;
  char *program_text; /* owned */
} DdpHello;

typedef enum DdpGreeting { /* of a listener that was dialled */
                           DDP_GREETING_ok,
                           DDP_GREETING_foreign, /* silent, or another protocol */
                           DDP_GREETING_other,   /* rank 0 of another job */
                           DDP_GREETING_stale,   /* another round of ours */
                           DDP_GREETING_lost,    /* hung up in the middle */
} DdpGreeting;

void ddp_peer_put(DdpBytes *b, const DdpPeer *p);
void ddp_peer_get(DdpReader *r, DdpPeer *p);
bool ddp_hello_recv(int fd, DdpHello *out, double deadline);

/* Rank 0: admits all ranks, or says why not. */
DdpError *ddp_meet_host(const DdpMeet *meet, DdpMeeting *out);
/* Others: greets over a fresh connection. *expected: nonce of the channel, or 0 for none (then it
   receives the banner's). On ok the connection is accepted; *error: rejected for good. */
DdpGreeting ddp_meet_greet(int fd, const DdpMeet *meet, const DdpMeeting *me, uint64_t *expected,
                           DdpError **error);
/* Waits for the table over links[0]. */
DdpError *ddp_meet_table(const DdpMeet *meet, DdpMeeting *out);
#endif
