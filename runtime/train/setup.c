/* Memory of a run and what stands in it before the first update. In: the job's tables. Out: arenas in
   the plan's layout, the same weights on every rank. */
#include "run.h"
#include "dtype.h"
#include "log.h"
#include "orthogonal.h"
#include "rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static DdpError *arena_open(DdpRun *r, const DdpArenaInfo *a) {
  int64_t bytes = a->elements * ddp_dtype_bytes(a->dtype);
  void *p = NULL;
  bool floats = a->dtype == DDP_f32;
  switch (a->role) {
  case DDP_ROLE_param:
    if (!floats) break;
    DDP_TRY(r->device->alloc(DDP_MEMORY_params, (size_t)bytes, &p));
    r->params = p;
    r->param_count = a->elements;
    return NULL;
  case DDP_ROLE_grad:
    if (!floats) break;
    if (r->world > 1) { /* where the group reduces in place */
      DDP_TRY(ddp_group_alloc(r->group, (size_t)bytes, &p));
      ddp_memory_count(DDP_MEMORY_grads, bytes);
    } else {
      DDP_TRY(r->device->alloc(DDP_MEMORY_grads, (size_t)bytes, &p));
    }
    r->grads = p;
    r->grad_count = a->elements;
    return NULL;
  case DDP_ROLE_state:
    if (!floats || a->state < 0 || a->state >= DDP_MAX_STATES) break;
    DDP_TRY(r->device->alloc(DDP_MEMORY_state, (size_t)bytes, &p));
    r->state[a->state] = p;
    r->state_count[a->state] = a->elements;
    return NULL;
  case DDP_ROLE_frozen:
    if (!floats) break;
    DDP_TRY(r->device->alloc(DDP_MEMORY_frozen, (size_t)bytes, &p));
    r->frozen = p;
    r->frozen_count = a->elements;
    return NULL;
  case DDP_ROLE_buffer:
    DDP_TRY(r->device->alloc(DDP_MEMORY_buffers, (size_t)bytes, &p));
    r->buffers = p;
    r->buffer_bytes = bytes;
    return NULL;
  case DDP_ROLE_param_bf16:
    break;
  }
  return ddp_error(DDP_FAILED, "memory of role %d in %lld-byte elements is not supported yet",
                   (int)a->role, (long long)ddp_dtype_bytes(a->dtype));
}

DdpError *run_pinned(DdpRun *r, size_t bytes, void **out) {
  if (r->device->apart) return r->device->host_alloc(DDP_MEMORY_batch, bytes, out);
  *out = calloc(bytes + 1, 1);
  return *out ? NULL : ddp_error(DDP_MEMORY, "out of memory");
}

void run_pinned_free(DdpRun *r, void *p, size_t bytes) {
  if (r->device->apart)
    r->device->host_free(DDP_MEMORY_batch, p, bytes);
  else
    free(p);
}

static size_t sums_bytes(const DdpRun *r) {
  return (size_t)(r->job->n_sums > 0 ? r->job->n_sums : 1) * sizeof(double);
}

static DdpError *sums_open(DdpRun *r) {
  void *p = NULL;
  DDP_TRY(run_pinned(r, sums_bytes(r), &p));
  r->sums = r->sums_there = p;
  if (!r->device->apart) return NULL;
  DDP_TRY(r->device->alloc(DDP_MEMORY_block, sums_bytes(r), &p));
  r->sums_there = p;
  return NULL;
}

/* Which rank computes which tensor's norm: large ones first, each to the rank with least to do. */
static DdpError *norms_share(DdpRun *r) {
  int32_t n = r->job->n_tensors;
  int64_t *load = calloc((size_t)r->world, sizeof *load);
  r->norm_owner = malloc((size_t)(n + 1) * sizeof *r->norm_owner);
  r->norms = calloc((size_t)n + 1, sizeof *r->norms);
  if (!load || !r->norm_owner || !r->norms) {
    free(load);
    return ddp_error(DDP_MEMORY, "out of memory");
  }
  for (int32_t i = 0; i < n; i++) r->norm_owner[i] = -1;
  for (int32_t done = 0; done < r->job->n_ready; done++) {
    int32_t largest = -1, rank = 0;
    for (int32_t k = 0; k < r->job->n_ready; k++) {
      int32_t t = r->job->ready[k];
      if (r->norm_owner[t] >= 0) continue;
      if (largest < 0 || r->job->tensors[t].elements > r->job->tensors[largest].elements)
        largest = t;
    }
    if (largest < 0) break;
    for (int32_t k = 1; k < r->world; k++) {
      if (load[k] < load[rank]) rank = k;
    }
    r->norm_owner[largest] = rank;
    load[rank] += r->job->tensors[largest].elements;
  }
  free(load);
  return NULL;
}

