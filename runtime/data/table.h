/* Columns that grow row by row: what the readers fill. One column per field that is used. */
#ifndef DDP_DATA_TABLE_H
#define DDP_DATA_TABLE_H
#include "ddp/job.h"
#include "ddp/status.h"
#include "dtype.h"

typedef struct DdpTable {
  const DdpField *fields;
  int32_t n_fields;
  int64_t rows, capacity;
  int64_t dropped; /* rows left out for a missing value */
  char **columns;  /* [n_fields]; NULL where the field is not used */
} DdpTable;

DdpError *ddp_table_open(DdpTable **out, const DdpField *fields, int32_t n_fields);
/* Room for `rows` rows in all. */
DdpError *ddp_table_reserve(DdpTable *t, int64_t rows);
/* Gives back what was reserved too much and counts the rest. */
DdpError *ddp_table_finish(DdpTable *t);
/* Appends the rows of `from`. */
DdpError *ddp_table_append(DdpTable *t, const DdpTable *from);
void ddp_table_free(DdpTable *t);

/* Bytes of one sample of a field. */
int64_t ddp_field_bytes(const DdpField *f);

/* One value of a field, checked against type, range and categories and stored. `why` receives what
   was expected when it returns false. */
typedef struct DdpWhy {
  char text[240];
} DdpWhy;
bool ddp_field_store_int(const DdpField *f, void *at, int64_t v, DdpWhy *why);
bool ddp_field_store_float(const DdpField *f, void *at, double v, DdpWhy *why);
/* "a whole number from 0 to 9" */
void ddp_field_expected(const DdpField *f, DdpWhy *why);
#endif
