/* Complete checkpoints: a folder `checkpoint-N` whose manifest.json, written last, holds the
   size and the checksum of every other file, and what the run was. A folder without one, or with
   another size, is none. */
#ifndef DDP_TRAIN_MANIFEST_H
#define DDP_TRAIN_MANIFEST_H
#include "ddp/status.h"
#include "keep.h"
#include <stdbool.h>
#include <stdint.h>

enum { DDP_CHECKPOINT_FORMAT = 1, DDP_CHECKPOINT_FILES = 8 };

typedef struct DdpManifestFile {
  char name[40];
  int64_t bytes;
  char xxh128[36]; /* of its contents, as `xxhsum -H2` prints it */
} DdpManifestFile;

typedef struct DdpManifestSetting {
  const char *key, *value;
} DdpManifestSetting;

typedef struct DdpManifest {
  int64_t format;
  int64_t update, total, planned; /* finished updates, those of the whole run (counts.h) */
  int64_t epoch, place;           /* from 0; samples of it that are done (ddp_counts_place) */
  int64_t world, batch, accumulation;
  int64_t accumulation_set; /* what the setting says; another number of ranks may have changed it */
  int64_t samples, updates_per_epoch;
  int64_t complete_state; /* 0: only the weights (save_only_model) */
  uint64_t spec_hash, plan_hash, data_hash;
  const char *job, *compiler;
  DdpManifestSetting *settings;
  int n_settings;
  DdpManifestFile files[DDP_CHECKPOINT_FILES];
  int n_files;
  void *text; /* what the strings of a manifest that was read point into */
} DdpManifest;

/* Adds a file of the folder, with the size and checksum that it has there. */
DdpError *ddp_manifest_add(DdpManifest *m, const char *folder, const char *name);
/* <folder>/manifest.json. */
DdpError *ddp_manifest_write(const DdpManifest *m, const char *folder);
/* Any fault is a DDP_DATA that names the file and what is wrong with it. */
DdpError *ddp_manifest_read(DdpManifest *m, const char *folder);
void ddp_manifest_free(DdpManifest *m);

/* Is this a complete checkpoint? Sizes, or with `whole` the checksums of all files too. `out`
   (may be NULL) gets the manifest, to be freed. */
DdpError *ddp_checkpoint_verify(const char *folder, bool whole, DdpManifest *out);
/* The checkpoint of `output` with the highest number that passes ddp_checkpoint_verify and holds
   more than weights. *folder: NULL if there is none. *skipped: one line "\n  NAME: why" for each
   that was passed over, or NULL. Both to be freed. */
DdpError *ddp_checkpoint_newest(const char *output, bool whole, char **folder, char **skipped);
/* Sizes alone, and nothing about what is wrong. */
bool ddp_checkpoint_complete(const char *folder);
/* <output>/checkpoint-<update>; to be freed. NULL: out of memory. And back: -1, the folder is none of
   `output`. */
char *ddp_checkpoint_path(const char *output, int64_t update);
int64_t ddp_checkpoint_number(const char *output, const char *folder);
/* Numbers of the folders checkpoint-N of `output`, complete or not, highest first; to be freed.
   None if the folder cannot be read. */
DdpError *ddp_checkpoint_list(const char *output, int64_t **numbers, int *n);
/* What killed runs left behind. Rank 0 alone, when no other run writes there. */
DdpError *ddp_checkpoint_sweep(const char *output);

/* A folder beside the target, to be filled; to be freed. */
DdpError *ddp_checkpoint_begin(char **partial, const char *output, int64_t update);
/* The folder takes its name; one that had it before is gone. */
DdpError *ddp_checkpoint_publish(const char *partial, const char *output, int64_t update);
DdpError *ddp_checkpoint_delete(const char *output, int64_t update);
/* Removes what k does not keep. A folder that is no complete checkpoint is not counted and
   stays. */
DdpError *ddp_checkpoint_rotate(const char *output, const DdpKeep *k);
/* Removes a folder and the files in it. Missing ones are no error. */
DdpError *ddp_checkpoint_remove(const char *folder);
#endif
