/* What a checkpoint keeps of a run, named: one list for each of its files. Writing, reading and
   sending to other ranks all walk the same lists. */
#ifndef DDP_TRAIN_PARTS_H
#define DDP_TRAIN_PARTS_H
#include "run.h"

typedef enum RunPartsOf {
  RUN_PARTS_model,     /* weights and buffers under the model's names, tied ones once */
  RUN_PARTS_ema,       /* the same with the average of the weights; only with ema_decay */
  RUN_PARTS_optimizer, /* "<state>.<parameter>" */
  RUN_PARTS_scheduler, /* counters, rates, loss scale */
  RUN_PARTS_COUNT
} RunPartsOf;

typedef struct RunPart {
  const char *name;
  DdpDType dtype;
  int32_t rank; /* 0: one number */
  const int64_t *shape;
  void *data;
  int64_t bytes;
  bool there; /* `data` is memory of a device */
} RunPart;

typedef struct RunParts {
  RunPartsOf of;
  RunPart *at;
  int n, room;
  char *names;           /* those that were made for this list */
  int64_t (*lengths)[1]; /* shapes of lists of numbers */
  int64_t bytes;         /* of all data */
  char *fetched;         /* run_parts_fetch */
} RunParts;

const char *run_parts_file(RunPartsOf of); /* "model.safetensors" */
/* Does this run have such a list? */
bool run_parts_has(const DdpRun *r, RunPartsOf of);
/* Is it among the weights, which save_only_model saves too? */
bool run_parts_weights(RunPartsOf of);
/* Close it whatever this gives. The parts point into the run's memory. */
DdpError *run_parts_open(RunParts *p, DdpRun *r, RunPartsOf of);
void run_parts_close(RunParts *p);
/* Does memory of a device belong to them? */
bool run_parts_apart(const RunParts *p);
/* The parts are copies in the host's memory from here on, at `room`; each at a multiple of 64 bytes. Returns
   what is behind them. */
DdpError *run_parts_copy(RunParts *p, const DdpRun *r, char **room);
int64_t run_parts_room(const RunParts *p);
/* Those of a device become copies, in memory of the list. */
DdpError *run_parts_fetch(RunParts *p, const DdpRun *r);
/* Their file in the folder, atomically. */
DdpError *run_parts_write(const RunParts *p, const DdpJob *job, const char *folder);
/* Every part must be there with its type and shape, and nothing else; but with `changed` what
   the list lacks or the file lacks is left as it is. */
DdpError *run_parts_read(const RunParts *p, const char *path, bool changed);
/* Rank 0's parts to all ranks, in one message. Collective. */
DdpError *run_parts_broadcast(const RunParts *p, DdpRun *r, const char *what);
#endif
