/* Which checkpoints are kept (save_total_limit), by the Trainer's rule: the newest and the best one always,
   of the others the newest ones up to the limit. */
#ifndef DDP_TRAIN_KEEP_H
#define DDP_TRAIN_KEEP_H
#include "ddp/status.h"
#include <stdint.h>

typedef struct DdpKeep {
  int64_t limit;  /* 0 or less: all are kept */
  int64_t newest; /* update of the one that was saved last */
  int64_t best;   /* of the best one in this folder; -1: none, or it lies elsewhere */
} DdpKeep;

/* Of the n updates for which a folder has checkpoints, the ones that go: moved to the front of `updates`, in
   the order in which they are to be removed; returns how many. A number above `newest` was left there by
   an earlier run, since this one has not come that far: those go first. */
int ddp_keep_select(int64_t *updates, int n, const DdpKeep *k);
#endif
