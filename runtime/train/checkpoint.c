/* Weights to files. In: arenas. Out: model.safetensors with the model's names, tied tensors
   once, and the job's hash in the metadata, written by rank 0 while the others wait. */
#include "run.h"
#include "file.h"
#include "log.h"
#include "safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t dtype_bytes[] = {
#define DTYPE(name, ctype, bytes, category, st) bytes,
#include "dtype.def"
};

static DdpError *save_tensors(DdpRun *r, const char *path) {
  const DdpJob *job = r->job;
  int n = 0, pairs = 0;
  char hash[20];
  snprintf(hash, sizeof hash, "%016llx", (unsigned long long)job->spec_hash);
  DdpSafeTensor *list = calloc((size_t)job->n_tensors + 1, sizeof *list);
  const char **aliases = calloc(2 * (size_t)job->n_tensors + 3, sizeof *aliases);
  DdpError *error = list && aliases ? NULL : ddp_error(DDP_MEMORY, "out of memory");
  if (!error) {
    aliases[pairs++] = "ddp_spec_hash";
    aliases[pairs++] = hash;
  }
  for (int32_t i = 0; i < job->n_tensors && !error; i++) {
    const DdpTensor *t = &job->tensors[i];
    if (t->tied_to >= 0) {
      aliases[pairs++] = t->name;
      aliases[pairs++] = job->tensors[t->tied_to].name;
      continue;
    }
    list[n++] = (DdpSafeTensor){.name = t->name,
                                .dtype = t->dtype,
                                .rank = t->rank,
                                .shape = t->shape,
                                .data = run_tensor(r, t),
                                .bytes = t->elements * dtype_bytes[t->dtype]};
  }
  if (!error) error = ddp_safetensors_write(path, list, n, aliases);
  free(list);
  free(aliases);
  return error;
}

static DdpError *save_here(DdpRun *r, const char *folder) {
  DDP_TRY(ddp_file_make_folder(folder));
  char *path = ddp_file_join(folder, "model.safetensors");
  if (!path) return ddp_error(DDP_MEMORY, "out of memory");
  DdpError *error = save_tensors(r, path);
  if (!error) ddp_log(DDP_LOG_debug, "saved %s", path);
  if (error) rmdir(folder); /* if nothing else is in it */
  free(path);
  return error;
}

DdpError *run_save(DdpRun *r, const char *folder) {
  ddp_group_at(r->group, r->progress.update, "saving");
  DDP_TRY(run_broadcast_buffers(r));
  DDP_TRY(run_check_buffers(r));
  DdpError *error = r->rank == 0 ? save_here(r, folder) : NULL;
  return run_agree(r, error, "saving weights");
}
