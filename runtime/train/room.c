/* Is there room for the job? In: the plan's sizes, known when compiled, and the memory that this host
   and its control group have left. Out: before data are read, an error with the sizes of all parts when
   the ranks of this host cannot fit; else nothing. */
#include "run.h"
#include "dtype.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t number_in(const char *path) {
  long long n = -1;
  FILE *f = fopen(path, "re");
  if (!f) return -1;
  if (fscanf(f, "%lld", &n) != 1) n = -1; /* "max": no limit */
  fclose(f);
  return n;
}

static int64_t host_free(void) {
  char line[128];
  long long kib = -1;
  FILE *f = fopen("/proc/meminfo", "re");
  if (!f) return INT64_MAX;
  while (fgets(line, sizeof line, f) && sscanf(line, "MemAvailable: %lld", &kib) != 1) {
  }
  fclose(f);
  return kib < 0 ? INT64_MAX : kib * 1024;
}

/* What the control group grants beyond what is in use; pages of files in use can be dropped. */
static int64_t group_free(void) {
  static const char *const files[][2] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
       "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  for (int i = 0; i < 2; i++) {
    int64_t limit = number_in(files[i][0]), used = number_in(files[i][1]);
    if (limit < 0 || used < 0 || limit >= INT64_MAX / 2) continue;
    char line[128];
    long long cache = 0;
    FILE *f = i == 0 ? fopen("/sys/fs/cgroup/memory.stat", "re") : NULL;
    while (f && fgets(line, sizeof line, f) && sscanf(line, "inactive_file %lld", &cache) != 1) {
    }
    if (f) fclose(f);
    return limit - used + cache > 0 ? limit - used + cache : 0;
  }
  return INT64_MAX;
}

int64_t run_room_left(void) {
  int64_t host = host_free(), group = group_free();
  return group < host ? group : host;
}

typedef struct Needs {        /* double: sums of absurd sizes must not wrap */
  double model, state, batch; /* batch: what grows with the batch size */
} Needs;

/* averaged: with ema_decay, which keeps the trained weights twice. batches: that are there at once. */
static Needs needs_of(const DdpJob *job, bool averaged, int batches) {
  Needs n = {0};
  bool eval = job->evaluate != NULL;
  int64_t samples = eval && job->eval_batch > job->train_batch ? job->eval_batch : job->train_batch;
  for (int32_t i = 0; i < job->n_arenas; i++) {
    const DdpArenaInfo *a = &job->arenas[i];
    double bytes = (double)a->elements * (double)ddp_dtype_bytes(a->dtype);
    *(a->role == DDP_ROLE_state ? &n.state : &n.model) += bytes;
    if (averaged && a->role == DDP_ROLE_param) n.state += bytes;
  }
  int64_t block = job->train_block > job->step_block ? job->train_block : job->step_block;
  n.batch = (double)(eval && job->eval_block > block ? job->eval_block : block);
  for (int32_t i = 0; i < job->n_fields; i++) {
    const DdpField *f = &job->fields[i];
    if (!f->used) continue;
    n.batch += batches * (double)samples * (double)f->elements * (double)ddp_dtype_bytes(f->dtype);
  }
  return n;
}

/* The largest batch that would fit, for people. */
static void fits_text(char *out, size_t size, const DdpRun *r, const Needs *n, double left) {
  double share = (left - n->model - n->state) / n->batch;
  snprintf(out, size, "a smaller model is needed");
  if (share * (double)r->job->train_batch < 1) return;
  snprintf(out, size,
           "per_device_train_batch_size %lld (now %lld) and per_device_eval_batch_size in "
           "proportion would fit",
           (long long)(share * (double)r->job->train_batch), (long long)r->job->train_batch);
}

static const double mib = 1048576;

static DdpError *check_host(const DdpRun *r, const Needs *n) {
  int ranks = r->launch->local_world > 1 ? r->launch->local_world : 1;
  double left = (double)run_room_left();
  double need = (n->model + n->state + n->batch) * ranks;
  char fits[160];
  if (need <= left) return NULL;
  fits_text(fits, sizeof fits, r, n, left / ranks);
  return ddp_error(DDP_MEMORY,
                   "not enough memory: the job takes %.1f MiB on each of %d rank%s of this host "
                   "(parameters, gradients and buffers %.1f, optimizer state %.1f, activations "
                   "and samples of one batch %.1f), but only %.1f MiB are free; %s",
                   need / ranks / mib, ranks, ranks == 1 ? "" : "s", n->model / mib, n->state / mib,
                   n->batch / mib, left / mib, fits);
}

/* Of its memory each rank has all. */
static DdpError *check_device(const DdpRun *r, const Needs *n) {
  int64_t left = INT64_MAX, all;
  double need = n->model + n->state + n->batch + (double)r->job->target->scratch;
  char fits[160];
  if (r->device->room) DDP_TRY(r->device->room(&left, &all));
  if (need <= (double)left) return NULL;
  fits_text(fits, sizeof fits, r, n, (double)left - (double)r->job->target->scratch);
  return ddp_error(DDP_MEMORY,
                   "not enough memory on %s: the job takes %.1f MiB (parameters, gradients and "
                   "buffers %.1f, optimizer state %.1f, activations and samples of two batches "
                   "%.1f, scratch %.1f), but only %.1f MiB are free; %s",
                   r->device->describe(), need / mib, n->model / mib, n->state / mib,
                   n->batch / mib, (double)r->job->target->scratch / mib, (double)left / mib, fits);
}

DdpError *run_check_room(const DdpRun *r) {
  Needs n = needs_of(r->job, !isnan(r->set->ema_decay), r->device->apart ? DDP_BATCHES : 1);
  return r->device->apart ? check_device(r, &n) : check_host(r, &n);
}

int64_t run_device_used(const DdpRun *r) {
  int64_t left, all;
  DdpError *error = r->device->room ? r->device->room(&left, &all) : NULL;
  bool known = r->device->room && !error;
  ddp_error_free(error);
  return known ? all - left : -1;
}
