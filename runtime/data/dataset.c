/* The tree of sources -> rows of one table per job. In: files and the expressions over them. Out: all
   rows in one table, and per split the list of its rows in order. Of windows a row is the place where a
   sample begins, counted through all rows of tokens that are cut. */
#include "dataset.h"
#include "cifar.h"
#include "csv.h"
#include "file.h"
#include "idx.h"
#include "memory.h"
#include "npy.h"
#include "rng.h"
#include "synthetic.h"
#include "tokens.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

typedef struct Rows { /* row numbers of the table */
  int64_t *row;
  int64_t n;
  int64_t dropped;        /* files: rows left out for missing values */
  DdpTokenRow tokens;     /* one row of tokens instead of rows; part NULL: none */
  const DdpTokenRow *cut; /* windows: what they are cut out of */
  int64_t base;           /* windows: number of its first token */
} Rows;

struct DdpDataset {
  const DdpJob *job;
  const char *root;
  DdpTable *table;
  Rows *sources; /* [n_sources], evaluated once; row NULL: not yet */
  Rows *splits;  /* [n_splits]; share the rows of their source */
  DdpTokenFile **files;
  int32_t n_files;
  int64_t cut_tokens;   /* of all windows so far */
  uint64_t tokens_hash; /* of the files above */
};

static DdpError *rows_alloc(Rows *r, int64_t n) {
  r->n = n;
  r->row = malloc((size_t)(n ? n : 1) * sizeof *r->row);
  return r->row ? NULL : ddp_error(DDP_MEMORY, "out of memory for %lld rows", (long long)n);
}

static int path_count(const DdpSource *s) {
  int n = 0;
  while (s->paths && s->paths[n]) n++;
  return n;
}

static DdpError *read_files(DdpDataset *d, const DdpSource *s) {
  int n = path_count(s);
  char **paths = calloc((size_t)n + 1, sizeof *paths);
  DdpError *error = paths ? NULL : ddp_error(DDP_MEMORY, "out of memory");
  for (int i = 0; i < n && !error; i++) {
    paths[i] = ddp_file_join(d->root, s->paths[i]);
    if (!paths[i]) error = ddp_error(DDP_MEMORY, "out of memory");
  }
  if (!error && s->kind == DDP_SOURCE_idx) error = ddp_idx_read(d->table, paths, s->fields);
  if (!error && s->kind == DDP_SOURCE_npy) error = ddp_npy_read(d->table, paths, s->fields);
  if (!error && s->kind == DDP_SOURCE_synthetic) error = ddp_synthetic_make(d->table, s);
  for (int i = 0; i < n && !error; i++) {
    if (s->kind == DDP_SOURCE_csv) error = ddp_csv_read(d->table, paths[i], s);
    if (s->kind == DDP_SOURCE_cifar_bin) error = ddp_cifar_read(d->table, paths[i], s);
    if (s->kind == DDP_SOURCE_npz) error = ddp_npz_read(d->table, paths[i]);
  }
  for (int i = 0; i < n && paths; i++) free(paths[i]);
  free(paths);
  return error;
}

static bool same_text(const char *a, const char *b) {
  return a && b ? strcmp(a, b) == 0 : a == b;
}

/* The same files read the same way: split expressions may name a source more than once. */
static bool same_files(const DdpSource *a, const DdpSource *b) {
  int n = path_count(a);
  if (a->kind != b->kind || n != path_count(b)) return false;
  if (a->header != b->header || a->skip != b->skip || !same_text(a->missing, b->missing))
    return false;
  if (a->width != b->width || a->count != b->count || a->seed != b->seed) return false;
  for (int i = 0; i < n; i++) {
    if (!same_text(a->paths[i], b->paths[i])) return false;
    bool named = a->kind == DDP_SOURCE_idx || a->kind == DDP_SOURCE_npy;
    if (named && !same_text(a->fields[i], b->fields[i])) return false;
  }
  return true;
}

