/* Micro-batches on their way to the device. In: what the host gathers. Out: fields, positions and rows where
   kernels read them. Holds: a device with memory of its own has two of them, so that the host gathers and the
   copying stream copies one while kernels read the other; on CPUs there is one, read where it is gathered. */
#include "run.h"
#include "dtype.h"
#include <stdlib.h>

enum { ALIGN = 256 }; /* of each part of a batch: kernels read vectors of 16 bytes */

/* Bytes of field i in a batch of the largest size; 0: no kernel reads it. */
static int64_t field_bytes(const DdpRun *r, int32_t i) {
  const DdpField *f = &r->job->fields[i];
  return f->used ? r->largest_batch * f->elements * ddp_dtype_bytes(f->dtype) : 0;
}

static DdpError *no_memory(void) {
  return ddp_error(DDP_MEMORY, "out of memory");
}

/* ---------- on CPUs ---------- */

static DdpError *open_here(DdpRun *r, RunBatch *b) {
  size_t n = (size_t)r->largest_batch + 1;
  b->sample = calloc(n, sizeof *b->sample);
  b->row = calloc(n, sizeof *b->row);
  if (!b->sample || !b->row) return no_memory();
  for (int32_t i = 0; i < r->job->n_fields; i++) {
    size_t bytes = (size_t)field_bytes(r, i);
    if (bytes) DDP_TRY(r->device->host_alloc(DDP_MEMORY_batch, bytes, &b->fields[i]));
    b->there.fields[i] = b->fields[i];
  }
  b->there.sample = b->sample;
  b->there.row = b->row;
  return NULL;
}

static void close_here(DdpRun *r, RunBatch *b) {
  for (int32_t i = 0; i < r->job->n_fields && b->fields; i++)
    r->device->host_free(DDP_MEMORY_batch, b->fields[i], (size_t)field_bytes(r, i));
  free(b->sample);
  free(b->row);
}

/* ---------- on a device ---------- */

static int64_t rounded(int64_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Everything that is copied at once: fields, positions, rows. What changes from step to step is behind it. */
static int64_t copied_bytes(const DdpRun *r) {
  int64_t bytes = 2 * rounded(r->largest_batch * (int64_t)sizeof(int64_t));
  for (int32_t i = 0; i < r->job->n_fields; i++) bytes += rounded(field_bytes(r, i));
  return bytes;
}

static size_t all_bytes(const DdpRun *r) {
  return (size_t)(copied_bytes(r) + rounded((int64_t)sizeof(DdpScalars)));
}

static DdpError *open_apart(DdpRun *r, RunBatch *b) {
  void *p = NULL;
  DDP_TRY(r->device->host_alloc(DDP_MEMORY_batch, all_bytes(r), &p));
  b->host = p;
  DDP_TRY(r->device->alloc(DDP_MEMORY_batch, all_bytes(r), &p));
  b->device = p;
  int64_t at = 0, numbers = rounded(r->largest_batch * (int64_t)sizeof(int64_t));
  for (int32_t i = 0; i < r->job->n_fields; i++) {
    if (!field_bytes(r, i)) continue;
    b->fields[i] = b->host + at;
    b->there.fields[i] = b->device + at;
    at += rounded(field_bytes(r, i));
  }
  b->sample = (int64_t *)(void *)(b->host + at);
  b->there.sample = (const int64_t *)(const void *)(b->device + at);
  at += numbers;
  b->row = (int64_t *)(void *)(b->host + at);
  b->there.row = (const int64_t *)(const void *)(b->device + at);
  at += numbers;
  b->scalars = (DdpScalars *)(void *)(b->host + at);
  b->there.scalars = (const DdpScalars *)(const void *)(b->device + at);
  return NULL;
}

static void close_apart(DdpRun *r, RunBatch *b) {
  r->device->host_free(DDP_MEMORY_batch, b->host, all_bytes(r));
  r->device->free(DDP_MEMORY_batch, b->device, all_bytes(r));
}

/* ---------- for the run ---------- */

DdpError *run_batch_open(DdpRun *r) {
  const DdpJob *job = r->job;
  bool evaluates = job->evaluate || job->predict;
  r->largest_batch =
      evaluates && job->eval_batch > job->train_batch ? job->eval_batch : job->train_batch;
  r->batch = r->batches;
  r->there.held = -1;
  for (int k = 0; k < (r->device->apart ? DDP_BATCHES : 1); k++) {
    RunBatch *b = &r->batches[k];
    b->fields = calloc((size_t)job->n_fields + 1, sizeof *b->fields);
    b->there.fields = calloc((size_t)job->n_fields + 1, sizeof *b->there.fields);
    if (!b->fields || !b->there.fields) return no_memory();
    DDP_TRY(r->device->apart ? open_apart(r, b) : open_here(r, b));
  }
  return NULL;
}

void run_batch_close(DdpRun *r) {
  for (int k = 0; k < DDP_BATCHES; k++) {
    RunBatch *b = &r->batches[k];
    if (r->device->apart)
      close_apart(r, b);
    else
      close_here(r, b);
    free(b->fields);
    free(b->there.fields);
    *b = (RunBatch){.fields = NULL};
  }
}

/* The copy of the last batch waits for the kernels of the one before it, so when all copies are done this one
   is free, in the host's memory and in the device's. */
DdpError *run_batch_next(DdpRun *r) {
  if (!r->device->apart) return NULL;
  r->batch = &r->batches[r->batch == r->batches];
  r->there.held = -1;
  return run_synchronise(r, r->there.copying);
}

DdpError *run_batch_send(DdpRun *r) {
  const DdpDevice *d = r->device;
  const RunBatch *b = r->batch;
  if (!d->apart) return NULL;
  DDP_TRY(d->to_device(b->device, b->host, (size_t)copied_bytes(r), r->there.copying));
  DDP_TRY(d->order(r->there.copying, r->there.stream));
  return d->order(r->there.stream, r->there.copying);
}
