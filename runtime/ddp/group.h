/* The process group as the training loop sees it: hides which backends carry what (shared memory
   inside a host, Gloo between hosts). World of one: every call returns at once, but for those in the memory of
   devices if `alone` asks for them. */
#ifndef DDP_DDP_GROUP_H
#define DDP_DDP_GROUP_H
#include "ddp/job.h"
#include "ddp/status.h"
#include "flight.h"
#include "launch.h"

typedef struct DdpGroup DdpGroup;
typedef struct DdpGroupWork DdpGroupWork;

typedef struct DdpGroupOptions {
  const char *backend;      /* ddp_backend: "gloo" ... NULL: default */
  bool intra_node_backend;  /* runtime { intra_node = backend } */
  double timeout;           /* ddp_timeout, from the rendezvous on */
  uint64_t program_hash;    /* of plan, spec and settings that must agree on all ranks */
  const char *program_text; /* what differs is named in the error: "key=value\n" lines */
  const char *record;       /* folder of the flight record; NULL: none is written */
  bool alone;               /* one rank meets itself, as several do, for a backend of devices */
} DdpGroupOptions;

/* Rendezvous, handshake (rank, world, host, program hash), backends. Starts the watchdog. */
DdpError *ddp_group_open(DdpGroup **out, const DdpLaunch *launch, const DdpGroupOptions *options);
int ddp_group_rank(const DdpGroup *g);
int ddp_group_world(const DdpGroup *g);
const char *ddp_group_path(const DdpGroup *g); /* "shared memory", "gloo", "shared memory + gloo" */
bool ddp_group_one_host(const DdpGroup *g);
DdpFlight *ddp_group_flight(DdpGroup *g); /* the group's own; every collective is in it */

/* Memory in which all-reduce works in place (gradient arena), zeroed. Collective. The group's:
   close takes it back. */
DdpError *ddp_group_alloc(DdpGroup *g, size_t bytes, void **out);
/* In place sum of floats; range lies in memory of ddp_group_alloc. wire: float32, or the 16-bit type to
   which this rank's part is rounded (ddp_sum_compress) and in which the parts travel and are added. */
DdpError *ddp_group_all_reduce_start(DdpGroup *g, float *data, int64_t n, DdpDType wire,
                                     const char *what, DdpGroupWork **out);
DdpError *ddp_group_progress(DdpGroup *g); /* advances what can go on without waiting */
DdpError *ddp_group_wait(DdpGroup *g, DdpGroupWork *w);
/* ---- in the memory of devices ----
   Between GPUs gradients travel through a backend of their own, all small values of the host as on CPUs. Calls
   enqueue on the device's stream of collectives, after all that its stream of computation holds, and return; a
   pass that holds such calls may be captured and replayed. Nothing of it in a world of one. */
/* Can the target's backend be used here? Opens its library, nothing else. */
DdpError *ddp_group_device_probe(const DdpTarget *target);
/* Once the device is open: ddp_group_alloc gives memory of it from now on. Collective. */
DdpError *ddp_group_device_open(DdpGroup *g, const DdpTarget *target);
bool ddp_group_on_device(const DdpGroup *g);
/* out = in summed over ranks; both of the device. wire: a 16-bit type needs room for n of its numbers. */
DdpError *ddp_group_device_sum(DdpGroup *g, float *out, const float *in, int64_t n, DdpDType wire,
                               void *room, const char *what);
/* What is computed from now on comes after all sums so far. */
DdpError *ddp_group_device_join(DdpGroup *g);
/* Rank 0's bytes to all ranks; what is computed from now on finds them. */
DdpError *ddp_group_device_broadcast(DdpGroup *g, void *data, int64_t bytes, const char *what);
/* Its number in the flight record. Once for each collective of a pass each time that the pass is enqueued, replayed
   or not. */
uint64_t ddp_group_device_enter(DdpGroup *g, DdpFlightOp op, const char *what, int64_t bytes);
/* Waits for all that the stream holds, at most until ddp_timeout or the first error of any rank. */
DdpError *ddp_group_device_wait(DdpGroup *g, void *stream, const char *what);

/* Small host values, any memory, blocking; also while all-reduces are under way. */
DdpError *ddp_group_sum(DdpGroup *g, double *data, int n, const char *what);
DdpError *ddp_group_broadcast(DdpGroup *g, void *data, int64_t bytes, int root, const char *what);
DdpError *ddp_group_all_gather(DdpGroup *g, const void *mine, void *all, int64_t bytes,
                               const char *what);
DdpError *ddp_group_barrier(DdpGroup *g, const char *what);
/* Seconds that the caller has spent in collectives so far: sums that it added itself, and waits. */
double ddp_group_spent(const DdpGroup *g);
/* Called for each of them that took time. NULL: not. */
typedef void DdpGroupWatch(void *self, const char *what, double begin, double end);
void ddp_group_watch(DdpGroup *g, DdpGroupWatch *watch, void *self);
/* For the messages of errors. phase: a string constant; while it begins with "saving" the others
   wait for this rank as long as it is alive. */
void ddp_group_at(DdpGroup *g, int64_t update, const char *phase);
const char *ddp_group_phase(const DdpGroup *g);
int64_t ddp_group_update(const DdpGroup *g); /* -1: before the first */
/* A wish to end that spreads over the control plane within half a second. reason: from 1, the caller's
   own; the answer is that of some rank that has one, 0: none. */
void ddp_group_ask_stop(DdpGroup *g, int reason);
int ddp_group_stop_asked(DdpGroup *g);
/* Tells the others why this rank ends, wakes and ends everything, writes the flight record. */
void ddp_group_abort(DdpGroup *g, const DdpError *why);
/* The flight record of a rank that crashes; safe in a signal handler. */
void ddp_group_crash(DdpGroup *g, int code, const char *reason);
void ddp_group_close(DdpGroup *g); /* all ranks reached the end */
#endif
