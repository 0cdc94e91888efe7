/* Inside of the process group, shared by its files. */
#ifndef DDP_DDP_GROUP_STATE_H
#define DDP_DDP_GROUP_STATE_H
#include "comm.h"
#include "control.h"
#include "group.h"
#include "members.h"
#include <stdatomic.h>

typedef struct DdpLevel { /* one communicator of the group */
  const DdpBackend *backend;
  DdpComm *comm; /* NULL: this rank takes no part */
} DdpLevel;

enum { DDP_GROUP_ARENAS = 16 };
struct DdpDevice;

struct DdpGroup {
  DdpLaunch launch;
  int rank, world;
  double timeout;
  DdpMembers members;
  DdpControl *control;
  DdpLevel inside;  /* ranks of this host; comm NULL: none */
  DdpLevel between; /* all ranks, or one leader per host */
  DdpLevel device;  /* all ranks, in the memory of their devices; comm NULL: none */
  const DdpTarget *target;
  uint64_t device_seen; /* collectives of devices up to this number have ended */
  bool two_level;       /* both are used */
  bool leader;          /* of its host; true without levels inside */
  char path[48];
  DdpGroupWork *works; /* in flight, oldest first */
  DdpGroupWork *idle;  /* finished ones, used again */
  double *gathered;    /* scratch of ddp_group_sum */
  size_t gathered_n;
  void *arenas[DDP_GROUP_ARENAS]; /* of ddp_group_alloc */
  int n_arenas;
  DdpFlightOp op;   /* what the training thread waits for */
  uint64_t awaited; /* its number: a rank that has entered fewer is absent */
  DdpFlight *flight;
  double entered, spent; /* seconds: the call that is running began; in all calls */
  DdpGroupWatch *watch;
  void *watch_self;
  /* Read by the control thread. */
  _Atomic uint64_t arrived;
  _Atomic int64_t update;
  _Atomic(const char *) phase;
  atomic_int stop;    /* this rank was asked to end: why, 0: it was not */
  atomic_bool opened; /* levels may be aborted */
  atomic_bool device_opened;
  atomic_bool leaving; /* this rank is on its way out with an error */
};

typedef enum DdpLevelName { DDP_LEVEL_inside, DDP_LEVEL_between, DDP_LEVEL_device } DdpLevelName;

/* Makes a backend's error the job's: finds who is to blame, words it, tells the others. */
DdpError *ddp_group_fail(DdpGroup *g, DdpLevelName level, DdpError *e);
/* Whether a rank that is late is known to be busy with what others must wait for. */
bool ddp_group_patience_inside(void *group, int local);
bool ddp_group_patience_between(void *group, int number);
/* What a communicator over all ranks, or those of a level, is opened with. */
DdpCommOptions ddp_group_comm_options(DdpGroup *g, const char *prefix, double deadline);
/* Every collective enters here, in the same order on every rank: its number in the flight record. And what the
   caller spent in it. */
uint64_t ddp_group_arrive(DdpGroup *g, DdpFlightOp op, const char *what, int64_t bytes);
void ddp_group_spend(DdpGroup *g, const char *what);
/* While the host waits for devices, from time to time: an error of any rank, or the deadline. */
typedef struct DdpDeviceWait {
  double last, at; /* clock, deadline */
} DdpDeviceWait;
DdpDeviceWait ddp_group_device_deadline(const DdpGroup *g);
DdpError *ddp_group_device_look(DdpGroup *g, DdpDeviceWait *w, const char *what);
/* A moment in which nothing has to be seen. turn: from 0; the first ones are short. */
void ddp_group_device_nap(int turn);
/* Writes the flight record of a job that fails, unless its reason lies in its settings or data. */
void ddp_group_record(DdpGroup *g, const DdpError *why);
/* Hooks of the control plane. */
DdpControlHooks ddp_group_hooks(DdpGroup *g);
/* Rank that took part in a level under that number. */
int ddp_group_rank_of(const DdpGroup *g, DdpLevelName level, int number);
#endif