DdpError *run_memory_open(DdpRun *r) {
  const DdpJob *job = r->job;
  void *p = NULL;
  for (int32_t i = 0; i < job->n_arenas; i++) DDP_TRY(arena_open(r, &job->arenas[i]));
  ddp_scale_open(&r->scale, r->set->fp16 == 1);
  r->block_bytes = job->train_block > job->step_block ? job->train_block : job->step_block;
  if ((job->evaluate || job->predict) && job->eval_block > r->block_bytes)
    r->block_bytes = job->eval_block;
  DDP_TRY(r->device->alloc(DDP_MEMORY_block, (size_t)r->block_bytes, &p));
  r->block = p;
  if (r->buffer_bytes && (run_skips(r) || r->counts.accumulation > 1)) {
    DDP_TRY(r->device->alloc(DDP_MEMORY_buffers, (size_t)r->buffer_bytes, &p));
    r->kept_buffers = p;
  }
  r->there.stream = r->device->stream(DDP_STREAM_compute);
  r->there.copying = r->device->stream(DDP_STREAM_copy);
  DDP_TRY(run_batch_open(r));
  DDP_TRY(sums_open(r));
  int small = 9 + job->n_tensors + 2 * job->n_counts + r->world;
  r->denominators = calloc((size_t)job->n_counts + 1, sizeof(double));
  r->agreement = calloc((size_t)small, sizeof(double));
  if (!r->denominators || !r->agreement) return ddp_error(DDP_MEMORY, "out of memory");
  DDP_TRY(norms_share(r));
  return run_there_open(r);
}

void run_memory_close(DdpRun *r) {
  const size_t f = sizeof(float);
  if (r->ema) r->device->free(DDP_MEMORY_state, r->ema, (size_t)r->param_count * f);
  r->device->free(DDP_MEMORY_params, r->params, (size_t)r->param_count * f);
  if (r->world == 1) r->device->free(DDP_MEMORY_grads, r->grads, (size_t)r->grad_count * f);
  r->device->free(DDP_MEMORY_frozen, r->frozen, (size_t)r->frozen_count * f);
  r->device->free(DDP_MEMORY_buffers, r->buffers, (size_t)r->buffer_bytes);
  r->device->free(DDP_MEMORY_buffers, r->kept_buffers, (size_t)r->buffer_bytes);
  r->device->free(DDP_MEMORY_block, r->block, (size_t)r->block_bytes);
  for (int i = 0; i < DDP_MAX_STATES; i++) {
    r->device->free(DDP_MEMORY_state, r->state[i], (size_t)r->state_count[i] * f);
  }
  run_there_close(r);
  run_batch_close(r);
  if (r->sums_there != r->sums) r->device->free(DDP_MEMORY_block, r->sums_there, sums_bytes(r));
  run_pinned_free(r, r->sums, sums_bytes(r));
  free(r->own_buffers);
  free(r->denominators);
  free(r->agreement);
  free(r->norm_owner);
  free(r->norms);
  free(r->eval_index);
  free(r->eval_mine);
  free(r->eval_all);
}

void *run_tensor(const DdpRun *r, const DdpTensor *t) {
  while (t->tied_to >= 0) t = &r->job->tensors[t->tied_to];
  if (t->role == DDP_ROLE_buffer) return r->buffers + t->offset;
  return (t->role == DDP_ROLE_frozen ? r->frozen : r->params) + t->offset;
}