static DdpError *eval_files(DdpDataset *d, int32_t at) {
  const DdpSource *s = &d->job->sources[at];
  for (int32_t i = 0; i < d->job->n_sources; i++) {
    if (i == at || !d->sources[i].row || !same_files(s, &d->job->sources[i])) continue;
    DDP_TRY(rows_alloc(&d->sources[at], d->sources[i].n));
    memcpy(d->sources[at].row, d->sources[i].row, (size_t)d->sources[i].n * sizeof(int64_t));
    d->sources[at].dropped = d->sources[i].dropped;
    return NULL;
  }
  int64_t before = d->table->rows, dropped = d->table->dropped;
  DDP_TRY(read_files(d, s));
  DDP_TRY(rows_alloc(&d->sources[at], d->table->rows - before));
  d->sources[at].dropped = d->table->dropped - dropped;
  for (int64_t i = 0; i < d->sources[at].n; i++) d->sources[at].row[i] = before + i;
  return NULL;
}

/* ---------- rows of tokens ---------- */

static DdpError *open_tokens(DdpDataset *d, const DdpSource *s, const char *path,
                             const DdpTokenFile **out) {
  DdpTokenFile **files = realloc(d->files, ((size_t)d->n_files + 1) * sizeof(DdpTokenFile *));
  if (files) d->files = files;
  DdpTokenFile *file = files ? calloc(1, sizeof *file) : NULL;
  if (!file) return ddp_error(DDP_MEMORY, "out of memory");
  d->files[d->n_files++] = file;
  const DdpField *f = &d->job->fields[0];
  if (s->kind == DDP_SOURCE_text)
    DDP_TRY(ddp_text_open(file, path, f));
  else
    DDP_TRY(ddp_token_bin_open(file, path, s, f));
  if (file->ids) ddp_memory_count(DDP_MEMORY_data, file->n * file->width);
  *out = file;
  return NULL;
}

static DdpError *eval_tokens(DdpDataset *d, int32_t at) {
  const DdpSource *s = &d->job->sources[at];
  Rows *out = &d->sources[at];
  for (int32_t i = 0; i < d->job->n_sources; i++) {
    const DdpTokenRow *same = &d->sources[i].tokens;
    if (i == at || !same->part || !same_files(s, &d->job->sources[i])) continue;
    return ddp_token_row_join(&same, 1, &out->tokens);
  }
  int n = path_count(s);
  out->tokens.part = calloc((size_t)n + 1, sizeof *out->tokens.part);
  if (!out->tokens.part) return ddp_error(DDP_MEMORY, "out of memory");
  for (int i = 0; i < n; i++) {
    char *path = ddp_file_join(d->root, s->paths[i]);
    DdpTokenPart *part = &out->tokens.part[out->tokens.parts++];
    DdpError *error =
        path ? open_tokens(d, s, path, &part->file) : ddp_error(DDP_MEMORY, "out of memory");
    free(path);
    if (error) return error;
    part->n = part->file->n;
    out->tokens.n += part->n;
  }
  return NULL;
}

/* As many as fit: the last one may end with the last token. */
static DdpError *eval_windows(DdpDataset *d, const DdpSource *s, const Rows *in, Rows *out) {
  int64_t size = d->job->fields[0].elements, tokens = in->tokens.n;
  DDP_TRY(rows_alloc(out, tokens < size ? 0 : (tokens - size) / s->stride + 1));
  out->cut = &in->tokens;
  out->base = d->cut_tokens;
  d->cut_tokens += tokens;
  for (int64_t k = 0; k < out->n; k++) out->row[k] = out->base + k * s->stride;
  return NULL;
}

static DdpError *join_tokens(const DdpDataset *d, const DdpSource *s, Rows *out) {
  const DdpTokenRow *rows[8];
  for (int32_t i = 0; i < s->n_children; i++) rows[i] = &d->sources[s->children[i]].tokens;
  return ddp_token_row_join(rows, s->n_children, &out->tokens);
}

