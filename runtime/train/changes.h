/* What differs between the run that wrote a checkpoint and the one that goes on from it. Rank 0. */
#ifndef DDP_TRAIN_CHANGES_H
#define DDP_TRAIN_CHANGES_H
#include "manifest.h"
#include "run.h"

/* Program, settings and global batch. Differences that change what is computed are an error, or
   with `resume_changes = allow` a warning. *accumulation: micro-batches of an update from now
   on; another number of ranks or another batch keeps the global batch by it where it can. */
DdpError *run_changes(const DdpRun *r, const DdpManifest *m, const char *folder,
                      int64_t *accumulation);
/* The data, once they are read. */
DdpError *run_changes_data(const DdpRun *r, const DdpManifest *m, const char *folder);
/* Does this setting belong to what a checkpoint can be compared with? */
bool run_changes_matter(const DdpRun *r, DdpKey key);
bool run_changes_allowed(const DdpRun *r);
#endif