static void fill_one(void *at, DdpDType dtype, int64_t i, double value) {
  switch (dtype) {
  case DDP_bool:
  case DDP_u8:
    ((uint8_t *)at)[i] = (uint8_t)value;
    break;
  case DDP_i32:
    ((int32_t *)at)[i] = (int32_t)value;
    break;
  case DDP_i64:
    ((int64_t *)at)[i] = (int64_t)value;
    break;
  case DDP_f32:
    ((float *)at)[i] = (float)value;
    break;
  case DDP_f64:
    ((double *)at)[i] = value;
    break;
  case DDP_f16:
  case DDP_bf16:
  case DDP_DTYPE_COUNT:
    break; /* refused when the arena was opened */
  }
}

static DdpError *init_trunc_normal(DdpRng *g, float *at, const DdpInitStep *s) {
  float *room = malloc(sizeof(float) * 2 * (size_t)s->elements);
  if (!room) return ddp_error(DDP_MEMORY, "out of memory");
  ddp_rng_trunc_normal(g, at ? at : room + s->elements, room, s->elements, s->a, s->b, s->low,
                       s->high);
  free(room);
  return NULL;
}

/* torch.nn.init.orthogonal_: a matrix of as many rows as the tensor has. */
static DdpError *init_orthogonal(DdpRng *g, const DdpTensor *t, float *at, const DdpInitStep *s) {
  ddp_rng_normal(g, at, s->elements, 0, 1);
  if (!at) return NULL;
  double *room = malloc(sizeof(double) * (size_t)s->elements);
  if (!room) return ddp_error(DDP_MEMORY, "out of memory");
  ddp_orthogonal(at, room, t->shape[0], s->elements / t->shape[0], s->a);
  free(room);
  return NULL;
}

/* Draws that any dtype holds: Tensor.bernoulli_, torch.randint. */
static void init_discrete(DdpRng *g, const DdpTensor *t, void *at, const DdpInitStep *s) {
  for (int64_t i = 0; i < s->elements; i++) {
    double x = s->kind == DDP_INIT_bernoulli
                   ? (double)ddp_rng_bernoulli(g, s->a)
                   : (double)ddp_rng_randint(g, (int64_t)s->a, (int64_t)s->b);
    if (at) fill_one(at, t->dtype, i, x);
  }
}

static DdpError *init_step(DdpRun *r, DdpRng *g, const DdpInitStep *s) {
  const DdpTensor *t = s->tensor >= 0 ? &r->job->tensors[s->tensor] : NULL;
  void *at = t ? run_tensor(r, t) : NULL;
  if (s->kind == DDP_INIT_fill) {
    int64_t end = s->offset + s->elements * s->step;
    for (int64_t i = s->offset; at && i < end; i += s->step) fill_one(at, t->dtype, i, s->a);
    return NULL;
  }
  if (s->kind == DDP_INIT_bernoulli || s->kind == DDP_INIT_randint)
    return init_discrete(g, t, at, s), NULL;
  if (t && t->dtype != DDP_f32) {
    return ddp_error(DDP_FAILED, "%s: random values other than float32 are not supported yet",
                     t->name);
  }
  if (s->kind == DDP_INIT_trunc_normal) return init_trunc_normal(g, at, s);
  if (s->kind == DDP_INIT_orthogonal) return init_orthogonal(g, t, at, s);
  if (s->kind == DDP_INIT_uniform)
    ddp_rng_uniform(g, at, s->elements, s->a, s->b);
  else
    ddp_rng_normal(g, at, s->elements, s->a, s->b);
  return NULL;
}

static void fill_state(DdpRun *r, float *state, int64_t n, float value) {
  if (r->device->apart)
    r->job->target->arena.fill(state, n, value, r->there.stream);
  else
    for (int64_t e = 0; e < n; e++) state[e] = value;
}

DdpError *run_init_weights(DdpRun *r) {
  DdpRng g;
  ddp_rng_seed(&g, (uint64_t)r->set->seed);
  for (int32_t i = 0; i < r->job->n_init; i++) DDP_TRY(init_step(r, &g, &r->job->init[i]));
  for (int32_t k = 0; k < r->job->n_ready; k++) {
    const DdpTensor *t = &r->job->tensors[r->job->ready[k]];
    const DdpOptimizer *o = &r->job->optimizers[t->optimizer];
    for (int32_t s = 0; s < o->states; s++) {
      float *state = r->state[s] ? r->state[s] + t->state[s] : NULL;
      int64_t n = o->state_elements[s] ? o->state_elements[s] : t->elements;
      if (state) fill_state(r, state, n, (float)o->state_init[s]);
    }
  }
  return NULL;
}

