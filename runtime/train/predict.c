/* --predict: the outputs of the objective for every sample of a split, once, in the order of the split. In: a
   model. Out: a safetensors file with one tensor for each output, written by rank 0; batches have fixed
   bounds, so that any number of ranks gives the same bits. */
#include "run.h"
#include "dtype.h"
#include "file.h"
#include "log.h"
#include "manifest.h"
#include "safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Prediction {
  const char *split;
  int64_t samples, batches, row; /* row: bytes of one sample, all outputs */
  char *mine, *all;              /* of one round */
  char **tensor;                 /* rank 0: by output, the whole split */
  const void **results;
} Prediction;

static int64_t result_bytes(const DdpResult *o) {
  return o->elements * ddp_dtype_bytes(o->dtype);
}

static DdpError *prediction_open(Prediction *p, DdpRun *r) {
  const DdpJob *job = r->job;
  const char *asked = r->config->predict_split;
  *p = (Prediction){.split = asked ? asked : job->eval_split ? job->eval_split : "validation"};
  p->samples = ddp_dataset_rows(r->data, p->split);
  if (p->samples < 0) {
    r->quiet = r->rank != 0;
    return ddp_error(DDP_USAGE,
                     "--predict: the job has no split named %s; --predict_split names another",
                     p->split);
  }
  p->batches = (p->samples + job->eval_batch - 1) / job->eval_batch;
  for (int32_t i = 0; i < job->n_results; i++) p->row += result_bytes(&job->results[i]);
  size_t round = (size_t)(job->eval_batch * p->row);
  p->mine = calloc(round + 1, 1);
  p->all = calloc(round * (size_t)r->world + 1, 1);
  p->tensor = calloc((size_t)job->n_results + 1, sizeof *p->tensor);
  p->results = calloc((size_t)job->n_results + 1, sizeof *p->results);
  if (!r->eval_index) r->eval_index = malloc((size_t)(job->eval_batch + 1) * sizeof *r->eval_index);
  bool got = p->mine && p->all && p->tensor && p->results && r->eval_index;
  for (int32_t i = 0; got && r->rank == 0 && i < job->n_results; i++) {
    p->tensor[i] = malloc((size_t)(p->samples * result_bytes(&job->results[i])) + 1);
    got = p->tensor[i] != NULL;
  }
  return got ? NULL : ddp_error(DDP_MEMORY, "out of memory for the predictions");
}

static void prediction_close(Prediction *p, const DdpRun *r) {
  for (int32_t i = 0; p->tensor && i < r->job->n_results; i++) free(p->tensor[i]);
  free(p->tensor);
  free(p->results);
  free(p->mine);
  free(p->all);
}

static int64_t batch_samples(const Prediction *p, const DdpRun *r, int64_t batch) {
  int64_t left = p->samples - batch * r->job->eval_batch;
  return left < 0 ? 0 : left < r->job->eval_batch ? left : r->job->eval_batch;
}

/* One batch of this rank: its outputs one behind the other. */
static DdpError *compute(Prediction *p, DdpRun *r, int64_t batch) {
  int64_t n = batch_samples(p, r, batch);
  char *to = p->mine;
  DdpStep step;
  if (n == 0) return NULL;
  DDP_TRY(run_eval_step(r, p->split, batch * r->job->eval_batch, n, p->samples, &step));
  step.results = p->results;
  DDP_TRY(run_pass(r, r->job->predict, &step));
  for (int32_t i = 0; i < r->job->n_results; i++) {
    size_t bytes = (size_t)(n * result_bytes(&r->job->results[i]));
    DDP_TRY(r->device->to_host(to, p->results[i], bytes, r->there.stream));
    to += bytes;
  }
  return run_synchronise(r, r->there.stream);
}

static void store(Prediction *p, const DdpRun *r, int64_t first) {
  for (int32_t rank = 0; rank < r->world; rank++) {
    int64_t n = batch_samples(p, r, first + rank);
    const char *from = p->all + rank * r->job->eval_batch * p->row;
    for (int32_t i = 0; i < r->job->n_results; i++) {
      int64_t bytes = result_bytes(&r->job->results[i]);
      memcpy(p->tensor[i] + (first + rank) * r->job->eval_batch * bytes, from, (size_t)(n * bytes));
      from += n * bytes;
    }
  }
}

