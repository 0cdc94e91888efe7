/* The job's data: every file read once, checked against the declared fields, kept as dense typed columns;
   splits are lists of rows. Rows of tokens are kept as they are, and a sample is where it begins. */
#ifndef DDP_DATA_DATASET_H
#define DDP_DATA_DATASET_H
#include "ddp/job.h"
#include "ddp/status.h"

typedef struct DdpDataset DdpDataset;

/* Reads all splits. root: folder of relative paths, or NULL: the job's. Errors (class DDP_DATA) name
   file, line, column, what was found and what was expected. */
DdpError *ddp_dataset_load(DdpDataset **out, const DdpJob *job, const char *root);
void ddp_dataset_free(DdpDataset *d);
/* Number of samples of a split by name; -1: no such split. */
int64_t ddp_dataset_rows(const DdpDataset *d, const char *split);
/* Where sample i of a split stands among all rows read, from 0: in the file's order if there is one; of
   windows: its first token. */
int64_t ddp_dataset_row(const DdpDataset *d, const char *split, int64_t i);
/* Rows left out because a field held the source's `missing` text. */
int64_t ddp_dataset_dropped(const DdpDataset *d);
/* Of contents and splits; must agree on all ranks. */
uint64_t ddp_dataset_hash(const DdpDataset *d);

/* A split for the loop: copies samples `index[0..n)` of it into one dense buffer per field; unused
   fields are left alone (their buffer may be NULL). Fails where tokens are read and checked only now. */
DdpError *ddp_dataset_gather(const DdpDataset *d, const char *split, const int64_t *index,
                             int64_t n, void *const *into);
#endif
