/* CSV rows -> columns of a table. In: a file and the declared fields. Out: rows appended, or an error
   that lists the first wrong values with file:line:character, what stands there and what was expected. */
#include "csv.h"
#include "csv_record.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COMPLAINTS = 10 };

typedef struct Target { /* what a column of the file feeds */
  int32_t field;        /* -1: nothing */
  int64_t element;
  int64_t row_bytes, offset; /* place of its value */
  int64_t low, high;         /* whole numbers that need no further check: low <= v < high */
} Target;

typedef struct Csv {
  DdpTable *table;
  const DdpSource *source;
  const char *path;
  CsvReader *reader;
  Target *targets;
  int64_t n_columns;
  char *scratch; /* one value of a field that is not stored */
  char *complaints;
  size_t complaint_bytes;
  int n_complaints;
} Csv;

static void complain(Csv *c, const char *text) {
  size_t n = strlen(text);
  c->n_complaints++;
  char *p = realloc(c->complaints, c->complaint_bytes + n + 2);
  if (!p) return;
  if (c->complaint_bytes) p[c->complaint_bytes++] = '\n';
  memcpy(p + c->complaint_bytes, text, n + 1);
  c->complaint_bytes += n;
  c->complaints = p;
}

static bool first_row(const Csv *c) {
  return csv_record_number(c->reader) == (c->source->header ? 2 : 1);
}

static void complain_value(Csv *c, const CsvCell *cell, int64_t column, const DdpWhy *why) {
  const DdpField *f = &c->table->fields[c->targets[column].field];
  int64_t line, character;
  char text[640];
  csv_place(c->reader, cell, &line, &character);
  bool header = first_row(c) && !c->source->header && cell->n &&
                strchr("0123456789+-.", cell->text[0]) == NULL;
  snprintf(text, sizeof text, "%s:%lld:%lld: column %lld (%s): '%.*s' is not %s%s%s%s%s", c->path,
           (long long)line, (long long)character, (long long)column + 1, f->name,
           cell->n > 40 ? 40 : (int)cell->n, cell->text, why->text, f->place ? " (" : "",
           f->place ? f->place : "", f->place ? ")" : "",
           header ? "; if this line is a header, say `header = true` or `skip = 1`" : "");
  complain(c, text);
}

/* Of a file, for one field. */
static int64_t columns_of(const DdpField *f) {
  return f->text ? 1 : f->elements;
}

static void complain_count(Csv *c, const CsvCell *cells, int64_t n) {
  char text[640];
  int64_t line = csv_line(c->reader), record = csv_record_number(c->reader);
  int used = snprintf(text, sizeof text, "%s:%lld (record %lld): %lld column%s, expected %lld",
                      c->path, (long long)line, (long long)record, (long long)n, n == 1 ? "" : "s",
                      (long long)c->n_columns);
  const char *separator = " (";
  for (int32_t i = 0; i < c->table->n_fields && !c->source->header && used < 400; i++) {
    const DdpField *f = &c->table->fields[i];
    used += snprintf(text + used, sizeof text - (size_t)used, "%s%.40s: %lld", separator, f->name,
                     (long long)columns_of(f));
    separator = ", ";
  }
  if (separator[0] == ',') used += snprintf(text + used, sizeof text - (size_t)used, ")");
  if (n && cells[0].n && cells[0].text[0] == '<') {
    snprintf(text + used, sizeof text - (size_t)used, "; this looks like an HTML page");
  } else if (first_row(c) && !c->source->header) {
    snprintf(text + used, sizeof text - (size_t)used,
             "; lines at the top that are no data are left out with `header = true` or `skip = n`");
  }
  complain(c, text);
}

/* Columns in order: every field takes its elements. */
static DdpError *map_in_order(Csv *c) {
  for (int32_t i = 0; i < c->table->n_fields; i++) c->n_columns += columns_of(&c->table->fields[i]);
  c->targets = malloc((size_t)(c->n_columns + 1) * sizeof *c->targets);
  if (!c->targets) return ddp_error(DDP_MEMORY, "out of memory");
  int64_t k = 0;
  for (int32_t i = 0; i < c->table->n_fields; i++) {
    for (int64_t e = 0; e < columns_of(&c->table->fields[i]); e++)
      c->targets[k++] = (Target){.field = i, .element = e};
  }
  return NULL;
}

