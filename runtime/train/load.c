/* Weights from files. In: a file that fit.c has looked at. Out: arenas filled from it. A file that holds
   both of two tied tensors must hold the same numbers twice. */
#include "load.h"
#include "dtype.h"
#include "file.h"
#include "log.h"
#include <stdlib.h>
#include <string.h>

static DdpError *items_open(RunLoad *l) {
  int32_t n = l->load ? l->load->n_items : l->job->n_tensors;
  l->items = calloc((size_t)n + 1, sizeof *l->items);
  if (!l->items) return ddp_error(DDP_MEMORY, "out of memory");
  for (int32_t i = 0; i < n; i++) {
    if (l->load) {
      l->items[l->n_items++] = l->load->items[i];
    } else if (l->job->tensors[i].tied_to < 0) {
      l->items[l->n_items++] = (DdpLoadItem){i, l->job->tensors[i].name};
    }
  }
  return NULL;
}

/* What stands before the names of a load in the names of the model. */
static size_t path_length(const RunLoad *l) {
  if (!l->n_items) return 0;
  return strlen(l->job->tensors[l->items[0].tensor].name) - strlen(l->items[0].name);
}

static DdpError *names_open(RunLoad *l) {
  size_t n = path_length(l);
  l->path = strndup(l->n_items ? l->job->tensors[l->items[0].tensor].name : "", n ? n - 1 : 0);
  const char **names = calloc((size_t)l->n_items + 1, sizeof *names);
  if (!l->path || !names) {
    free(names);
    return ddp_error(DDP_MEMORY, "out of memory");
  }
  for (int32_t i = 0; i < l->n_items; i++) names[i] = l->items[i].name;
  l->names = ddp_safetensors_names(l->file, names, l->n_items, l->path);
  free(names);
  return NULL;
}

DdpError *run_load_open(RunLoad *l, const DdpJob *job, const DdpLoad *load, const char *path) {
  *l = (RunLoad){.job = job, .load = load};
  DDP_TRY(ddp_safetensors_open(&l->file, path));
  DDP_TRY(items_open(l));
  return names_open(l);
}

void run_load_close(RunLoad *l) {
  ddp_safetensors_close(l->file);
  free(l->items);
  free(l->path);
}

/* The next tensor behind `after` that is tied to t and below the path of the load; NULL. */
static const DdpTensor *tied(const RunLoad *l, const DdpTensor *t, const DdpTensor *after) {
  const DdpTensor *all = l->job->tensors;
  size_t n = path_length(l);
  for (const DdpTensor *x = after ? after + 1 : all; x < all + l->job->n_tensors; x++) {
    bool here = strlen(x->name) > n && strncmp(x->name, t->name, n) == 0;
    if (here && x->tied_to == t - all) return x;
  }
  return NULL;
}

int run_load_find(const RunLoad *l, const DdpTensor *t, const char *name) {
  int i = ddp_safetensors_find_as(l->file, &l->names, name);
  for (const DdpTensor *x = tied(l, t, NULL); i < 0 && x; x = tied(l, t, x))
    i = ddp_safetensors_find_as(l->file, &l->names, x->name + path_length(l));
  return i;
}

static DdpError *read_tensor(const RunLoad *l, int i, const DdpTensor *t, void *into) {
  return ddp_safetensors_read(l->file, ddp_safetensors_name(l->file, i), t->dtype, t->rank,
                              t->shape, into);
}

/* The other names of a tensor must stand for the same numbers. */
static DdpError *compare_tied(const RunLoad *l, const DdpTensor *t, int own, const void *read,
                              size_t bytes) {
  for (const DdpTensor *x = tied(l, t, NULL); x; x = tied(l, t, x)) {
    int i = ddp_safetensors_find_as(l->file, &l->names, x->name + path_length(l));
    if (i < 0 || i == own) continue;
    void *again = malloc(bytes + 1);
    DdpError *error = again ? read_tensor(l, i, t, again) : ddp_error(DDP_MEMORY, "out of memory");
    if (!error && memcmp(again, read, bytes) != 0) {
      error =
          ddp_error(DDP_DATA,
                    "the file holds other numbers in %s than in %s, which are one tensor in the "
                    "model; leave out its `tie`, or correct the file",
                    ddp_safetensors_name(l->file, i), ddp_safetensors_name(l->file, own));
    }
    free(again);
    DDP_TRY(error);
  }
  return NULL;
}

static DdpError *load_items(DdpRun *r, RunLoad *l) {
  for (int32_t k = 0; k < l->n_items; k++) {
    const DdpTensor *t = &r->job->tensors[l->items[k].tensor];
    int i = run_load_find(l, t, l->items[k].name);
    if (i < 0) return ddp_error(DDP_DATA, "the file has no tensor %s", l->items[k].name);
    DDP_TRY(read_tensor(l, i, t, run_tensor(r, t)));
    DDP_TRY(
        compare_tied(l, t, i, run_tensor(r, t), (size_t)(t->elements * ddp_dtype_bytes(t->dtype))));
  }
  return NULL;
}

static DdpError *load_from(DdpRun *r, const DdpLoad *load, const char *path) {
  RunLoad l;
  DdpError *error = run_load_open(&l, r->job, load, path);
  if (!error) error = load_items(r, &l);
  if (!error) ddp_log(DDP_LOG_debug, "loaded %d tensors of %s", l.n_items, path);
  run_load_close(&l);
  return error;
}

DdpError *run_load(DdpRun *r, const char *path) {
  return load_from(r, NULL, path);
}

DdpError *run_load_all(DdpRun *r) {
  if (r->config->init_from) return run_load(r, r->config->init_from);
  for (int32_t i = 0; i < r->job->n_loads; i++) {
    char *path = ddp_file_join(r->job->directory, r->job->loads[i].file);
    if (!path) return ddp_error(DDP_MEMORY, "out of memory");
    DdpError *error = load_from(r, &r->job->loads[i], path);
    free(path);
    DDP_TRY(error);
  }
  return NULL;
}
