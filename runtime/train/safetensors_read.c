/* safetensors, reading. In: a file from anywhere. Out: its entries, every offset checked before a byte
   is used; or an error that names the file and what is wrong with it. */
#include "safetensors.h"
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Entry {
  const char *name; /* owned by the JSON value */
  DdpDType dtype;   /* DDP_DTYPE_COUNT: a type that we do not have */
  const char *type_name;
  int32_t rank;
  int64_t shape[DDP_MAX_RANK];
  int64_t begin, end; /* from the start of the data */
} Entry;

struct DdpSafeFile {
  char *path;
  FILE *file;
  int64_t data; /* where the data starts */
  int64_t size;
  json_t *header;
  Entry *entries;
  int n;
};

static const struct {
  const char *name;
  int64_t bytes;
} types[] = {
#define DTYPE(name, ctype, bytes, category, st) {st, bytes},
#include "dtype.def"
};

enum { MOST_HEADER = 100000000 };

static DdpError *damaged(const DdpSafeFile *f, const char *what, const char *name) {
  return ddp_error(DDP_DATA, "'%s' is no safetensors file, or it is damaged: %s%s%s", f->path, what,
                   name ? " of " : "", name ? name : "");
}

static bool read_number(const json_t *v, int64_t *out) {
  if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
  *out = json_integer_value(v);
  return true;
}

static DdpError *read_entry(DdpSafeFile *f, const char *name, const json_t *v, Entry *e) {
  const json_t *shape = json_object_get(v, "shape"), *offsets = json_object_get(v, "data_offsets");
  const char *type = json_string_value(json_object_get(v, "dtype"));
  e->name = name;
  e->type_name = type;
  e->dtype = DDP_DTYPE_COUNT;
  if (!type || !json_is_array(shape) || json_array_size(offsets) != 2) {
    return damaged(f, "the entry", name);
  }
  for (int i = 0; i < DDP_DTYPE_COUNT; i++) {
    if (strcmp(types[i].name, type) == 0) e->dtype = (DdpDType)i;
  }
  if (!read_number(json_array_get(offsets, 0), &e->begin) ||
      !read_number(json_array_get(offsets, 1), &e->end) || e->begin > e->end ||
      e->end > f->size - f->data) {
    return damaged(f, "the data range", name);
  }
  if (json_array_size(shape) > DDP_MAX_RANK)
    return damaged(f, "more dimensions than we know", name);
  e->rank = (int32_t)json_array_size(shape);
  int64_t bytes = e->dtype < DDP_DTYPE_COUNT ? types[e->dtype].bytes : 0;
  for (int32_t i = 0; i < e->rank; i++) {
    if (!read_number(json_array_get(shape, (size_t)i), &e->shape[i]) ||
        __builtin_mul_overflow(bytes, e->shape[i], &bytes)) {
      return damaged(f, "the shape", name);
    }
  }
  if (e->dtype < DDP_DTYPE_COUNT && bytes != e->end - e->begin) {
    return damaged(f, "shape and size disagree", name);
  }
  return NULL;
}

static int by_begin(const void *a, const void *b) {
  const Entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

static DdpError *read_entries(DdpSafeFile *f) {
  const char *name;
  json_t *v;
  f->entries = calloc(json_object_size(f->header) + 1, sizeof *f->entries);
  if (!f->entries) return ddp_error(DDP_MEMORY, "out of memory");
  json_object_foreach(f->header, name, v) {
    if (strcmp(name, "__metadata__") == 0) continue;
    DDP_TRY(read_entry(f, name, v, &f->entries[f->n]));
    f->n++;
  }
  qsort(f->entries, (size_t)f->n, sizeof *f->entries, by_begin);
  int64_t at = 0;
  for (int i = 0; i < f->n; i++) {
    if (f->entries[i].begin != at)
      return damaged(f, "a gap or overlap before the data", f->entries[i].name);
    at = f->entries[i].end;
  }
  if (at != f->size - f->data) return damaged(f, "its length and its header disagree", NULL);
  return NULL;
}

static DdpError *read_header(DdpSafeFile *f) {
  unsigned char length[8];
  struct stat st;
  if (fstat(fileno(f->file), &st) != 0 || !S_ISREG(st.st_mode))
    return damaged(f, "not a file", NULL);
  f->size = (int64_t)st.st_size;
  if (fread(length, 1, 8, f->file) != 8) return damaged(f, "shorter than 8 bytes", NULL);
  uint64_t n = 0;
  for (int i = 7; i >= 0; i--) n = n << 8 | length[i];
  if (n > MOST_HEADER || (int64_t)n > f->size - 8) return damaged(f, "the header's length", NULL);
  char *text = malloc((size_t)n + 1);
  if (!text) return ddp_error(DDP_MEMORY, "out of memory");
  bool whole = fread(text, 1, (size_t)n, f->file) == n;
  json_error_t where;
  f->header = whole ? json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &where) : NULL;
  free(text);
  if (!json_is_object(f->header)) return damaged(f, "the header is no JSON object", NULL);
  f->data = (int64_t)n + 8;
  return read_entries(f);
}

