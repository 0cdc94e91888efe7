/* How ranks meet: every rank ends with a checked connection to rank 0 and the table of all ranks,
   or with the reason why not. */
#ifndef DDP_COMM_RENDEZVOUS_H
#define DDP_COMM_RENDEZVOUS_H
#include "launch.h"
#include "net.h"
#include <stdint.h>

enum { DDP_HOST_ID = 192 };

typedef struct DdpPeer {
  int pid;                    /* in its own pid namespace */
  char host_id[DDP_HOST_ID];  /* equal: shared memory and abstract sockets work between them */
  char host_name[64];         /* for people */
  char address[DDP_NET_NAME]; /* where the other hosts reach it */
} DdpPeer;

typedef struct DdpMeeting {
  int rank, world;
  uint64_t nonce; /* of this round */
  int *links;     /* rank 0: [world], its own is -1; others: links[0] leads to rank 0 */
  DdpPeer *peers; /* [world] */
} DdpMeeting;

typedef struct DdpProgramId { /* must be the same on all ranks */
  uint64_t hash;
  const char *text; /* "key=value\n" lines; names what differs */
} DdpProgramId;

DdpError *ddp_rendezvous(DdpMeeting *out, const DdpLaunch *launch, const DdpProgramId *program,
                         double timeout);
void ddp_meeting_close(DdpMeeting *m);

/* "learning_rate is 0.1 on rank 1 and 0.2 on rank 0": first line of two texts that differs. */
void ddp_program_difference(const char *text, int rank, const char *text0, char *out, size_t size);
/* This process's host_id and host_name. */
void ddp_host_identity(DdpPeer *out);
#endif
