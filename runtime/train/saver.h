/* Writing of checkpoints while training goes on: a copy of all that is kept is taken between two
   updates, and a thread writes it. Rank 0 alone. */
#ifndef DDP_TRAIN_SAVER_H
#define DDP_TRAIN_SAVER_H
#include "keep.h"
#include "manifest.h"
#include "parts.h"

typedef struct RunSaver RunSaver;

/* All that a checkpoint is made of. */
typedef struct RunImage {
  RunParts parts[RUN_PARTS_COUNT];
  int n_parts;
  DdpManifest manifest;
  DdpManifestSetting settings[DDP_KEY_COUNT]; /* of the manifest */
  char *state;                                /* the text of trainer_state.json */
  DdpKeep keep;                               /* what stays once it is written */
} RunImage;
void run_image_close(RunImage *image);

/* Writes r's image: begins to, and lets the thread do it, or does it at once where a copy does
   not fit into memory or nobody wants one (`async_save = false`). The one before is waited for;
   its error is returned. */
DdpError *run_saver_start(DdpRun *r, const RunImage *image);
/* The last one is on the disk, or why it is not. An error is told once. */
DdpError *run_saver_wait(DdpRun *r);
/* Something went wrong that run_saver_wait will tell. */
bool run_saver_failed(const DdpRun *r);
void run_saver_close(DdpRun *r);
#endif