DdpError *run_broadcast_buffers(DdpRun *r) {
  return run_broadcast(r, r->buffers, r->buffer_bytes, "buffers");
}

static bool all_finite(const float *v, int64_t n) {
  int64_t k = 0;
  while (k < n && isfinite(v[k])) k++;
  return k == n;
}

/* Is this tensor, wherever it lies? */
static DdpError *look_at(const DdpRun *r, const DdpTensor *t, bool *finite) {
  RunView v;
  DdpError *error = run_view(r, run_tensor(r, t), t->elements * (int64_t)sizeof(float), &v);
  *finite = error || all_finite(v.at, t->elements);
  run_view_close(&v);
  return error;
}

DdpError *run_check_buffers(DdpRun *r) {
  if (!strcmp(r->set->on_nan, "ignore")) return NULL;
  for (int32_t i = 0; i < r->job->n_tensors; i++) {
    const DdpTensor *t = &r->job->tensors[i];
    bool finite;
    if (t->role != DDP_ROLE_buffer || t->dtype != DDP_f32 || t->tied_to >= 0) continue;
    DDP_TRY(look_at(r, t, &finite));
    if (finite) continue;
    r->quiet = r->rank != 0;
    return ddp_error(
        DDP_NUMERIC,
        "update %lld: buffer %s is not finite and was not saved. Batch norm needs more "
        "than one value per channel: is the last batch of an epoch a single sample? "
        "Another per_device_train_batch_size or --dataloader_drop_last avoids it; "
        "--on_nan ignore goes on",
        (long long)r->progress.update, t->name);
  }
  return NULL;
}

DdpError *run_check_weights(DdpRun *r) {
  if (r->set->on_nan[0] != 's' || r->want_norm) return NULL;
  for (int32_t k = 0; k < r->job->n_ready; k++) {
    const DdpTensor *t = &r->job->tensors[r->job->ready[k]];
    bool finite;
    DDP_TRY(look_at(r, t, &finite));
    if (finite) continue;
    r->quiet = r->rank != 0;
    return ddp_error(DDP_NUMERIC,
                     "update %lld: parameter %s is not finite and was not saved; a smaller "
                     "--learning_rate or --max_grad_norm 1 may help; --on_nan ignore goes on",
                     (long long)r->progress.update, t->name);
  }
  return NULL;
}

DdpError *run_broadcast_model(DdpRun *r) {
  const int64_t f = (int64_t)sizeof(float);
  DDP_TRY(run_broadcast(r, r->params, r->param_count * f, "parameters"));
  DDP_TRY(run_broadcast(r, r->frozen, r->frozen_count * f, "frozen parameters"));
  return run_broadcast_buffers(r);
}

DdpError *run_agree(DdpRun *r, DdpError *mine, const char *what) {
  if (r->world == 1) return mine;
  double *failed = r->agreement ? r->agreement : calloc((size_t)r->world, sizeof *failed);
  if (!failed) return ddp_error_first(mine, ddp_error(DDP_MEMORY, "out of memory"));
  for (int i = 0; i < r->world; i++) failed[i] = 0;
  failed[r->rank] = mine ? (double)mine->klass : 0;
  DdpError *error = ddp_group_sum(r->group, failed, r->world, what);
  int first = -1, klass = 0;
  for (int i = r->world - 1; i >= 0 && !error; i--) {
    if (failed[i] > 0) first = i, klass = (int)failed[i];
  }
  if (failed != r->agreement) free(failed);
  if (error) return ddp_error_first(mine, error);
  if (first < 0 || first == r->rank) return mine;
  r->quiet = true;
  ddp_error_free(mine);
  return ddp_error_rank((DdpClass)klass, first, "%s failed on rank %d; its message says why", what,
                        first);
}
