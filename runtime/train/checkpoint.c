/* Weights to and from files. In: arenas. Out: model.safetensors with the model's names, tied tensors
   once, written by rank 0 while the others wait; or arenas filled from such a file. */
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
  DdpSafeTensor *list = calloc((size_t)job->n_tensors + 1, sizeof *list);
  const char **aliases = calloc(2 * (size_t)job->n_tensors + 1, sizeof *aliases);
  DdpError *error = list && aliases ? NULL : ddp_error(DDP_MEMORY, "out of memory");
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
  ddp_group_at(r->group, r->update, "saving");
  DDP_TRY(run_broadcast_buffers(r));
  DDP_TRY(run_check_buffers(r));
  DdpError *error = r->rank == 0 ? save_here(r, folder) : NULL;
  return run_agree(r, error, "saving weights");
}

static bool is_known(const DdpJob *job, const char *name) {
  for (int32_t i = 0; i < job->n_tensors; i++) {
    if (strcmp(job->tensors[i].name, name) == 0) return true;
  }
  return false;
}

static DdpError *check_names(const DdpJob *job, const DdpSafeFile *f, const char *path) {
  char missing[300] = "", surplus[300] = "";
  int n_missing = 0, n_surplus = 0;
  for (int32_t i = 0; i < job->n_tensors; i++) {
    const DdpTensor *t = &job->tensors[i];
    if (t->tied_to >= 0 || ddp_safetensors_find(f, t->name) >= 0) continue;
    size_t used = strlen(missing);
    snprintf(missing + used, sizeof missing - used, "%s%s", n_missing++ ? ", " : "", t->name);
  }
  for (int i = 0; i < ddp_safetensors_count(f); i++) {
    const char *name = ddp_safetensors_name(f, i);
    if (is_known(job, name)) continue;
    size_t used = strlen(surplus);
    snprintf(surplus + used, sizeof surplus - used, "%s%s", n_surplus++ ? ", " : "", name);
  }
  if (n_missing == 0 && n_surplus == 0) return NULL;
  return ddp_error(DDP_DATA, "'%s' does not fit the model:%s%s%s%s", path,
                   n_missing ? " it lacks " : "", missing,
                   n_surplus ? (n_missing ? "; it has beyond it " : " it has beyond it ") : "",
                   surplus);
}

DdpError *run_load(DdpRun *r, const char *path) {
  DdpSafeFile *f;
  DDP_TRY(ddp_safetensors_open(&f, path));
  DdpError *error = check_names(r->job, f, path);
  for (int32_t i = 0; i < r->job->n_tensors && !error; i++) {
    const DdpTensor *t = &r->job->tensors[i];
    if (t->tied_to >= 0) continue;
    error = ddp_safetensors_read(f, t->name, t->dtype, t->rank, t->shape, run_tensor(r, t));
  }
  ddp_safetensors_close(f);
  return error;
}