DdpError *ddp_safetensors_open(DdpSafeFile **out, const char *path) {
  *out = NULL;
  DdpSafeFile *f = calloc(1, sizeof *f);
  if (f) f->path = strdup(path);
  if (!f || !f->path) {
    free(f);
    return ddp_error(DDP_MEMORY, "out of memory");
  }
  f->file = fopen(path, "rbe");
  DdpError *error = NULL;
  if (!f->file) error = ddp_error(DDP_DATA, "cannot read weights '%s': %s", path, strerror(errno));
  if (!error) error = read_header(f);
  if (error) {
    ddp_safetensors_close(f);
    return error;
  }
  *out = f;
  return NULL;
}

int ddp_safetensors_count(const DdpSafeFile *f) {
  return f->n;
}

const char *ddp_safetensors_name(const DdpSafeFile *f, int i) {
  return f->entries[i].name;
}

DdpSafeEntry ddp_safetensors_entry(const DdpSafeFile *f, int i) {
  const Entry *e = &f->entries[i];
  return (DdpSafeEntry){e->name, e->type_name, e->rank, e->shape};
}

const char *ddp_safetensors_metadata(const DdpSafeFile *f, const char *key) {
  return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key));
}

const char *ddp_safetensors_dtype(DdpDType t) {
  return types[t].name;
}

int ddp_safetensors_find(const DdpSafeFile *f, const char *name) {
  for (int i = 0; i < f->n; i++) {
    if (strcmp(f->entries[i].name, name) == 0) return i;
  }
  return -1;
}

static void shape_text(char *out, size_t size, int32_t rank, const int64_t *shape) {
  size_t used = (size_t)snprintf(out, size, "[");
  for (int32_t i = 0; i < rank && used < size; i++) {
    used += (size_t)snprintf(out + used, size - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
  }
  if (used < size) snprintf(out + used, size - used, "]");
}

DdpError *ddp_safetensors_read(DdpSafeFile *f, const char *name, DdpDType dtype, int32_t rank,
                               const int64_t *shape, void *into) {
  int i = ddp_safetensors_find(f, name);
  if (i < 0) return ddp_error(DDP_DATA, "'%s' has no tensor %s", f->path, name);
  const Entry *e = &f->entries[i];
  bool same = e->dtype == dtype && e->rank == rank;
  for (int32_t k = 0; same && k < rank; k++) same = e->shape[k] == shape[k];
  if (!same) {
    char found[160], expected[160];
    shape_text(found, sizeof found, e->rank, e->shape);
    shape_text(expected, sizeof expected, rank, shape);
    return ddp_error(DDP_DATA, "'%s': %s is %s %s, the model has %s %s", f->path, name,
                     e->type_name, found, types[dtype].name, expected);
  }
  size_t bytes = (size_t)(e->end - e->begin);
  if (fseeko(f->file, (off_t)(f->data + e->begin), SEEK_SET) != 0 ||
      fread(into, 1, bytes, f->file) != bytes) {
    return damaged(f, "it ends inside the data", name);
  }
  return NULL;
}

void ddp_safetensors_close(DdpSafeFile *f) {
  if (!f) return;
  if (f->file) fclose(f->file);
  json_decref(f->header);
  free(f->entries);
  free(f->path);
  free(f);
}