static DdpError *no_column(const Csv *c, const char *name, const CsvCell *cells, int64_t n) {
  char names[400] = "";
  size_t used = 0;
  for (int64_t i = 0; i < n && used < sizeof names - 48; i++) {
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%.*s", i ? ", " : "",
                             cells[i].n > 32 ? 32 : (int)cells[i].n, cells[i].text);
  }
  return ddp_error(DDP_DATA, "%s:%lld: the header has no column '%s'; it has: %s%s", c->path,
                   (long long)csv_line(c->reader), name, names,
                   used >= sizeof names - 48 ? ", ..." : "");
}

/* By name: a field of several elements takes the columns from its name on. */
static DdpError *map_by_name(Csv *c) {
  CsvCell *cells;
  int64_t n;
  DDP_TRY(csv_next(c->reader, &cells, &n));
  if (n == 0) return ddp_error(DDP_DATA, "%s: no header: the file is empty", c->path);
  c->n_columns = n;
  c->targets = malloc((size_t)n * sizeof *c->targets);
  if (!c->targets) return ddp_error(DDP_MEMORY, "out of memory");
  for (int64_t k = 0; k < n; k++) c->targets[k].field = -1;
  for (int32_t i = 0; i < c->table->n_fields; i++) {
    const DdpField *f = &c->table->fields[i];
    const char *name = f->column ? f->column : f->name;
    int64_t found = -1, times = 0;
    for (int64_t k = 0; k < n; k++) {
      if (cells[k].n != strlen(name) || memcmp(cells[k].text, name, cells[k].n) != 0) continue;
      if (times++ == 0) found = k;
    }
    if (times == 0) return no_column(c, name, cells, n);
    if (times > 1) {
      return ddp_error(DDP_DATA,
                       "%s:%lld: the header has %lld columns '%s'; which one is field %s?", c->path,
                       (long long)csv_line(c->reader), (long long)times, name, f->name);
    }
    int64_t columns = columns_of(f);
    if (found + columns > n) {
      return ddp_error(DDP_DATA,
                       "%s:%lld: field %s takes %lld columns from '%s' on, the file has %lld",
                       c->path, (long long)csv_line(c->reader), f->name, (long long)columns, name,
                       (long long)(n - found));
    }
    for (int64_t e = 0; e < columns; e++) {
      if (c->targets[found + e].field >= 0) {
        return ddp_error(DDP_DATA, "%s: column %lld is claimed by fields %s and %s", c->path,
                         (long long)(found + e + 1),
                         c->table->fields[c->targets[found + e].field].name, f->name);
      }
      c->targets[found + e] = (Target){.field = i, .element = e};
    }
  }
  return NULL;
}

static void targets_finish(Csv *c) {
  for (int64_t k = 0; k < c->n_columns; k++) {
    Target *t = &c->targets[k];
    if (t->field < 0) continue;
    const DdpField *f = &c->table->fields[t->field];
    t->row_bytes = ddp_field_bytes(f);
    t->offset = t->element * ddp_dtype_bytes(f->dtype);
    if (f->categories && f->categories[0]) continue;
    t->high = f->dtype == DDP_u8 ? 256 : f->dtype == DDP_bool ? 2 : INT32_MAX;
    if (!f->has_range) continue;
    t->low = f->low > 0 ? (int64_t)fmin(ceil(f->low), INT32_MAX) : 0;
    double high = f->dtype == DDP_f32 || f->dtype == DDP_f64 ? floor(f->high) + 1 : f->high;
    t->high = (int64_t)fmax(0, fmin(high, (double)t->high));
  }
}

