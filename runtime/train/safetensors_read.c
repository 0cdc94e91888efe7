/* safetensors, reading. In: a file from anywhere, the index of several, or a folder with either. Out: the
   entries, every offset checked before a byte is used; or an error that names the file and what is wrong
   with it. */
#include "safetensors.h"
#include "file.h"
#include "kernels/cpu/half.h"
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
  int part;
} Entry;

typedef struct Part { /* one file */
  char *path;
  FILE *file;
  int64_t data; /* where the data starts */
  int64_t size;
  json_t *header;
} Part;

struct DdpSafeFile {
  char *path; /* as it was given */
  Part *parts;
  int n_parts;
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

static DdpError *damaged(const Part *f, const char *what, const char *name) {
  return ddp_error(DDP_DATA, "'%s' is no safetensors file, or it is damaged: %s%s%s", f->path, what,
                   name ? " of " : "", name ? name : "");
}

static bool read_number(const json_t *v, int64_t *out) {
  if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
  *out = json_integer_value(v);
  return true;
}

static DdpError *read_entry(Part *f, const char *name, const json_t *v, Entry *e) {
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

static DdpError *read_entries(DdpSafeFile *all, int part) {
  Part *f = &all->parts[part];
  const char *name;
  json_t *v;
  Entry *grown = realloc(all->entries,
                         ((size_t)all->n + json_object_size(f->header) + 1) * sizeof *all->entries);
  if (!grown) return ddp_error(DDP_MEMORY, "out of memory");
  all->entries = grown;
  Entry *own = grown + all->n;
  int n = 0;
  json_object_foreach(f->header, name, v) {
    if (strcmp(name, "__metadata__") == 0) continue;
    own[n] = (Entry){.part = part};
    DDP_TRY(read_entry(f, name, v, &own[n]));
    n++;
  }
  qsort(own, (size_t)n, sizeof *own, by_begin);
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    if (own[i].begin != at) return damaged(f, "a gap or overlap before the data", own[i].name);
    at = own[i].end;
  }
  if (at != f->size - f->data) return damaged(f, "its length and its header disagree", NULL);
  all->n += n;
  return NULL;
}

static DdpError *read_header(Part *f) {
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
  return NULL;
}

/* Takes the path over. */
static DdpError *open_part(DdpSafeFile *f, char *path) {
  Part *grown = path ? realloc(f->parts, (size_t)(f->n_parts + 1) * sizeof *f->parts) : NULL;
  if (!grown) {
    free(path);
    return ddp_error(DDP_MEMORY, "out of memory");
  }
  f->parts = grown;
  Part *p = &grown[f->n_parts];
  *p = (Part){.path = path, .file = fopen(path, "rbe")};
  f->n_parts++;
  if (!p->file) return ddp_error(DDP_DATA, "cannot read weights '%s': %s", path, strerror(errno));
  DDP_TRY(read_header(p));
  return read_entries(f, f->n_parts - 1);
}

/* ---------- an index: which of several files holds a tensor ---------- */

static DdpError *bad_index(const char *path, const char *what, const char *name) {
  return ddp_error(DDP_DATA, "'%s' is no index of safetensors files, or it is damaged: %s%s%s",
                   path, what, name ? " " : "", name ? name : "");
}

static DdpError *open_shards(DdpSafeFile *f, const char *path, const json_t *map) {
  const char *name;
  json_t *v;
  size_t folder = strrchr(path, '/') ? (size_t)(strrchr(path, '/') - path) + 1 : 0;
  json_object_foreach((json_t *)(uintptr_t)map, name, v) {
    const char *shard = json_string_value(v);
    if (!shard || !*shard || strchr(shard, '/')) return bad_index(path, "the file of", name);
    bool known = false;
    for (int i = 0; i < f->n_parts; i++) known |= strcmp(f->parts[i].path + folder, shard) == 0;
    char *at = NULL;
    if (known) continue;
    if (asprintf(&at, "%.*s%s", (int)folder, path, shard) < 0) at = NULL;
    DDP_TRY(open_part(f, at));
  }
  for (int i = 0; i < f->n; i++) {
    const Entry *e = &f->entries[i];
    const char *shard = json_string_value(json_object_get(map, e->name));
    if (!shard || strcmp(f->parts[e->part].path + folder, shard) != 0)
      return bad_index(path, "it does not list", e->name);
  }
  json_object_foreach((json_t *)(uintptr_t)map, name, v) {
    if (ddp_safetensors_find(f, name) < 0) return bad_index(path, "no file holds", name);
  }
  return NULL;
}

static DdpError *open_index(DdpSafeFile *f, const char *path) {
  json_error_t where;
  json_t *index = json_load_file(path, JSON_REJECT_DUPLICATES, &where);
  const json_t *map = json_object_get(index, "weight_map");
  DdpError *error = NULL;
  if (!index)
    error = bad_index(path, where.text, NULL);
  else if (!json_is_object(map))
    error = bad_index(path, "it has no `weight_map`", NULL);
  else
    error = open_shards(f, path, map);
  json_decref(index);
  return error;
}

static bool is_index(const char *path) {
  static const char end[] = ".index.json";
  size_t n = strlen(path);
  return n >= sizeof end - 1 && strcmp(path + n - (sizeof end - 1), end) == 0;
}

/* A folder, as transformers writes it. */
static DdpError *open_folder(DdpSafeFile *f) {
  static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
  for (size_t i = 0; i < 2; i++) {
    struct stat st;
    char *path = ddp_file_join(f->path, names[i]);
    if (!path) return ddp_error(DDP_MEMORY, "out of memory");
    if (stat(path, &st) != 0) {
      free(path);
      continue;
    }
    if (i == 0) return open_part(f, path);
    DdpError *error = open_index(f, path);
    free(path);
    return error;
  }
  return ddp_error(DDP_DATA, "'%s' holds neither %s nor %s", f->path, names[0], names[1]);
}

DdpError *ddp_safetensors_open(DdpSafeFile **out, const char *path) {
  *out = NULL;
  struct stat st;
  DdpSafeFile *f = calloc(1, sizeof *f);
  if (f) f->path = strdup(path);
  if (!f || !f->path) {
    free(f);
    return ddp_error(DDP_MEMORY, "out of memory");
  }
  bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
  DdpError *error = folder           ? open_folder(f)
                    : is_index(path) ? open_index(f, path)
                                     : open_part(f, strdup(path));
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
  if (!f->n_parts) return NULL;
  return json_string_value(
      json_object_get(json_object_get(f->parts[0].header, "__metadata__"), key));
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

/* Floats of any kind become those of the model. */
static bool converts(const Entry *e, DdpDType dtype) {
  return e->dtype == dtype ||
         (dtype == DDP_f32 && (e->dtype == DDP_f16 || e->dtype == DDP_bf16 || e->dtype == DDP_f64));
}

bool ddp_safetensors_fits(const DdpSafeFile *f, int i, DdpDType dtype, int32_t rank,
                          const int64_t *shape) {
  const Entry *e = &f->entries[i];
  bool same = converts(e, dtype) && e->rank == rank;
  for (int32_t k = 0; same && k < rank; k++) same = e->shape[k] == shape[k];
  return same;
}

static void convert(float *to, const char *from, DdpDType dtype, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint16_t half;
    double wide;
    if (dtype == DDP_f64) {
      memcpy(&wide, from + i * sizeof wide, sizeof wide);
      to[i] = (float)wide;
      continue;
    }
    memcpy(&half, from + i * sizeof half, sizeof half);
    to[i] = dtype == DDP_f16 ? ddp_load_f16(half) : ddp_load_bf16(half);
  }
}

static DdpError *read_bytes(Part *p, const Entry *e, int64_t from, void *into, size_t bytes) {
  if (fseeko(p->file, (off_t)(p->data + e->begin + from), SEEK_SET) != 0 ||
      fread(into, 1, bytes, p->file) != bytes) {
    return damaged(p, "it ends inside the data", e->name);
  }
  return NULL;
}

static DdpError *read_converted(Part *p, const Entry *e, float *into) {
  char buffer[1 << 14];
  int64_t size = types[e->dtype].bytes;
  for (int64_t at = 0; at < e->end - e->begin; at += (int64_t)sizeof buffer) {
    int64_t n = e->end - e->begin - at;
    if (n > (int64_t)sizeof buffer) n = (int64_t)sizeof buffer;
    DDP_TRY(read_bytes(p, e, at, buffer, (size_t)n));
    convert(into + at / size, buffer, e->dtype, (size_t)(n / size));
  }
  return NULL;
}

DdpError *ddp_safetensors_read(DdpSafeFile *f, const char *name, DdpDType dtype, int32_t rank,
                               const int64_t *shape, void *into) {
  int i = ddp_safetensors_find(f, name);
  if (i < 0) return ddp_error(DDP_DATA, "'%s' has no tensor %s", f->path, name);
  const Entry *e = &f->entries[i];
  Part *p = &f->parts[e->part];
  if (!ddp_safetensors_fits(f, i, dtype, rank, shape)) {
    char found[160], expected[160];
    shape_text(found, sizeof found, e->rank, e->shape);
    shape_text(expected, sizeof expected, rank, shape);
    return ddp_error(DDP_DATA, "'%s': %s is %s %s, the model has %s %s", p->path, name,
                     e->type_name, found, types[dtype].name, expected);
  }
  if (e->dtype != dtype) return read_converted(p, e, into);
  return read_bytes(p, e, 0, into, (size_t)(e->end - e->begin));
}

void ddp_safetensors_close(DdpSafeFile *f) {
  if (!f) return;
  for (int i = 0; i < f->n_parts; i++) {
    if (f->parts[i].file) fclose(f->parts[i].file);
    json_decref(f->parts[i].header);
    free(f->parts[i].path);
  }
  free(f->parts);
  free(f->entries);
  free(f->path);
  free(f);
}
