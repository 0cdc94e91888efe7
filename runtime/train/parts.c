/* The lists of what a checkpoint keeps. In: a run. Out: names with the memory that they stand
   for, written to and read from safetensors files, each part compared by name, type and shape. */
#include "parts.h"
#include "dtype.h"
#include "file.h"
#include "safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *run_parts_file(RunPartsOf of) {
  static const char *const names[] = {"model.safetensors", "ema.safetensors",
                                      "optimizer.safetensors", "scheduler.safetensors"};
  return names[of];
}

bool run_parts_has(const DdpRun *r, RunPartsOf of) {
  return of != RUN_PARTS_ema || r->ema;
}

bool run_parts_weights(RunPartsOf of) {
  return of == RUN_PARTS_model || of == RUN_PARTS_ema;
}

static DdpError *no_memory(void) {
  return ddp_error(DDP_MEMORY, "out of memory");
}

static void add(RunParts *p, RunPart part) {
  p->at[p->n++] = part;
  p->bytes += part.bytes;
}

static DdpError *list_open(RunParts *p, int room) {
  p->room = room;
  p->at = calloc((size_t)room + 1, sizeof *p->at);
  p->lengths = calloc((size_t)room + 1, sizeof *p->lengths);
  return p->at && p->lengths ? NULL : no_memory();
}

/* ---------- model ---------- */

static DdpError *model_open(RunParts *p, DdpRun *r) {
  const DdpJob *job = r->job;
  DDP_TRY(list_open(p, job->n_tensors));
  for (int32_t i = 0; i < job->n_tensors; i++) {
    const DdpTensor *t = &job->tensors[i];
    if (t->tied_to >= 0) continue;
    /* Buffers of all ranks have been gathered into memory of the host. */
    bool there = run_apart(r) && !(t->role == DDP_ROLE_buffer && r->buffers == r->own_buffers);
    add(p, (RunPart){t->name, t->dtype, t->rank, t->shape, run_tensor(r, t),
                     t->elements * ddp_dtype_bytes(t->dtype), there});
  }
  return NULL;
}

/* ---------- optimizer ---------- */

static void state_add(RunParts *p, const DdpRun *r, const DdpTensor *t, int32_t s, char *name) {
  const DdpOptimizer *o = &r->job->optimizers[t->optimizer];
  int64_t own = o->state_elements[s], n = own ? own : t->elements;
  sprintf(name, "%s.%s", o->state_name[s], t->name);
  p->lengths[p->n][0] = n;
  add(p, (RunPart){name, DDP_f32, own ? 1 : t->rank, own ? p->lengths[p->n] : t->shape,
                   r->state[s] + t->state[s], n * (int64_t)sizeof(float), run_apart(r)});
}

/* In the order of the model; only what is trained has a state. */
static DdpError *optimizer_open(RunParts *p, DdpRun *r) {
  const DdpJob *job = r->job;
  size_t text = 1;
  int n = 0;
  for (int32_t i = 0; i < job->n_tensors; i++) {
    const DdpTensor *t = &job->tensors[i];
    if (r->norm_owner[i] < 0) continue;
    const DdpOptimizer *o = &job->optimizers[t->optimizer];
    for (int32_t s = 0; s < o->states; s++, n++)
      text += strlen(o->state_name[s]) + strlen(t->name) + 2;
  }
  DDP_TRY(list_open(p, n));
  char *name = p->names = malloc(text);
  if (!name) return no_memory();
  for (int32_t i = 0; i < job->n_tensors; i++) {
    const DdpTensor *t = &job->tensors[i];
    if (r->norm_owner[i] < 0) continue;
    for (int32_t s = 0; s < job->optimizers[t->optimizer].states; s++) {
      state_add(p, r, t, s, name);
      name += strlen(name) + 1;
    }
  }
  return NULL;
}

/* ---------- scheduler ---------- */

static void number_add(RunParts *p, const char *name, DdpDType dtype, void *at) {
  add(p, (RunPart){.name = name, .dtype = dtype, .data = at, .bytes = 8});
}

