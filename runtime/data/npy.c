/* numpy's arrays -> columns. In: .npy files, or the members of an .npz. Out: rows appended, or an error that
   says what was found and expected: kind, order, shape, length, values out of range, different counts. */
#include "npy.h"
#include "stream.h"
#include "zip.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADER = 1 << 16 };

typedef struct Npy { /* one array being read */
  const char *path;  /* of the file */
  const DdpField *field;
  DdpStream *in; /* or NULL: a member of `zip` */
  DdpZip *zip;
  char kind; /* numpy's: b, u, i, f */
  int bytes; /* of an element */
  bool swapped;
  int64_t rows;
} Npy;

static const char *place_of(const Npy *a) {
  return a->field->place ? a->field->place : a->field->name;
}

static DdpError *wrong(const Npy *a, const char *what) {
  return ddp_error(DDP_DATA, "%s: the array of field %s (%s) %s", a->path, a->field->name,
                   place_of(a), what);
}

static DdpError *read_some(Npy *a, void *into, int64_t n, int64_t *got) {
  return a->in ? ddp_stream_read(a->in, into, n, got) : ddp_zip_read(a->zip, into, n, got);
}

static DdpError *read_exact(Npy *a, void *into, int64_t n) {
  int64_t done = 0, got = 1;
  while (done < n && got > 0) {
    DDP_TRY(read_some(a, (char *)into + done, n - done, &got));
    done += got;
  }
  return done == n ? NULL : wrong(a, "is cut off");
}

/* ---------- the header ---------- */

/* What stands behind 'key': in the header; "" where it is missing. */
static const char *after(const char *header, const char *key) {
  char quoted[32];
  snprintf(quoted, sizeof quoted, "'%s':", key);
  const char *at = strstr(header, quoted);
  if (!at) return "";
  at += strlen(quoted);
  return at + strspn(at, " ");
}

static DdpError *parse_type(Npy *a, const char *descr) {
  char order = 0, end = 0;
  if (descr[0] == '[') return wrong(a, "has records of several values; save one array a field");
  if (sscanf(descr, "'%c%c%d%c", &order, &a->kind, &a->bytes, &end) != 4 || end != '\'')
    return wrong(a, "has no type that is known");
  if (a->kind == 'O') return wrong(a, "holds objects of Python; save numbers");
  if (a->kind == 'U' || a->kind == 'S') return wrong(a, "holds texts; save numbers");
  bool known = (a->kind == 'b' && a->bytes == 1) ||
               ((a->kind == 'u' || a->kind == 'i') &&
                (a->bytes == 1 || a->bytes == 2 || a->bytes == 4 || a->bytes == 8)) ||
               (a->kind == 'f' && (a->bytes == 4 || a->bytes == 8));
  if (a->kind == 'f' && a->bytes == 2) return wrong(a, "is float16, which is not supported yet");
  if (!known) return wrong(a, "has no type that is known");
  if (!strchr("<|>=", order)) return wrong(a, "has an unknown order of bytes");
  a->swapped = order == '>';
  return NULL;
}

static DdpError *parse_shape(Npy *a, const char *at) {
  const DdpField *f = a->field;
  int64_t dims[DDP_MAX_RANK + 2];
  int rank = 0;
  if (*at++ != '(') return wrong(a, "has no shape");
  while (*at >= '0' && *at <= '9' && rank < DDP_MAX_RANK + 2) {
    char *end;
    dims[rank++] = (int64_t)strtoull(at, &end, 10);
    at = end + strspn(end, " ,L");
  }
  if (*at != ')') return wrong(a, "has a shape that cannot be read");
  bool same = rank == f->rank + 1;
  for (int i = 0; same && i < f->rank; i++) same = dims[i + 1] == f->shape[i];
  if (same) return a->rows = dims[0], NULL;
  char text[256] = "";
  for (int i = 0; i < rank; i++) {
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "%s%lld", i ? ", " : "", (long long)dims[i]);
  }
  size_t n = strlen(text);
  snprintf(text + n, sizeof text - n, "]; expected [samples");
  for (int i = 0; i < f->rank; i++) {
    n = strlen(text);
    snprintf(text + n, sizeof text - n, ", %lld", (long long)f->shape[i]);
  }
  return ddp_error(DDP_DATA, "%s: the array of field %s (%s) has shape [%s]", a->path, f->name,
                   place_of(a), text);
}

static DdpError *check_kind(const Npy *a) {
  bool floats = a->field->dtype == DDP_f32 || a->field->dtype == DDP_f64;
  if (floats == (a->kind == 'f')) return NULL;
  return wrong(a, floats ? "holds whole numbers; the field is declared as float"
                         : "holds floats; the field is declared as whole numbers");
}

static DdpError *parse_header(Npy *a, const char *header) {
  if (strncmp(after(header, "fortran_order"), "False", 5) != 0)
    return wrong(a, "is in Fortran order; save `numpy.ascontiguousarray(x)`");
  DDP_TRY(parse_type(a, after(header, "descr")));
  DDP_TRY(parse_shape(a, after(header, "shape")));
  DDP_TRY(check_kind(a));
  int64_t bytes, limit = a->in ? ddp_stream_limit(a->in) : ddp_zip_limit(a->zip);
  if (a->rows < 0 || __builtin_mul_overflow(a->rows, a->field->elements * a->bytes, &bytes) ||
      bytes > limit)
    return wrong(a, "is cut off: its header promises more than the file can hold");
  return NULL;
}

