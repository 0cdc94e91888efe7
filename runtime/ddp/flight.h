/* The flight record: the last collectives of this rank, kept in memory while it runs and written as
   flight-<rank>.json when the job fails, so that the records of all ranks say who was where. A trace
   takes every finished collective from the same ring. */
#ifndef DDP_DDP_FLIGHT_H
#define DDP_DDP_FLIGHT_H
#include "ddp/status.h"
#include <stdbool.h>
#include <stdint.h>

/* name in the record, what stands before the collective's own name in a message */
#define DDP_FLIGHT_OPS(X)                                                                          \
  X(all_reduce, "all-reduce", "all-reduce of ")                                                    \
  X(broadcast, "broadcast", "broadcast of ")                                                       \
  X(all_gather, "all-gather", "all-gather of ")                                                    \
  X(barrier, "barrier", "barrier: ")                                                               \
  X(alloc, "alloc", "")

typedef enum DdpFlightOp {
#define X(id, name, words) DDP_FLIGHT_##id,
  DDP_FLIGHT_OPS(X)
#undef X
} DdpFlightOp;
const char *ddp_flight_op_name(DdpFlightOp op);
const char *ddp_flight_op_words(DdpFlightOp op);

typedef enum DdpFlightState { /* as PyTorch's flight recorder */
                              DDP_FLIGHT_scheduled,
                              DDP_FLIGHT_started,
                              DDP_FLIGHT_completed,
} DdpFlightState;

enum { DDP_FLIGHT_NAME = 48, DDP_FLIGHT_KEPT = 1024 };

typedef struct DdpFlightEntry {
  uint64_t sequence; /* from 1; the same collective has the same number on every rank */
  DdpFlightOp op;
  DdpFlightState state;
  char name[DDP_FLIGHT_NAME]; /* "bucket 2", "buffers" */
  int64_t bytes;
  int64_t update; /* -1: before the first */
  int bucket;     /* -1: none */
  /* Seconds of ddp_clock. started: this rank began to wait for it, or moved it on; 0: not yet. */
  double scheduled, started, completed;
} DdpFlightEntry;

typedef struct DdpFlight DdpFlight;

/* The record goes to <folder>/flight-<rank>.json. NULL: it is kept and never written. */
DdpError *ddp_flight_open(DdpFlight **out, const char *folder, int rank, int world);
void ddp_flight_close(DdpFlight *f);
/* Number of the new entry. */
uint64_t ddp_flight_begin(DdpFlight *f, DdpFlightOp op, const char *name, int64_t bytes,
                          int64_t update);
/* From any thread; entries that have left the ring, and second calls, are no matter. */
void ddp_flight_start(DdpFlight *f, uint64_t sequence);
void ddp_flight_complete(DdpFlight *f, uint64_t sequence);
/* The number of the last entry. */
uint64_t ddp_flight_last(const DdpFlight *f);
/* The oldest collective that is not complete; false: none. */
bool ddp_flight_pending(DdpFlight *f, DdpFlightEntry *out);
/* Called with each completed collective, from the thread that completed it. NULL: none. */
typedef void DdpFlightSink(void *self, const DdpFlightEntry *e);
void ddp_flight_sink(DdpFlight *f, DdpFlightSink *sink, void *self);

typedef struct DdpFlightPeer { /* what this rank knew of another one */
  int rank;
  uint64_t sequence; /* collectives that it had entered */
  int64_t update;
  const char *phase;
  double silent; /* seconds since it was heard of */
} DdpFlightPeer;

typedef struct DdpFlightCause {
  const char *reason; /* the error's text */
  int code;           /* exit code, or 128 + signal */
  int blamed;         /* rank; -1: nobody */
  int64_t update;
  const char *phase;
  const DdpFlightPeer *peers;
  int n_peers;
} DdpFlightCause;

/* Writes the file whole or not at all; once, later calls do nothing. Safe in a signal handler and
   from any thread. false: it could not be written (errno). */
bool ddp_flight_write(DdpFlight *f, const DdpFlightCause *why);
/* Removes what ranks of earlier runs left that were killed while they wrote. */
void ddp_flight_sweep(const char *folder);
/* Path of the record, NULL without a folder. */
const char *ddp_flight_path(const DdpFlight *f);
#endif
