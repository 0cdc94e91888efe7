/* idx files -> columns. In: one file per field. Out: rows appended, or an error that says what was
   found and expected: type, sizes, length, values out of range, different counts. */
#include "idx.h"
#include "stream.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct IdxType {
  unsigned char code;
  const char *name;
  int64_t bytes;
} IdxType;

static const IdxType types[] = {{0x08, "uint8", 1}, {0x09, "int8", 1},    {0x0b, "int16", 2},
                                {0x0c, "int32", 4}, {0x0d, "float32", 4}, {0x0e, "float64", 8}};

typedef struct Idx {
  const char *path;
  const DdpField *field;
  DdpStream *in;
  const IdxType *type;
  int64_t rows;
} Idx;

static uint64_t big_endian(const unsigned char *p, int64_t n) {
  uint64_t v = 0;
  for (int64_t i = 0; i < n; i++) v = v << 8 | p[i];
  return v;
}

static DdpError *read_exact(Idx *x, void *into, int64_t n, const char *what) {
  int64_t got;
  DDP_TRY(ddp_stream_read(x->in, into, n, &got));
  if (got == n) return NULL;
  return ddp_error(DDP_DATA, "%s: ends too early: %lld of %lld bytes of %s", x->path,
                   (long long)got, (long long)n, what);
}

static DdpError *read_magic(Idx *x, int *rank) {
  unsigned char m[4];
  int64_t got;
  DDP_TRY(ddp_stream_read(x->in, m, 4, &got));
  if (got < 4)
    return ddp_error(DDP_DATA, "%s: %lld bytes: too short for an idx file", x->path,
                     (long long)got);
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    if (types[i].code == m[2]) x->type = &types[i];
  }
  *rank = m[3];
  if (m[0] == 0 && m[1] == 0 && x->type && *rank >= 1 && *rank <= DDP_MAX_RANK) return NULL;
  const char *hint = "";
  if (m[0] == '<') hint = "; it looks like an HTML page";
  if (m[0] == 0x1f && m[1] == 0x8b) hint = "; it looks compressed twice";
  return ddp_error(DDP_DATA, "%s: not an idx file: it starts with %02x %02x %02x %02x%s", x->path,
                   m[0], m[1], m[2], m[3], hint);
}

static void shape_text(char *out, size_t size, const int64_t *shape, int64_t rank) {
  size_t used = (size_t)snprintf(out, size, "[");
  for (int64_t i = 0; i < rank && used < size; i++) {
    used += (size_t)snprintf(out + used, size - used, "%s%lld", i ? ", " : "", (long long)shape[i]);
  }
  if (used < size) snprintf(out + used, size - used, "]");
}

static DdpError *check_shape(Idx *x, const int64_t *sizes, int rank) {
  const DdpField *f = x->field;
  bool same = rank - 1 == f->rank;
  for (int i = 0; same && i < f->rank; i++) same = sizes[i + 1] == f->shape[i];
  if (same) return NULL;
  char found[128], expected[128];
  shape_text(found, sizeof found, sizes + 1, rank - 1);
  shape_text(expected, sizeof expected, f->shape, f->rank);
  return ddp_error(DDP_DATA, "%s: one sample has shape %s, field %s%s%s%s declares %s", x->path,
                   found, f->name, f->place ? " (" : "", f->place ? f->place : "",
                   f->place ? ")" : "", expected);
}

static bool may_hold(const DdpField *f, const IdxType *t) {
  bool whole = t->code <= 0x0c;
  switch (f->dtype) {
  case DDP_bool:
  case DDP_u8:
    return t->code == 0x08;
  case DDP_i32:
  case DDP_i64:
    return whole;
  case DDP_f32:
  case DDP_f64:
    return !whole;
  default:
    return false;
  }
}

static DdpError *open_one(Idx *x) {
  unsigned char raw[4 * DDP_MAX_RANK];
  int64_t sizes[DDP_MAX_RANK], bytes = 0;
  int rank = 0;
  DDP_TRY(ddp_stream_open(&x->in, x->path));
  DDP_TRY(read_magic(x, &rank));
  DDP_TRY(read_exact(x, raw, 4 * rank, "the header"));
  for (int i = 0; i < rank; i++) sizes[i] = (int64_t)big_endian(raw + 4 * i, 4);
  x->rows = sizes[0];
  DDP_TRY(check_shape(x, sizes, rank));
  if (!may_hold(x->field, x->type)) {
    return ddp_error(DDP_DATA, "%s: holds %s; field %s is declared with another type%s%s%s",
                     x->path, x->type->name, x->field->name, x->field->place ? " (" : "",
                     x->field->place ? x->field->place : "", x->field->place ? ")" : "");
  }
  /* A header can promise anything: believe it only as far as the file goes. */
  int64_t per_row = x->field->elements * x->type->bytes, limit = ddp_stream_limit(x->in);
  if (__builtin_mul_overflow(x->rows, per_row, &bytes) || bytes > limit) {
    return ddp_error(DDP_DATA,
                     "%s: truncated: the header promises %lld samples of %lld bytes, the file "
                     "has at most %lld bytes",
                     x->path, (long long)x->rows, (long long)per_row, (long long)limit);
  }
  return NULL;
}