static DdpError *read_header(Npy *a) {
  unsigned char m[12];
  DDP_TRY(read_exact(a, m, 10));
  if (memcmp(m, "\x93NUMPY", 6) != 0)
    return ddp_error(DDP_DATA, "%s: no array of numpy: it starts with %02x %02x %02x %02x", a->path,
                     m[0], m[1], m[2], m[3]);
  int64_t n = m[8] | m[9] << 8;
  if (m[6] > 1) { /* the length has four bytes */
    DDP_TRY(read_exact(a, m + 10, 2));
    n |= (int64_t)m[10] << 16 | (int64_t)m[11] << 24;
  }
  if (n > MOST_HEADER) return wrong(a, "has a header that is too long");
  char *header = calloc(1, (size_t)n + 1);
  DdpError *error = header ? read_exact(a, header, n) : ddp_error(DDP_MEMORY, "out of memory");
  if (!error) error = parse_header(a, header);
  free(header);
  return error;
}

/* ---------- values ---------- */

static bool store(const Npy *a, const unsigned char *p, void *at, char *text, size_t room,
                  DdpWhy *why) {
  uint64_t v = 0;
  for (int i = 0; i < a->bytes; i++) {
    int from = a->swapped ? i : a->bytes - 1 - i;
    v = v << 8 | p[from];
  }
  if (a->kind == 'f') {
    double d;
    float f;
    uint32_t half = (uint32_t)v;
    memcpy(&d, &v, sizeof d);
    memcpy(&f, &half, sizeof f);
    d = a->bytes == 4 ? (double)f : d;
    if (ddp_field_store_float(a->field, at, d, why)) return true;
    snprintf(text, room, "%g", d);
    return false;
  }
  int64_t n = (int64_t)v;
  if (a->kind == 'i' && a->bytes < 8)
    n = (int64_t)(v << (64 - 8 * a->bytes)) >> (64 - 8 * a->bytes);
  bool fits = !(a->kind == 'u' && n < 0);
  if (fits && ddp_field_store_int(a->field, at, n, why)) return true;
  if (!fits) ddp_field_expected(a->field, why);
  snprintf(text, room, a->kind == 'u' ? "%llu" : "%lld", (unsigned long long)v);
  return false;
}

static DdpError *read_values(Npy *a, char *to) {
  const DdpField *f = a->field;
  int64_t bytes = f->elements * a->bytes, size = ddp_dtype_bytes(f->dtype), unused;
  unsigned char *raw = malloc((size_t)bytes + 1);
  DdpError *error = raw ? NULL : ddp_error(DDP_MEMORY, "out of memory");
  for (int64_t row = 0; row < a->rows && !error; row++) {
    error = read_exact(a, raw, bytes);
    for (int64_t k = 0; k < f->elements && !error; k++) {
      DdpWhy why;
      char text[40];
      void *at = to ? (void *)(to + (row * f->elements + k) * size) : (void *)&unused;
      if (store(a, raw + k * a->bytes, at, text, sizeof text, &why)) continue;
      error = ddp_error(DDP_DATA, "%s: sample %lld (from 0): %s = %s is not %s (%s)", a->path,
                        (long long)row, f->name, text, why.text, place_of(a));
    }
  }
  free(raw);
  int64_t got = 0;
  if (!error) error = read_some(a, &unused, 1, &got);
  return error || !got ? error : wrong(a, "is longer than its header says");
}

/* Appends one array; the first one says how many rows there are. */
static DdpError *append(Npy *a, DdpTable *t, int32_t column, int64_t *rows, const char *first) {
  DDP_TRY(read_header(a));
  if (*rows >= 0 && *rows != a->rows)
    return ddp_error(DDP_DATA, "%s has %lld samples, and that of field %s has %lld", first,
                     (long long)*rows, a->field->name, (long long)a->rows);
  if (*rows < 0) DDP_TRY(ddp_table_reserve(t, t->rows + a->rows));
  *rows = a->rows;
  int64_t each = ddp_field_bytes(a->field);
  char *to = t->columns[column] ? t->columns[column] + t->rows * each : NULL;
  return read_values(a, to);
}

/* ---------- files ---------- */

DdpError *ddp_npy_read(DdpTable *t, char *const *paths, const char *const *fields) {
  int64_t rows = -1;
  DdpError *error = NULL;
  for (int32_t i = 0; i < t->n_fields && !error; i++) {
    int k = 0;
    while (fields[k] && strcmp(fields[k], t->fields[i].name) != 0) k++;
    if (!fields[k])
      return ddp_error(DDP_DATA, "no npy file is named for field %s", t->fields[i].name);
    Npy a = {.path = paths[k], .field = &t->fields[i]};
    error = ddp_stream_open(&a.in, paths[k]);
    if (!error) error = append(&a, t, i, &rows, "the array of the first field");
    ddp_stream_close(a.in);
  }
  if (!error && rows > 0) t->rows += rows;
  return error;
}

static DdpError *read_members(DdpTable *t, DdpZip *zip, const char *path) {
  int64_t rows = -1;
  for (int32_t i = 0; i < t->n_fields; i++) {
    char name[256];
    bool found;
    Npy a = {.path = path, .field = &t->fields[i], .zip = zip};
    snprintf(name, sizeof name, "%s.npy", a.field->column ? a.field->column : a.field->name);
    DDP_TRY(ddp_zip_member(zip, name, &found));
    if (!found)
      return ddp_error(DDP_DATA, "%s: no array for field %s (%s); it has: %.400s", path,
                       a.field->name, place_of(&a), ddp_zip_names(zip));
    DDP_TRY(append(&a, t, i, &rows, "the array of the first field"));
  }
  if (rows > 0) t->rows += rows;
  return NULL;
}

DdpError *ddp_npz_read(DdpTable *t, const char *path) {
  DdpZip *zip;
  DDP_TRY(ddp_zip_open(&zip, path));
  DdpError *error = read_members(t, zip, path);
  ddp_zip_close(zip);
  return error;
}