static DdpError *write_file(const Prediction *p, const DdpRun *r) {
  const DdpJob *job = r->job;
  DdpSafeTensor *list = calloc((size_t)job->n_results + 1, sizeof *list);
  int64_t(*shape)[DDP_MAX_RANK + 1] = calloc((size_t)job->n_results + 1, sizeof *shape);
  DdpError *error = list && shape ? NULL : ddp_error(DDP_MEMORY, "out of memory");
  for (int32_t i = 0; !error && i < job->n_results; i++) {
    const DdpResult *o = &job->results[i];
    shape[i][0] = p->samples;
    for (int32_t k = 0; k < o->rank; k++) shape[i][k + 1] = o->shape[k];
    list[i] = (DdpSafeTensor){.name = o->name,
                              .dtype = o->dtype,
                              .rank = o->rank + 1,
                              .shape = shape[i],
                              .data = p->tensor[i],
                              .bytes = p->samples * result_bytes(o)};
  }
  if (!error) error = ddp_safetensors_write(r->config->predict, list, job->n_results, NULL);
  free(list);
  free(shape);
  return error;
}

static DdpError *predict(Prediction *p, DdpRun *r) {
  DdpError *opened = prediction_open(p, r);
  DDP_TRY(run_agree(r, opened, "preparing the predictions"));
  ddp_group_at(r->group, r->progress.update, "prediction");
  for (int64_t first = 0; first < p->batches; first += r->world) {
    DDP_TRY(compute(p, r, first + r->rank));
    int64_t bytes = r->job->eval_batch * p->row;
    if (r->world > 1)
      DDP_TRY(ddp_group_all_gather(r->group, p->mine, p->all, bytes, "the predictions"));
    else
      memcpy(p->all, p->mine, (size_t)bytes);
    if (r->rank == 0) store(p, r, first);
  }
  DDP_TRY(run_agree(r, r->rank == 0 ? write_file(p, r) : NULL, "writing the predictions"));
  if (r->rank == 0)
    printf("predictions for %lld samples of %s: %s\n", (long long)p->samples, p->split,
           r->config->predict);
  return NULL;
}

DdpError *run_predict(DdpRun *r) {
  Prediction p = {0};
  DdpError *error = predict(&p, r);
  prediction_close(&p, r);
  return error;
}

/* ---------- whose weights ---------- */

static bool is_file(const char *path) {
  struct stat st;
  return path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The weights of the last checkpoint of the folder; *path is NULL where there is none. */
static DdpError *last_weights(const char *output, char **path) {
  int64_t *numbers = NULL;
  int n = 0;
  *path = NULL;
  DDP_TRY(ddp_checkpoint_list(output, &numbers, &n));
  char *folder = n ? ddp_checkpoint_path(output, numbers[0]) : NULL;
  if (folder) *path = ddp_file_join(folder, "model.safetensors");
  free(folder);
  free(numbers);
  return n && !*path ? ddp_error(DDP_MEMORY, "out of memory") : NULL;
}

DdpError *run_find_weights(const DdpJob *job, DdpConfig *config, const char *output) {
  char *path = NULL;
  if (!job->predict)
    return ddp_error(DDP_USAGE, "--predict: the objective of the job has no `output NAME = value`");
  if (config->init_from) return NULL;
  if (asprintf(&path, "%s/model.safetensors", output) < 0)
    return ddp_error(DDP_MEMORY, "out of memory");
  if (!is_file(path)) {
    free(path);
    DDP_TRY(last_weights(output, &path));
  }
  if (is_file(path)) {
    config->init_from = ddp_config_keep(config, path);
    free(path);
    return NULL;
  }
  free(path);
  if (job->n_loads) return NULL;
  return ddp_error(
      DDP_USAGE, "--%s: there are no weights in '%s'; --init_from FILE names some, or train first",
      config->generate ? "generate" : "predict", output);
}