static DdpError *wrong_value(const Idx *x, int64_t row, const char *value, const DdpWhy *why) {
  return ddp_error(DDP_DATA, "%s: sample %lld (from 0): %s = %s is not %s%s%s%s", x->path,
                   (long long)row, x->field->name, value, why->text, x->field->place ? " (" : "",
                   x->field->place ? x->field->place : "", x->field->place ? ")" : "");
}

static DdpError *store_value(const Idx *x, const unsigned char *raw, int64_t row, char *at) {
  DdpWhy why;
  char text[40];
  uint64_t bits = big_endian(raw, x->type->bytes);
  if (x->type->code <= 0x0c) {
    int64_t v = (int64_t)bits;
    if (x->type->code == 0x09) v = (int8_t)bits;
    if (x->type->code == 0x0b) v = (int16_t)bits;
    if (x->type->code == 0x0c) v = (int32_t)bits;
    if (ddp_field_store_int(x->field, at, v, &why)) return NULL;
    snprintf(text, sizeof text, "%lld", (long long)v);
    return wrong_value(x, row, text, &why);
  }
  double v;
  if (x->type->bytes == 4) {
    uint32_t half = (uint32_t)bits;
    float f;
    memcpy(&f, &half, sizeof f);
    v = (double)f;
  } else {
    memcpy(&v, &bits, sizeof v);
  }
  if (ddp_field_store_float(x->field, at, v, &why)) return NULL;
  snprintf(text, sizeof text, "%g", v);
  return wrong_value(x, row, text, &why);
}

/* Bytes that need neither conversion nor check are read where they belong. */
static bool is_raw(const Idx *x) {
  const DdpField *f = x->field;
  bool all = !f->has_range || (f->low <= 0 && f->high >= 256);
  return f->dtype == DDP_u8 && all && !(f->categories && f->categories[0]);
}

static DdpError *read_values(Idx *x, DdpTable *t, int32_t column) {
  const DdpField *f = x->field;
  int64_t in_bytes = f->elements * x->type->bytes, out_bytes = ddp_field_bytes(f);
  int64_t size = ddp_dtype_bytes(f->dtype);
  char *out = t->columns[column] ? t->columns[column] + t->rows * out_bytes : NULL;
  if (out && is_raw(x)) return read_exact(x, out, x->rows * in_bytes, "the values");
  unsigned char *raw = malloc((size_t)in_bytes + 8);
  int64_t unused = 0;
  DdpError *error = raw ? NULL : ddp_error(DDP_MEMORY, "out of memory");
  for (int64_t row = 0; row < x->rows && !error; row++) {
    error = read_exact(x, raw, in_bytes, "a sample");
    for (int64_t e = 0; e < f->elements && !error; e++) {
      char *at = out ? out + row * out_bytes + e * size : (char *)&unused;
      error = store_value(x, raw + e * x->type->bytes, row, at);
    }
  }
  free(raw);
  return error;
}

static DdpError *check_end(Idx *x) {
  char byte;
  int64_t got;
  DDP_TRY(ddp_stream_read(x->in, &byte, 1, &got));
  if (got == 0) return NULL;
  return ddp_error(DDP_DATA, "%s: more bytes than the %lld samples that the header promises",
                   x->path, (long long)x->rows);
}

static DdpError *idx_run(DdpTable *t, Idx *files, char *const *paths, const char *const *fields) {
  for (int32_t i = 0; i < t->n_fields; i++) {
    int k = 0;
    while (fields[k] && strcmp(fields[k], t->fields[i].name) != 0) k++;
    if (!fields[k])
      return ddp_error(DDP_DATA, "no idx file is named for field %s", t->fields[i].name);
    files[i].path = paths[k];
    files[i].field = &t->fields[i];
    DDP_TRY(open_one(&files[i]));
    if (files[i].rows != files[0].rows) {
      return ddp_error(DDP_DATA, "%s has %lld samples, %s has %lld: they do not belong together",
                       files[0].path, (long long)files[0].rows, files[i].path,
                       (long long)files[i].rows);
    }
  }
  if (t->n_fields == 0) return NULL;
  DDP_TRY(ddp_table_reserve(t, t->rows + files[0].rows));
  for (int32_t i = 0; i < t->n_fields; i++) {
    DDP_TRY(read_values(&files[i], t, i));
    DDP_TRY(check_end(&files[i]));
  }
  t->rows += files[0].rows;
  return NULL;
}

DdpError *ddp_idx_read(DdpTable *t, char *const *paths, const char *const *fields) {
  Idx *files = calloc((size_t)t->n_fields + 1, sizeof *files);
  if (!files) return ddp_error(DDP_MEMORY, "out of memory");
  DdpError *error = idx_run(t, files, paths, fields);
  for (int32_t i = 0; i < t->n_fields; i++) ddp_stream_close(files[i].in);
  free(files);
  return error;
}
