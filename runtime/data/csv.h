/* CSV files (RFC 4180: quotes, doubled quotes, line ends inside quotes; LF or CRLF; a UTF-8 byte order
   mark), plain or gzip. Blanks around unquoted cells do not count. */
#ifndef DDP_DATA_CSV_H
#define DDP_DATA_CSV_H
#include "table.h"

/* Appends the rows of one file to t. source: header, skip, missing. At most ten wrong values are listed
   in one error. */
DdpError *ddp_csv_read(DdpTable *t, const char *path, const DdpSource *source);

/* Text of a cell -> value of a field. Used by the reader and its tests. */
bool ddp_csv_store(const DdpField *f, void *at, const char *text, size_t n, DdpWhy *why);
#endif