/* ---------- rows of rows ---------- */

static DdpError *eval_shuffle(const DdpSource *s, const Rows *in, Rows *out) {
  DDP_TRY(rows_alloc(out, in->n));
  DdpRng g;
  ddp_rng_seed(&g, s->seed);
  ddp_rng_randperm(&g, out->row, in->n);
  for (int64_t i = 0; i < in->n; i++) out->row[i] = in->row[out->row[i]];
  return NULL;
}

/* A bound in rows; counts and percents below zero count from the end. */
static DdpError *bound(const DdpSource *s, DdpBound kind, double value, int64_t n, int64_t none,
                       int64_t *out) {
  const char *place = s->place ? s->place : "slice";
  double v = value;
  if (kind == DDP_BOUND_none) {
    *out = none;
    return NULL;
  }
  if (kind == DDP_BOUND_percent) v = copysign(floor((double)n * fabs(value) / 100.0), value);
  if (value < 0) v += (double)n;
  if (v < 0 || v > (double)n) {
    return ddp_error(DDP_DATA,
                     "%s: the slice's bound %g%s lies outside the %lld rows of its source", place,
                     value, kind == DDP_BOUND_percent ? "%" : "", (long long)n);
  }
  *out = (int64_t)v;
  return NULL;
}

static DdpError *eval_slice(const DdpSource *s, const Rows *in, Rows *out) {
  int64_t start, stop, n = in->tokens.part ? in->tokens.n : in->n;
  DDP_TRY(bound(s, s->start_kind, s->start, n, 0, &start));
  DDP_TRY(bound(s, s->stop_kind, s->stop, n, n, &stop));
  if (start > stop) {
    return ddp_error(DDP_DATA, "%s: the slice's bounds cross: row %lld to row %lld of %lld",
                     s->place ? s->place : "slice", (long long)start, (long long)stop,
                     (long long)n);
  }
  if (in->tokens.part) return ddp_token_row_slice(&in->tokens, start, stop, &out->tokens);
  DDP_TRY(rows_alloc(out, stop - start));
  memcpy(out->row, in->row + start, (size_t)out->n * sizeof *out->row);
  return NULL;
}

static DdpError *eval_concat(const DdpDataset *d, const DdpSource *s, Rows *out) {
  int64_t n = 0;
  if (d->sources[s->children[0]].tokens.part) return join_tokens(d, s, out);
  for (int32_t i = 0; i < s->n_children; i++) n += d->sources[s->children[i]].n;
  DDP_TRY(rows_alloc(out, n));
  n = 0;
  for (int32_t i = 0; i < s->n_children; i++) {
    const Rows *in = &d->sources[s->children[i]];
    memcpy(out->row + n, in->row, (size_t)in->n * sizeof *in->row);
    n += in->n;
  }
  return NULL;
}

static DdpError *eval_source(DdpDataset *d, int32_t at) {
  const DdpSource *s = &d->job->sources[at];
  Rows *out = &d->sources[at];
  if (out->row || out->tokens.part) return NULL;
  for (int32_t i = 0; i < s->n_children; i++) DDP_TRY(eval_source(d, s->children[i]));
  const Rows *in = s->n_children ? &d->sources[s->children[0]] : NULL;
  switch (s->kind) {
  case DDP_SOURCE_csv:
  case DDP_SOURCE_idx:
  case DDP_SOURCE_npy:
  case DDP_SOURCE_npz:
  case DDP_SOURCE_cifar_bin:
  case DDP_SOURCE_synthetic:
    return eval_files(d, at);
  case DDP_SOURCE_text:
  case DDP_SOURCE_token_bin:
    return eval_tokens(d, at);
  case DDP_SOURCE_windows:
    return eval_windows(d, s, in, out);
  case DDP_SOURCE_shuffle:
    return eval_shuffle(s, in, out);
  case DDP_SOURCE_slice:
    return eval_slice(s, in, out);
  case DDP_SOURCE_concat:
    return eval_concat(d, s, out);
  case DDP_SOURCE_COUNT:
    break;
  }
  return ddp_error(DDP_FAILED, "source %d has an unknown kind", at);
}

