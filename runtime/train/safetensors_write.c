/* safetensors, writing. In: tensors. Out: header length, JSON padded to 8 bytes, data without gaps; the
   same bytes as the Python library's save_file. */
#include "file.h"
#include "safetensors.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  int bytes;
} types[] = {
#define DTYPE(name, ctype, bytes, category, st) {st, bytes},
#include "dtype.def"
};

/* The library's order of types of equal size. */
static int type_order(DdpDType t) {
  static const char *const order[] = {"BOOL", "U8",  "I8",  "I16", "U16", "F16", "BF16",
                                      "I32",  "U32", "F32", "F64", "I64", "U64"};
  for (int i = 0; i < (int)(sizeof order / sizeof order[0]); i++) {
    if (strcmp(order[i], types[t].name) == 0) return i;
  }
  return 0;
}

static int by_type_and_name(const void *a, const void *b) {
  const DdpSafeTensor *x = a, *y = b;
  int order = type_order(y->dtype) - type_order(x->dtype);
  return order ? order : strcmp(x->name, y->name);
}

/* A JSON text with its quotes. */
static void put_text(FILE *out, const char *text) {
  json_t *value = json_string(text);
  char *quoted = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
  fputs(quoted ? quoted : "\"\"", out);
  free(quoted);
  json_decref(value);
}

static void put_entry(FILE *out, const DdpSafeTensor *t, int64_t begin) {
  fputc(',', out);
  put_text(out, t->name);
  fprintf(out, ":{\"dtype\":\"%s\",\"shape\":[", types[t->dtype].name);
  for (int32_t i = 0; i < t->rank; i++) {
    fprintf(out, "%s%lld", i ? "," : "", (long long)t->shape[i]);
  }
  fprintf(out, "],\"data_offsets\":[%lld,%lld]}", (long long)begin, (long long)(begin + t->bytes));
}

static DdpError *header_make(char **out, size_t *size, const DdpSafeTensor *tensors, int n,
                             const char *const *aliases) {
  FILE *f = open_memstream(out, size);
  if (!f) return ddp_error(DDP_MEMORY, "out of memory");
  fputs("{\"__metadata__\":{\"format\":\"pt\"", f);
  for (int i = 0; aliases && aliases[i]; i += 2) {
    fputc(',', f);
    put_text(f, aliases[i]);
    fputc(':', f);
    put_text(f, aliases[i + 1]);
  }
  fputc('}', f);
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    put_entry(f, &tensors[i], at);
    at += tensors[i].bytes;
  }
  fputc('}', f);
  fflush(f);
  while (*size % 8) {
    fputc(' ', f);
    fflush(f);
  }
  return fclose(f) == 0 ? NULL : ddp_error(DDP_MEMORY, "out of memory");
}

static DdpError *write_all(DdpFile *f, const char *header, size_t size,
                           const DdpSafeTensor *tensors, int n) {
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)size >> (8 * i));
  DDP_TRY(ddp_file_write(f, length, sizeof length));
  DDP_TRY(ddp_file_write(f, header, size));
  for (int i = 0; i < n; i++) DDP_TRY(ddp_file_write(f, tensors[i].data, (size_t)tensors[i].bytes));
  return NULL;
}

DdpError *ddp_safetensors_write(const char *path, DdpSafeTensor *tensors, int n,
                                const char *const *aliases) {
  char *header = NULL;
  size_t size = 0;
  DdpFile *f = NULL;
  qsort(tensors, (size_t)n, sizeof *tensors, by_type_and_name);
  DdpError *error = header_make(&header, &size, tensors, n, aliases);
  if (!error) error = ddp_file_create(&f, path);
  if (!error) error = write_all(f, header, size, tensors, n);
  error = ddp_file_end(f, error);
  free(header);
  return error;
}
