/* Records of a CSV file: a stream cut into cells. */
#ifndef DDP_DATA_CSV_RECORD_H
#define DDP_DATA_CSV_RECORD_H
#include "ddp/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct CsvCell {
  char *text; /* without quotes and surrounding blanks; not terminated */
  size_t n;
  bool quoted;
} CsvCell;

typedef struct CsvReader CsvReader;

DdpError *csv_open(CsvReader **out, const char *path);
/* Leaves out n physical lines. Only before the first record. */
DdpError *csv_skip_lines(CsvReader *r, int64_t n);
/* Next record. *cells is valid until the next call; *n = 0 at the end, 1 with an empty cell for an
   empty line. */
DdpError *csv_next(CsvReader *r, CsvCell **cells, int64_t *n);
/* Where the current record began (from 1), and which one it is (from 1). */
int64_t csv_line(const CsvReader *r);
int64_t csv_record_number(const CsvReader *r);
/* Line and character (from 1) of a cell of the current record. */
void csv_place(const CsvReader *r, const CsvCell *cell, int64_t *line, int64_t *character);
void csv_close(CsvReader *r);
#endif