/* The common case: a few digits, inside the range. False: look closer. */
static bool store_digits(const Csv *c, const Target *t, const CsvCell *cell, char *at) {
  int64_t v = 0;
  if (cell->n == 0 || cell->n > 9) return false;
  for (size_t i = 0; i < cell->n; i++) {
    unsigned digit = (unsigned)(cell->text[i] - '0');
    if (digit > 9) return false;
    v = v * 10 + digit;
  }
  if (v < t->low || v >= t->high) return false;
  switch (c->table->fields[t->field].dtype) {
  case DDP_bool:
  case DDP_u8:
    *(uint8_t *)at = (uint8_t)v;
    return true;
  case DDP_i32:
    *(int32_t *)(void *)at = (int32_t)v;
    return true;
  case DDP_i64:
    *(int64_t *)(void *)at = v;
    return true;
  case DDP_f32:
    *(float *)(void *)at = (float)v;
    return true;
  case DDP_f64:
    *(double *)(void *)at = (double)v;
    return true;
  case DDP_f16:
  case DDP_bf16:
  case DDP_DTYPE_COUNT:
    break;
  }
  return false;
}

static bool is_missing(const Csv *c, const CsvCell *cell) {
  const char *missing = c->source->missing;
  return missing && strlen(missing) == cell->n && memcmp(missing, cell->text, cell->n) == 0;
}

/* As many whole characters as fit, then zeros. */
static void store_text(const DdpField *f, char *at, const CsvCell *cell) {
  size_t room = (size_t)f->elements, n = cell->n;
  if (n > room) {
    n = room;
    while (n > 0 && ((unsigned char)cell->text[n] & 0xc0) == 0x80) n--;
  }
  memcpy(at, cell->text, n);
  memset(at + n, 0, room - n);
}

/* Room for one more row is there. */
static void read_row(Csv *c, const CsvCell *cells, int64_t n) {
  DdpTable *t = c->table;
  DdpWhy why;
  int before = c->n_complaints;
  for (int64_t k = 0; k < n && c->source->missing; k++) {
    if (c->targets[k].field >= 0 && is_missing(c, &cells[k])) {
      t->dropped++;
      return;
    }
  }
  for (int64_t k = 0; k < n && c->n_complaints < MOST_COMPLAINTS; k++) {
    const Target *to = &c->targets[k];
    if (to->field < 0) continue;
    char *column = t->columns[to->field];
    char *at = column ? column + t->rows * to->row_bytes + to->offset : c->scratch;
    const DdpField *f = &t->fields[to->field];
    if (f->text) {
      if (column) store_text(f, at, &cells[k]);
      continue;
    }
    if (store_digits(c, to, &cells[k], at)) continue;
    if (!ddp_csv_store(f, at, cells[k].text, cells[k].n, &why))
      complain_value(c, &cells[k], k, &why);
  }
  if (c->n_complaints == before) t->rows++;
}

static DdpError *read_rows(Csv *c) {
  CsvCell *cells;
  int64_t n, empty = 0;
  for (;;) {
    DDP_TRY(csv_next(c->reader, &cells, &n));
    if (n == 0 || c->n_complaints >= MOST_COMPLAINTS) return NULL;
    if (n == 1 && cells[0].n == 0 && !cells[0].quoted) {
      if (!empty) empty = csv_line(c->reader);
      continue; /* fine at the end of the file only */
    }
    if (empty) {
      char text[512];
      snprintf(text, sizeof text, "%s:%lld: an empty line inside the data", c->path,
               (long long)empty);
      complain(c, text);
      empty = 0;
    }
    if (n != c->n_columns) {
      complain_count(c, cells, n);
      continue;
    }
    DDP_TRY(ddp_table_reserve(c->table, c->table->rows + 1));
    read_row(c, cells, n);
  }
}

static DdpError *csv_run(Csv *c) {
  int64_t unused = 0;
  c->scratch = (char *)&unused;
  DDP_TRY(csv_open(&c->reader, c->path));
  DDP_TRY(csv_skip_lines(c->reader, c->source->skip));
  DDP_TRY(c->source->header ? map_by_name(c) : map_in_order(c));
  targets_finish(c);
  DDP_TRY(read_rows(c));
  if (c->n_complaints == 0) return NULL;
  const char *more = c->n_complaints >= MOST_COMPLAINTS ? "\n... reading stopped here" : "";
  return ddp_error(DDP_DATA, "%s%s", c->complaints ? c->complaints : "wrong data", more);
}

DdpError *ddp_csv_read(DdpTable *t, const char *path, const DdpSource *source) {
  Csv c = {.table = t, .source = source, .path = path};
  DdpError *error = csv_run(&c);
  csv_close(c.reader);
  free(c.targets);
  free(c.complaints);
  return error;
}
