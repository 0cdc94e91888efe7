/* The interface of all communication backends (shm, gloo, nccl; xccl, hccl, cncl later).
   Every rank makes the same calls in the same order. A reduction is a sum, in an order fixed by
   rank so that all ranks and all runs get the same bits. Every wait has a deadline; an error is
   final for the communicator. A vendor's header is included in one file only. */
#ifndef DDP_COMM_COMM_H
#define DDP_COMM_COMM_H
#include "ddp/job.h"
#include "ddp/status.h"
#include "store.h"

typedef struct DdpComm DdpComm;
typedef struct DdpWork DdpWork; /* one collective in flight */

typedef struct DdpCommOptions {
  int rank, world; /* within this communicator */
  DdpStore *store;
  const char *prefix;  /* keys of this communicator */
  const char *address; /* numeric address by which the others reach this rank */
  double deadline;     /* ddp_clock() seconds for opening */
  double timeout;      /* seconds for each operation: ddp_timeout */
  /* Asked when an operation reaches its deadline; rank: who is missing, -1: not known. true: that
     rank is known to be busy, wait for another timeout. NULL: never. */
  bool (*patience)(void *self, int rank);
  void *patience_self;
} DdpCommOptions;

enum {
  DDP_CAP_IN_PLACE_ALLOC = 1, /* all_reduce takes memory of alloc only */
  DDP_CAP_INLINE = 2,         /* progress happens inside poll and wait, without a thread */
  /* Works in memory of devices. A call enqueues on `stream` and gives no work to wait for: what the stream holds
     after it comes after it. Numbers of a 16-bit wire lie dense. Errors that come later are told by async_error. */
  DDP_CAP_DEVICE = 4,
};

typedef struct DdpBackend {
  const char *name;
  unsigned caps;
  /* Can it be used here? false: *why says what is missing, in one line. */
  bool (*probe)(const char **why);
  DdpError *(*open)(DdpComm **out, const DdpCommOptions *options);
  /* Memory that collectives work on in place (shared memory, registered windows); zeroed, 64-byte
     aligned. Collective: all ranks call it with the same size. */
  DdpError *(*alloc)(DdpComm *c, size_t bytes, void **out);
  void (*free)(DdpComm *c, void *p);
  /* Enqueue; `what` names the operation in errors ("bucket 2") and lives until the wait. stream:
     NULL on CPUs. *out NULL: already done; wait accepts that. An error's rank counts within this
     communicator; class DDP_TIMEOUT: the deadline passed, DDP_PEER: a rank is gone. */
  /* Floats in place. wire: float32, or a 16-bit type, of which they are numbers: they travel and are added
     up in it. */
  DdpError *(*all_reduce)(DdpComm *c, void *data, int64_t n, DdpDType wire, const char *what,
                          void *stream, DdpWork **out);
  DdpError *(*broadcast)(DdpComm *c, void *data, int64_t bytes, int root, const char *what,
                         void *stream, DdpWork **out);
  DdpError *(*all_gather)(DdpComm *c, const void *mine, void *all, int64_t bytes, const char *what,
                          void *stream, DdpWork **out);
  DdpError *(*barrier)(DdpComm *c, const char *what);
  /* poll: advances without waiting, sets *done. wait: until done or the deadline; frees the
     work. */
  DdpError *(*poll)(DdpWork *w, bool *done);
  DdpError *(*wait)(DdpWork *w);
  DdpError *(*async_error)(DdpComm *c);
  /* From any thread: a rank whose host does not acknowledge what is sent to it, -1: none known. NULL:
     ranks share a host. */
  int (*unreachable)(DdpComm *c);
  void (*abort)(DdpComm *c); /* from any thread: wakes blocked calls */
  void (*close)(DdpComm *c);
} DdpBackend;

extern const DdpBackend ddp_backend_shm, ddp_backend_gloo;
/* By the name of `ddp_backend`; NULL: no such name. */
const DdpBackend *ddp_backend_find(const char *name);
#endif