static DdpError *check_fields(const DdpJob *job) {
  for (int32_t i = 0; i < job->n_fields; i++) {
    DdpDType t = job->fields[i].dtype;
    if (t == DDP_f16 || t == DDP_bf16) {
      return ddp_error(DDP_DATA, "field %s: 16-bit floats in data files are not supported yet",
                       job->fields[i].name);
    }
  }
  return NULL;
}

/* Number of files under a source; what they gave, and the first of them. */
static int count_files(const DdpDataset *d, int32_t at, Rows *sum, const char **path) {
  const DdpSource *s = &d->job->sources[at];
  int files = path_count(s);
  for (int32_t i = 0; i < s->n_children; i++) files += count_files(d, s->children[i], sum, path);
  if (!path_count(s)) return files;
  sum->n += d->sources[at].n;
  sum->dropped += d->sources[at].dropped;
  if (!*path) *path = s->paths[0];
  return files;
}

static const Rows *windows_below(const DdpDataset *d, int32_t at) {
  const DdpSource *s = &d->job->sources[at];
  const Rows *found = d->sources[at].cut ? &d->sources[at] : NULL;
  for (int32_t i = 0; i < s->n_children && !found; i++) found = windows_below(d, s->children[i]);
  return found;
}

static DdpError *empty_split(const DdpDataset *d, const DdpSplit *split) {
  Rows sum = {0};
  const char *path = NULL;
  const Rows *cut = windows_below(d, split->source);
  if (cut)
    return ddp_error(DDP_DATA,
                     "split %s is empty: there are %lld tokens, and one sample of field %s takes "
                     "%lld",
                     split->name, (long long)cut->cut->n, d->job->fields[0].name,
                     (long long)d->job->fields[0].elements);
  int files = count_files(d, split->source, &sum, &path);
  return ddp_error(DDP_DATA,
                   "split %s is empty: %lld rows were read from '%s'%s, %lld of them left out "
                   "for missing values",
                   split->name, (long long)(sum.n + sum.dropped), path ? path : "",
                   files > 1 ? " and other files" : "", (long long)sum.dropped);
}

static DdpError *dataset_read(DdpDataset *d) {
  const DdpJob *job = d->job;
  DDP_TRY(check_fields(job));
  DDP_TRY(ddp_table_open(&d->table, job->fields, job->n_fields));
  for (int32_t i = 0; i < job->n_splits; i++) {
    const DdpSplit *split = &job->splits[i];
    DDP_TRY(eval_source(d, split->source));
    d->splits[i] = d->sources[split->source];
    if (d->splits[i].n > 0) continue;
    bool needed = strcmp(split->name, "train") == 0 ||
                  (job->eval_split && strcmp(split->name, job->eval_split) == 0);
    if (needed) return empty_split(d, split);
  }
  for (int32_t i = 0; i < d->n_files; i++)
    DDP_TRY(ddp_token_file_hash(d->files[i], &d->tokens_hash));
  return ddp_table_finish(d->table);
}

DdpError *ddp_dataset_load(DdpDataset **out, const DdpJob *job, const char *root) {
  *out = NULL;
  DdpDataset *d = calloc(1, sizeof *d);
  if (!d) return ddp_error(DDP_MEMORY, "out of memory");
  d->job = job;
  d->root = root ? root : job->directory;
  d->sources = calloc((size_t)job->n_sources + 1, sizeof *d->sources);
  d->splits = calloc((size_t)job->n_splits + 1, sizeof *d->splits);
  DdpError *error = NULL;
  if (!d->sources || !d->splits) error = ddp_error(DDP_MEMORY, "out of memory");
  if (!error) error = dataset_read(d);
  if (error) {
    ddp_dataset_free(d);
    return error;
  }
  *out = d;
  return NULL;
}

