/* Does a file of weights belong to the job? In: its header, before anything is started. Out: nothing, or
   an error with a table of all that differs: what the spec has, what the file has. */
#include "file.h"
#include "load.h"
#include "run.h"
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

static void compare(Table *table, const RunLoad *l, const DdpTensor *t, const char *name) {
  char spec[160], file[160];
  shape_text(spec, sizeof spec, ddp_safetensors_dtype(t->dtype), t->rank, t->shape);
  int i = run_load_find(l, t, name);
  if (i < 0) {
    row(table, name, spec, "-");
    return;
  }
  DdpSafeEntry e = ddp_safetensors_entry(l->file, i);
  shape_text(file, sizeof file, e.dtype, e.rank, e.shape);
  if (!ddp_safetensors_fits(l->file, i, t->dtype, t->rank, t->shape)) row(table, name, spec, file);
}

static bool is_known(const RunLoad *l, const char *name) {
  for (int32_t i = 0; !l->load && i < l->job->n_tensors; i++)
    if (ddp_safetensors_is(&l->names, l->job->tensors[i].name, name)) return true;
  for (int32_t i = 0; i < l->n_items; i++)
    if (ddp_safetensors_is(&l->names, l->items[i].name, name)) return true;
  for (int i = 0; l->load && l->load->others && l->load->others[i]; i++)
    if (ddp_safetensors_is(&l->names, l->load->others[i], name)) return true;
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
  RunLoad l;
  char *rows = NULL;
  size_t size = 0;
  DdpError *error = run_load_open(&l, job, load, path);
  Table t = {.out = error ? NULL : open_memstream(&rows, &size)};
  if (!error && !t.out) error = ddp_error(DDP_MEMORY, "out of memory");
  for (int32_t i = 0; i < l.n_items && t.out; i++)
    compare(&t, &l, &job->tensors[l.items[i].tensor], l.items[i].name);
  for (int i = 0; t.out && i < ddp_safetensors_count(l.file); i++) {
    DdpSafeEntry e = ddp_safetensors_entry(l.file, i);
    char file[160];
    if (is_known(&l, e.name) || ddp_safetensors_beside(l.file, &l.names, i)) continue;
    row(&t, e.name, "-", shape_text(file, sizeof file, e.dtype, e.rank, e.shape));
  }
  if (t.out) fclose(t.out);
  if (t.tensors && !error) error = report(job, l.file, path, &t, rows);
  free(rows);
  run_load_close(&l);
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