static void progress_add(RunParts *p, DdpRun *r) {
  DdpProgress *at = &r->progress;
  number_add(p, "update", DDP_i64, &at->update);
  number_add(p, "epoch", DDP_i64, &at->epoch);
  number_add(p, "window", DDP_i64, &at->window);
  number_add(p, "fraction", DDP_f64, &at->fraction);
  number_add(p, "samples_seen", DDP_i64, &at->samples_seen);
  number_add(p, "running_loss", DDP_f64, &at->running);
  number_add(p, "running_updates", DDP_i64, &at->running_n);
  number_add(p, "all_losses", DDP_f64, &at->all);
  number_add(p, "logged_at", DDP_i64, &at->logged_at);
  number_add(p, "evaluated_at", DDP_i64, &at->evaluated_at);
  number_add(p, "saved_at", DDP_i64, &at->saved_at);
  number_add(p, "best_metric", DDP_f64, &at->best);
  number_add(p, "best_at", DDP_i64, &at->best_at);
  if (r->tokens_field >= 0) number_add(p, "tokens_seen", DDP_i64, &at->tokens_seen);
  if (r->ema) number_add(p, "averaged_updates", DDP_i64, &at->averaged);
  number_add(p, "learning_rate", DDP_f64, &r->last_lr);
  number_add(p, "grad_norm", DDP_f64, &r->last_norm);
  number_add(p, "total_updates", DDP_i64, &r->counts.total);
}

/* Updates are skipped with fp16 and with on_nan = skip, which a run that goes on may do without. */
static void scale_add(RunParts *p, DdpScale *s) {
  number_add(p, "skipped_updates", DDP_i64, &s->skipped);
  number_add(p, "skipped_in_a_row", DDP_i64, &s->in_a_row);
  if (!s->on) return;
  number_add(p, "loss_scale", DDP_f64, &s->scale);
  number_add(p, "loss_scale.good_updates", DDP_i64, &s->good);
}

static void measured_add(RunParts *p, DdpMeasured *m) {
  DdpMeasuredPart parts[DDP_MEASURED_PARTS];
  int n = m ? ddp_measured_parts(m, parts) : 0;
  for (int i = 0; i < n; i++) {
    p->lengths[p->n][0] = parts[i].n;
    add(p, (RunPart){parts[i].name, parts[i].dtype, 1, p->lengths[p->n], parts[i].data,
                     parts[i].n * 8, false});
  }
}

static const char of_ranks[] = "buffers_of_ranks";

static DdpError *scheduler_open(RunParts *p, DdpRun *r) {
  DDP_TRY(list_open(p, 28 + DDP_MEASURED_PARTS));
  progress_add(p, r);
  scale_add(p, &r->scale);
  measured_add(p, r->measured);
  if (r->own_buffers) {
    add(p, (RunPart){of_ranks, DDP_u8, 2, r->own_shape, r->own_buffers,
                     r->own_shape[0] * r->own_shape[1], false});
  }
  return NULL;
}

DdpError *run_parts_open(RunParts *p, DdpRun *r, RunPartsOf of) {
  *p = (RunParts){.of = of};
  switch (of) {
  case RUN_PARTS_model:
    return model_open(p, r);
  case RUN_PARTS_ema: {
    run_ema_swap(r);
    DdpError *error = model_open(p, r);
    run_ema_swap(r);
    return error;
  }
  case RUN_PARTS_optimizer:
    return optimizer_open(p, r);
  case RUN_PARTS_scheduler:
    return scheduler_open(p, r);
  case RUN_PARTS_COUNT:
    break;
  }
  return NULL;
}

void run_parts_close(RunParts *p) {
  free(p->at);
  free(p->lengths);
  free(p->names);
  free(p->fetched);
}

/* ---------- copies in the host's memory ---------- */