void ddp_dataset_free(DdpDataset *d) {
  if (!d) return;
  for (int32_t i = 0; i < d->job->n_sources && d->sources; i++) {
    free(d->sources[i].row);
    ddp_token_row_free(&d->sources[i].tokens);
  }
  for (int32_t i = 0; i < d->n_files; i++) {
    ddp_token_file_close(d->files[i]);
    free(d->files[i]);
  }
  free(d->files);
  free(d->sources);
  free(d->splits);
  ddp_table_free(d->table);
  free(d);
}

static const Rows *split_find(const DdpDataset *d, const char *name) {
  for (int32_t i = 0; i < d->job->n_splits; i++) {
    if (strcmp(d->job->splits[i].name, name) == 0) return &d->splits[i];
  }
  return NULL;
}

int64_t ddp_dataset_rows(const DdpDataset *d, const char *split) {
  const Rows *r = split_find(d, split);
  return r ? r->n : -1;
}

int64_t ddp_dataset_row(const DdpDataset *d, const char *split, int64_t i) {
  return split_find(d, split)->row[i];
}

int64_t ddp_dataset_dropped(const DdpDataset *d) {
  return d->table->dropped;
}

uint64_t ddp_dataset_hash(const DdpDataset *d) {
  uint64_t h = XXH64(&d->table->rows, sizeof d->table->rows, d->tokens_hash);
  for (int32_t i = 0; i < d->table->n_fields; i++) {
    if (!d->table->columns[i]) continue;
    int64_t bytes = d->table->rows * ddp_field_bytes(&d->table->fields[i]);
    h = XXH64(d->table->columns[i], (size_t)bytes, h);
  }
  for (int32_t i = 0; i < d->job->n_splits; i++) {
    h = XXH64(d->splits[i].row, (size_t)d->splits[i].n * sizeof(int64_t), h);
  }
  return h;
}

/* ---------- batches ---------- */

/* The windows that hold a token. */
static const Rows *windows_at(const DdpDataset *d, int64_t token) {
  for (int32_t i = 0; i < d->job->n_sources; i++) {
    const Rows *r = &d->sources[i];
    if (r->cut && token >= r->base && token < r->base + r->cut->n) return r;
  }
  return NULL;
}

static DdpError *gather_windows(const DdpDataset *d, const Rows *rows, const int64_t *index,
                                int64_t n, void *into) {
  const DdpField *f = &d->job->fields[0];
  char *to = into;
  for (int64_t i = 0; i < n && to; i++, to += ddp_field_bytes(f)) {
    int64_t token = rows->row[index[i]];
    const Rows *from = windows_at(d, token);
    if (!from) return ddp_error(DDP_FAILED, "token %lld is in no window", (long long)token);
    DDP_TRY(ddp_token_row_copy(from->cut, token - from->base, f->elements, f, to));
  }
  return NULL;
}

DdpError *ddp_dataset_gather(const DdpDataset *d, const char *split, const int64_t *index,
                             int64_t n, void *const *into) {
  const Rows *rows = split_find(d, split);
  if (d->cut_tokens) return gather_windows(d, rows, index, n, into[0]);
  for (int32_t f = 0; f < d->table->n_fields; f++) {
    const char *from = d->table->columns[f];
    if (!from || !into[f]) continue;
    size_t bytes = (size_t)ddp_field_bytes(&d->table->fields[f]);
    char *to = into[f];
    for (int64_t i = 0; i < n; i++, to += bytes) {
      memcpy(to, from + (size_t)rows->row[index[i]] * bytes, bytes);
    }
  }
  return NULL;
}
