/* CIFAR's binary files -> columns. In: a file and the names of the labels in a record. Out: rows appended, or
   an error that says where the file ends, or which label of which record is out of range. */
#include "cifar.h"
#include "stream.h"
#include <string.h>

enum { PIXELS = 3 * 32 * 32, MOST_LABELS = 2 };

typedef struct Cifar {
  const char *path;
  DdpStream *in;
  int labels;
  int32_t label[MOST_LABELS], image; /* numbers of fields; -1: not declared */
} Cifar;

static int32_t field_named(const DdpTable *t, const char *name) {
  for (int32_t i = 0; i < t->n_fields; i++) {
    if (!strcmp(t->fields[i].name, name)) return i;
  }
  return -1;
}

static char *place(const DdpTable *t, int32_t field, int64_t row) {
  char *column = field >= 0 ? t->columns[field] : NULL;
  return column ? column + row * ddp_field_bytes(&t->fields[field]) : NULL;
}

static DdpError *store(const Cifar *c, const DdpTable *t, int32_t field, int64_t record,
                       const unsigned char *bytes, int64_t n) {
  DdpWhy why;
  int64_t unused;
  if (field < 0) return NULL;
  const DdpField *f = &t->fields[field];
  char *to = place(t, field, t->rows);
  int64_t size = to ? ddp_dtype_bytes(f->dtype) : 0;
  for (int64_t i = 0; i < n; i++) {
    void *at = to ? (void *)(to + i * size) : (void *)&unused;
    if (ddp_field_store_int(f, at, bytes[i], &why)) continue;
    return ddp_error(DDP_DATA, "%s: record %lld (from 0): %s = %d is not %s%s%s%s", c->path,
                     (long long)record, f->name, bytes[i], why.text, f->place ? " (" : "",
                     f->place ? f->place : "", f->place ? ")" : "");
  }
  return NULL;
}

static DdpError *cut_off(const Cifar *c, int64_t record, int64_t got) {
  int64_t size = c->labels + PIXELS, all = record * size + got;
  const char *hint = all % (PIXELS + 1) == 0   ? ": it looks like CIFAR-10, whose field is `label`"
                     : all % (PIXELS + 2) == 0 ? ": it looks like CIFAR-100, whose fields are "
                                                 "`coarse_label` and `fine_label`"
                                               : ": the file is cut off";
  return ddp_error(DDP_DATA,
                   "%s: %lld bytes are no multiple of %lld, a record of %d label%s and 3 x 32 x 32 "
                   "pixels%s",
                   c->path, (long long)all, (long long)size, c->labels, c->labels > 1 ? "s" : "",
                   hint);
}

static DdpError *read_records(Cifar *c, DdpTable *t) {
  unsigned char record[MOST_LABELS + PIXELS];
  int64_t got, size = c->labels + PIXELS;
  for (int64_t k = 0;; k++) {
    DDP_TRY(ddp_stream_read(c->in, record, size, &got));
    if (got == 0) return NULL;
    if (got < size) return cut_off(c, k, got);
    DDP_TRY(ddp_table_reserve(t, t->rows + 1));
    for (int i = 0; i < c->labels; i++) DDP_TRY(store(c, t, c->label[i], k, record + i, 1));
    DDP_TRY(store(c, t, c->image, k, record + c->labels, PIXELS));
    t->rows++;
  }
}

DdpError *ddp_cifar_read(DdpTable *t, const char *path, const DdpSource *source) {
  Cifar c = {.path = path, .label = {-1, -1}, .image = field_named(t, "image")};
  while (source->fields && c.labels < MOST_LABELS && source->fields[c.labels]) {
    c.label[c.labels] = field_named(t, source->fields[c.labels]);
    c.labels++;
  }
  DDP_TRY(ddp_stream_open(&c.in, path));
  if (!c.labels) c.labels = ddp_stream_limit(c.in) % (PIXELS + 2) ? 1 : 2;
  DdpError *error = read_records(&c, t);
  ddp_stream_close(c.in);
  return error;
}
