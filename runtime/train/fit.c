/* Does a file of weights belong to the job? In: its header, before anything is started. Out: nothing, or
   an error with a table of all that differs: what the spec has, what the file has. */
#include "run.h"
#include "file.h"
#include "safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Table {
  FILE *out;
  int tensors; /* that do not fit */
} Table;
enum { MOST_ROWS = 20 };

static const char *shape_text(char *out, size_t size, const char *dtype, int32_t rank,
                              const int64_t *shape) {
  size_t used = (size_t)snprintf(out, size, "%s [", dtype);
  for (int32_t i = 0; i < rank && used < size; i++)
    used += (size_t)snprintf(out + used, size - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
  if (used < size) snprintf(out + used, size - used, "]");
  return out;
}

static void row(Table *t, const char *name, const char *spec, const char *file) {
  if (t->tensors++ >= MOST_ROWS) return;
  fprintf(t->out, "\n  %-40s  %-24s  %s", name, spec, file);
}

static void compare(Table *table, const DdpTensor *t, const char *name, const DdpSafeFile *f) {
  char spec[160], file[160];
  shape_text(spec, sizeof spec, ddp_safetensors_dtype(t->dtype), t->rank, t->shape);
  int i = ddp_safetensors_find(f, name);
  if (i < 0) {
    row(table, name, spec, "-");
    return;
  }
  DdpSafeEntry e = ddp_safetensors_entry(f, i);
  shape_text(file, sizeof file, e.dtype, e.rank, e.shape);
  if (strcmp(spec, file) != 0) row(table, name, spec, file);
}

/* Without a `load`, the file stands for the whole model. */
static void compare_all(Table *table, const DdpJob *job, const DdpLoad *load,
                        const DdpSafeFile *f) {
  for (int32_t i = 0; load && i < load->n_items; i++)
    compare(table, &job->tensors[load->items[i].tensor], load->items[i].name, f);
  for (int32_t i = 0; !load && i < job->n_tensors; i++)
    if (job->tensors[i].tied_to < 0) compare(table, &job->tensors[i], job->tensors[i].name, f);
}

static bool is_known(const DdpJob *job, const DdpLoad *load, const char *name) {
  for (int32_t i = 0; !load && i < job->n_tensors; i++)
    if (strcmp(job->tensors[i].name, name) == 0) return true;
  for (int32_t i = 0; load && i < load->n_items; i++)
    if (strcmp(load->items[i].name, name) == 0) return true;
  for (int i = 0; load && load->others && load->others[i]; i++)
    if (strcmp(load->others[i], name) == 0) return true;
  return false;
}

static DdpError *report(const DdpJob *job, const DdpSafeFile *f, const char *path, const Table *t,
                        const char *rows) {
  const char *hash = ddp_safetensors_metadata(f, "ddp_spec_hash");
  char more[80] = "";
  if (t->tensors > MOST_ROWS)
    snprintf(more, sizeof more, "\n  ... and %d more", t->tensors - MOST_ROWS);
  return ddp_error(DDP_DATA,
                   "'%s' does not fit the model of %s: %d tensor%s\n  %-40s  %-24s  %s%s%s\n"
                   "the spec's hash is %016llx; the file %s%s",
                   path, job->name, t->tensors, t->tensors == 1 ? "" : "s", "tensor", "in the spec",
                   "in the file", rows, more, (unsigned long long)job->spec_hash,
                   hash ? "was written by a job with the hash " : "does not say which job wrote it",
                   hash ? hash : "");
}

static DdpError *check_fit(const DdpJob *job, const DdpLoad *load, const char *path) {
  DdpSafeFile *f;
  char *rows = NULL;
  size_t size = 0;
  DDP_TRY(ddp_safetensors_open(&f, path));
  Table t = {.out = open_memstream(&rows, &size)};
  DdpError *error = t.out ? NULL : ddp_error(DDP_MEMORY, "out of memory");
  if (t.out) compare_all(&t, job, load, f);
  for (int i = 0; i < ddp_safetensors_count(f) && t.out; i++) {
    DdpSafeEntry e = ddp_safetensors_entry(f, i);
    char file[160];
    if (is_known(job, load, e.name)) continue;
    row(&t, e.name, "-", shape_text(file, sizeof file, e.dtype, e.rank, e.shape));
  }
  if (t.out) fclose(t.out);
  if (t.tensors && !error) error = report(job, f, path, &t, rows);
  free(rows);
  ddp_safetensors_close(f);
  return error;
}

DdpError *run_check_fit(const DdpJob *job, const char *path) {
  return check_fit(job, NULL, path);
}

DdpError *run_check_loads(const DdpRun *r) {
  if (r->config->init_from) return run_check_fit(r->job, r->config->init_from);
  for (int32_t i = 0; i < r->job->n_loads; i++) {
    char *path = ddp_file_join(r->job->directory, r->job->loads[i].file);
    if (!path) return ddp_error(DDP_MEMORY, "out of memory");
    DdpError *error = check_fit(r->job, &r->job->loads[i], path);
    free(path);
    DDP_TRY(error);
  }
  return NULL;
}