static int64_t rounded(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

int64_t run_parts_room(const RunParts *p) {
  int64_t bytes = 0;
  for (int i = 0; i < p->n; i++) bytes += rounded(p->at[i].bytes);
  return bytes;
}

bool run_parts_apart(const RunParts *p) {
  for (int i = 0; i < p->n; i++)
    if (p->at[i].there) return true;
  return false;
}

DdpError *run_parts_copy(RunParts *p, const DdpRun *r, char **room) {
  for (int i = 0; i < p->n; i++) {
    RunPart *part = &p->at[i];
    if (part->there)
      DDP_TRY(r->device->to_host(*room, part->data, (size_t)part->bytes, r->there.stream));
    else
      memcpy(*room, part->data, (size_t)part->bytes);
    part->data = *room;
    part->there = false;
    *room += rounded(part->bytes);
  }
  return run_synchronise(r, r->there.stream);
}

DdpError *run_parts_fetch(RunParts *p, const DdpRun *r) {
  if (!run_parts_apart(p)) return NULL;
  char *room = p->fetched = malloc((size_t)run_parts_room(p));
  return room ? run_parts_copy(p, r, &room) : no_memory();
}

/* ---------- to files and back ---------- */

DdpError *run_parts_write(const RunParts *p, const DdpJob *job, const char *folder) {
  int pairs = 0;
  char hash[20];
  snprintf(hash, sizeof hash, "%016llx", (unsigned long long)job->spec_hash);
  DdpSafeTensor *list = calloc((size_t)p->n + 1, sizeof *list);
  const char **texts = calloc(2 * (size_t)job->n_tensors + 3, sizeof *texts);
  char *path = ddp_file_join(folder, run_parts_file(p->of));
  DdpError *error = list && texts && path ? NULL : no_memory();
  if (!error) {
    texts[pairs++] = "ddp_spec_hash";
    texts[pairs++] = hash;
  }
  for (int32_t i = 0; i < job->n_tensors && !error && run_parts_weights(p->of); i++) {
    const DdpTensor *t = &job->tensors[i];
    if (t->tied_to < 0) continue;
    texts[pairs++] = t->name;
    texts[pairs++] = job->tensors[t->tied_to].name;
  }
  for (int i = 0; i < p->n && !error; i++) {
    const RunPart *part = &p->at[i];
    list[i] =
        (DdpSafeTensor){part->name, part->dtype, part->rank, part->shape, part->data, part->bytes};
  }
  if (!error) error = ddp_safetensors_write(path, list, p->n, texts);
  free(path);
  free(list);
  free(texts);
  return error;
}

static bool is_part(const RunParts *p, const char *name) {
  for (int i = 0; i < p->n; i++) {
    if (strcmp(p->at[i].name, name) == 0) return true;
  }
  return false;
}

/* Another number of ranks begins with rank 0's buffers, which the model's file has. */
static bool of_other_ranks(const DdpSafeFile *f, const char *name, const RunPart *part) {
  int i = ddp_safetensors_find(f, name);
  return strcmp(name, of_ranks) == 0 &&
         (!part || i < 0 || !ddp_safetensors_fits(f, i, part->dtype, part->rank, part->shape));
}

static DdpError *read_parts(const RunParts *p, DdpSafeFile *f, const char *path, bool changed) {
  for (int i = 0; i < ddp_safetensors_count(f) && !changed; i++) {
    const char *name = ddp_safetensors_name(f, i);
    if (!is_part(p, name) && !of_other_ranks(f, name, NULL))
      return ddp_error(DDP_DATA, "'%s' holds %s, which this job does not have", path, name);
  }
  for (int i = 0; i < p->n; i++) {
    const RunPart *part = &p->at[i];
    if (of_other_ranks(f, part->name, part)) continue;
    if (changed && ddp_safetensors_find(f, part->name) < 0) continue;
    DDP_TRY(ddp_safetensors_read(f, part->name, part->dtype, part->rank, part->shape, part->data));
  }
  return NULL;
}

DdpError *run_parts_read(const RunParts *p, const char *path, bool changed) {
  DdpSafeFile *f = NULL;
  DDP_TRY(ddp_safetensors_open(&f, path));
  DdpError *error = read_parts(p, f, path, changed);
  ddp_safetensors_close(f);
  return error;
}

DdpError *run_parts_broadcast(const RunParts *p, DdpRun *r, const char *what) {
  if (r->world == 1 || p->bytes == 0) return NULL;
  char *all = malloc((size_t)p->bytes), *at = all;
  if (!all) return no_memory();
  for (int i = 0; i < p->n; at += p->at[i++].bytes)
    memcpy(at, p->at[i].data, (size_t)p->at[i].bytes);
  DdpError *error = ddp_group_broadcast(r->group, all, p->bytes, 0, what);
  at = all;
  for (int i = 0; i < p->n && !error; at += p->at[i++].bytes)
    memcpy(p->at[i].data, at, (size_t)p->at[i].bytes);
  free(all);
  return error;
}
