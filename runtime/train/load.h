/* One `load`, or --init_from, with its file open: which tensor is called what there. */
#ifndef DDP_TRAIN_LOAD_H
#define DDP_TRAIN_LOAD_H
#include "run.h"
#include "safetensors.h"

typedef struct RunLoad {
  const DdpJob *job;
  const DdpLoad *load; /* NULL: the file stands for the whole model */
  DdpSafeFile *file;
  DdpSafeNames names;
  DdpLoadItem *items; /* what is taken */
  int32_t n_items;
  char *path; /* of the module that is filled; "" */
} RunLoad;

/* Close it whatever this gives. */
DdpError *run_load_open(RunLoad *l, const DdpJob *job, const DdpLoad *load, const char *path);
/* Where the file has tensor t, called `name`: under its own name, or under that of one tied to it; -1. */
int run_load_find(const RunLoad *l, const DdpTensor *t, const char *name);
void run_load_close(RunLoad *l);
#endif
