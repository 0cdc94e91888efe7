/* Control plane: the rendezvous connections, kept open and served by one thread on each rank. It
   carries the store, tells everybody when a rank is lost or gives up, and knows where each rank is.
   Star around rank 0. The first error of the job wins and stays. */
#ifndef DDP_COMM_CONTROL_H
#define DDP_COMM_CONTROL_H
#include "rendezvous.h"
#include "store.h"

typedef struct DdpControl DdpControl;

typedef struct DdpPosition { /* where a rank is */
  uint64_t arrived;          /* collectives that it has entered */
  int64_t update;
  int stop;        /* reason for which it was asked to end, 0: it was not */
  char phase[24];  /* what its training loop does: "forward", "saving", ... */
  int unreachable; /* rank to which nothing gets through from it over the backend, -1: none */
  bool cut; /* its host acknowledges nothing; said by rank 0, of rank 0 by this rank itself */
} DdpPosition;

typedef struct DdpControlHooks {
  void *self;
  /* This rank's own position, asked a few times a second. */
  void (*position)(void *self, DdpPosition *out);
  /* What it is in the middle of, for an error: "update 12: all-reduce of bucket 0", "": nothing. */
  void (*doing)(void *self, char *out, size_t size);
  /* Once, at the job's first error (of any rank); must not block. */
  void (*failed)(void *self);
  /* A few times a second after the first error; seconds since then. */
  void (*tick)(void *self, double since_failure);
  /* The parent process is the launcher, and this rank ends when it is gone (torchrun does not see
     to it when it is killed itself). */
  bool with_parent;
  /* A rank that is not heard of for ddp_timeout and a moment is lost, whether anybody waits for it or not. */
  double timeout;
} DdpControlHooks;

/* Takes over the links and peers of the meeting. */
DdpError *ddp_control_open(DdpControl **out, DdpMeeting *meeting, const DdpControlHooks *hooks);
const DdpPeer *ddp_control_peers(const DdpControl *c);
uint64_t ddp_control_nonce(const DdpControl *c);
DdpStore *ddp_control_store(DdpControl *c);
/* Copy of the first error, NULL while there is none. */
DdpError *ddp_control_error(DdpControl *c);
/* Waits up to that long for a first error that another rank may be about to report. */
DdpError *ddp_control_error_soon(DdpControl *c, double seconds);
/* Makes this rank's error the job's, unless one is known already, and tells the others. */
void ddp_control_abort(DdpControl *c, const DdpError *e);
/* Last known position of a rank and the seconds since it was heard of. */
void ddp_control_position(DdpControl *c, int rank, DdpPosition *out, double *age);
/* Orderly end: returns when all ranks have said goodbye, with an error when one did not. */
DdpError *ddp_control_bye(DdpControl *c, double deadline);
void ddp_control_close(DdpControl *c);
#endif
