/* Growing columns and the checks of single values. In: values of the readers. Out: dense columns whose
   every value lies in its field's declared range. */
#include "table.h"
#include "memory.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t ddp_field_bytes(const DdpField *f) {
  return f->elements * ddp_dtype_bytes(f->dtype);
}

DdpError *ddp_table_open(DdpTable **out, const DdpField *fields, int32_t n_fields) {
  DdpTable *t = calloc(1, sizeof *t);
  if (t) t->columns = calloc((size_t)n_fields + 1, sizeof *t->columns);
  if (!t || !t->columns) {
    free(t);
    return ddp_error(DDP_MEMORY, "out of memory");
  }
  t->fields = fields;
  t->n_fields = n_fields;
  *out = t;
  return NULL;
}

static DdpError *table_resize(DdpTable *t, int64_t capacity) {
  for (int32_t i = 0; i < t->n_fields; i++) {
    int64_t row = ddp_field_bytes(&t->fields[i]), bytes;
    if (!t->fields[i].used) continue;
    if (__builtin_mul_overflow(row, capacity, &bytes)) {
      return ddp_error(DDP_MEMORY, "field %s: %lld rows overflow memory", t->fields[i].name,
                       (long long)capacity);
    }
    char *p = realloc(t->columns[i], bytes ? (size_t)bytes : 1);
    if (!p) {
      return ddp_error(DDP_MEMORY, "out of memory: %.1f MiB for %lld rows of field %s",
                       (double)bytes / 1048576.0, (long long)capacity, t->fields[i].name);
    }
    t->columns[i] = p;
  }
  t->capacity = capacity;
  return NULL;
}

DdpError *ddp_table_reserve(DdpTable *t, int64_t rows) {
  if (rows <= t->capacity && t->capacity) return NULL;
  int64_t capacity = t->capacity + t->capacity / 2;
  if (capacity < rows) capacity = rows;
  return table_resize(t, capacity < 64 ? 64 : capacity);
}

DdpError *ddp_table_finish(DdpTable *t) {
  DDP_TRY(table_resize(t, t->rows));
  for (int32_t i = 0; i < t->n_fields; i++) {
    if (t->columns[i]) ddp_memory_count(DDP_MEMORY_data, t->rows * ddp_field_bytes(&t->fields[i]));
  }
  return NULL;
}

DdpError *ddp_table_append(DdpTable *t, const DdpTable *from) {
  DDP_TRY(ddp_table_reserve(t, t->rows + from->rows));
  for (int32_t i = 0; i < t->n_fields; i++) {
    size_t row = (size_t)ddp_field_bytes(&t->fields[i]);
    if (!t->columns[i]) continue;
    memcpy(t->columns[i] + (size_t)t->rows * row, from->columns[i], (size_t)from->rows * row);
  }
  t->rows += from->rows;
  t->dropped += from->dropped;
  return NULL;
}

void ddp_table_free(DdpTable *t) {
  if (!t) return;
  for (int32_t i = 0; i < t->n_fields; i++) free(t->columns[i]);
  free(t->columns);
  free(t);
}

typedef struct Range {
  double low, high; /* whole numbers: high is excluded */
} Range;

static Range natural_range(DdpDType dtype) {
  switch (dtype) {
  case DDP_bool:
    return (Range){0, 2};
  case DDP_u8:
    return (Range){0, 256};
  case DDP_i32:
    return (Range){-0x1p31, 0x1p31};
  case DDP_i64:
    return (Range){-0x1p63, 0x1p63};
  case DDP_f32:
    return (Range){-FLT_MAX, FLT_MAX};
  case DDP_f16:
  case DDP_bf16:
  case DDP_f64:
  case DDP_DTYPE_COUNT:
    break;
  }
  return (Range){-DBL_MAX, DBL_MAX};
}

static Range field_range(const DdpField *f) {
  return f->has_range ? (Range){f->low, f->high} : natural_range(f->dtype);
}

static bool is_float(DdpDType dtype) {
  return dtype == DDP_f16 || dtype == DDP_bf16 || dtype == DDP_f32 || dtype == DDP_f64;
}

void ddp_field_expected(const DdpField *f, DdpWhy *why) {
  Range r = field_range(f);
  if (f->categories && f->categories[0]) {
    int n = snprintf(why->text, sizeof why->text, "one of");
    for (int i = 0; f->categories[i] && n < (int)sizeof why->text - 40; i++) {
      n += snprintf(why->text + n, sizeof why->text - (size_t)n, "%s \"%.24s\"", i ? "," : "",
                    f->categories[i]);
    }
  } else if (is_float(f->dtype)) {
    if (f->has_range)
      snprintf(why->text, sizeof why->text, "a number from %.9g to %.9g", r.low, r.high);
    else
      snprintf(why->text, sizeof why->text, "a finite number");
  } else if (fabs(r.low) < 1e15 && fabs(r.high) < 1e15) {
    snprintf(why->text, sizeof why->text, "a whole number from %.0f to %.0f", r.low, r.high - 1);
  } else {
    snprintf(why->text, sizeof why->text, "a whole number");
  }
}

bool ddp_field_store_int(const DdpField *f, void *at, int64_t v, DdpWhy *why) {
  if (is_float(f->dtype)) return ddp_field_store_float(f, at, (double)v, why);
  Range r = field_range(f);
  double d = (double)v;
  /* 2^63 itself is no int64, so an upper bound of 2^63 excludes nothing. */
  if (d < r.low || (d >= r.high && r.high < 0x1p63)) {
    ddp_field_expected(f, why);
    size_t n = strlen(why->text);
    if (f->has_range && d == r.high && r.low == 0) {
      snprintf(why->text + n, sizeof why->text - n, " (do the values start at 1?)");
    }
    return false;
  }
  switch (f->dtype) {
  case DDP_bool:
  case DDP_u8:
    *(uint8_t *)at = (uint8_t)v;
    break;
  case DDP_i32:
    *(int32_t *)at = (int32_t)v;
    break;
  default:
    *(int64_t *)at = v;
    break;
  }
  return true;
}

bool ddp_field_store_float(const DdpField *f, void *at, double v, DdpWhy *why) {
  if (!is_float(f->dtype)) { /* 3.0 is a whole number, 3.5 is not */
    if (v == trunc(v) && fabs(v) < 0x1p62) return ddp_field_store_int(f, at, (int64_t)v, why);
    ddp_field_expected(f, why);
    return false;
  }
  Range r = natural_range(f->dtype);
  bool fits = v >= r.low && v <= r.high; /* false for NaN */
  if (f->has_range) fits = fits && v >= f->low && v <= f->high;
  if (!fits) {
    ddp_field_expected(f, why);
    return false;
  }
  if (f->dtype == DDP_f64)
    *(double *)at = v;
  else
    *(float *)at = (float)v;
  return true;
}
