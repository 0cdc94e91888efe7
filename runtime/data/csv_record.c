/* Cuts a stream into records and cells. In: a file. Out: cells that point into one buffer holding the
   whole record; damage (an open quote, binary data, line ends of old Macs, UTF-16) is an error with its
   line. */
#include "csv_record.h"
#include "stream.h"
#include <stdlib.h>
#include <string.h>

enum { START_BYTES = 1 << 18, MOST_BYTES = 1 << 28 };

struct CsvReader {
  DdpStream *in;
  char *path;
  char *buffer;
  int64_t capacity, filled, at; /* at: start of the next record */
  int64_t begin;                /* start of the current record */
  bool ended;
  bool quotes; /* the current record has quoted cells */
  int64_t line, next_line, record;
  CsvCell *cells;
  int64_t n_cells, cell_room;
};

typedef enum Scan { SCAN_done, SCAN_more, SCAN_end } Scan;

/* Reads on; keeps everything from `at`. */
static DdpError *refill(CsvReader *r) {
  if (r->at > 0) memmove(r->buffer, r->buffer + r->at, (size_t)(r->filled - r->at));
  r->filled -= r->at;
  r->at = 0;
  if (r->filled == r->capacity) {
    if (r->capacity >= MOST_BYTES) {
      return ddp_error(
          DDP_DATA,
          "%s:%lld: a record longer than %d MiB; is a quote left open, or is this no CSV "
          "file?",
          r->path, (long long)r->next_line, MOST_BYTES >> 20);
    }
    char *p = realloc(r->buffer, (size_t)r->capacity * 2);
    if (!p) return ddp_error(DDP_MEMORY, "out of memory while reading '%s'", r->path);
    r->buffer = p;
    r->capacity *= 2;
  }
  int64_t got = 0;
  DDP_TRY(ddp_stream_read(r->in, r->buffer + r->filled, r->capacity - r->filled, &got));
  r->filled += got;
  r->ended = got == 0;
  return NULL;
}

DdpError *csv_open(CsvReader **out, const char *path) {
  *out = NULL;
  CsvReader *r = calloc(1, sizeof *r);
  if (!r) return ddp_error(DDP_MEMORY, "out of memory");
  r->capacity = START_BYTES;
  r->next_line = 1;
  r->path = strdup(path);
  r->buffer = malloc(START_BYTES);
  DdpError *error = NULL;
  if (!r->path || !r->buffer) error = ddp_error(DDP_MEMORY, "out of memory");
  if (!error) error = ddp_stream_open(&r->in, path);
  if (!error) error = refill(r);
  const unsigned char *b = (const unsigned char *)r->buffer;
  if (!error && r->filled >= 2 &&
      ((b[0] == 0xff && b[1] == 0xfe) || (b[0] == 0xfe && b[1] == 0xff))) {
    error = ddp_error(DDP_DATA, "%s: the text is UTF-16; save it as UTF-8", path);
  }
  if (!error && r->filled >= 2 && b[0] == 0x1f && b[1] == 0x8b) {
    error = ddp_error(DDP_DATA, "%s: compressed twice; decompress it once", path);
  }
  if (error) {
    csv_close(r);
    return error;
  }
  if (r->filled >= 3 && memcmp(b, "\xef\xbb\xbf", 3) == 0) r->at = 3;
  *out = r;
  return NULL;
}

DdpError *csv_skip_lines(CsvReader *r, int64_t n) {
  while (n > 0) {
    char *from = r->buffer + r->at;
    char *end = memchr(from, '\n', (size_t)(r->filled - r->at));
    if (end) {
      r->at = end - r->buffer + 1;
      r->next_line++;
      n--;
    } else {
      r->at = r->filled; /* nothing of the line is kept */
      if (r->ended) return NULL;
      DDP_TRY(refill(r));
    }
  }
  return NULL;
}

static DdpError *cells_grow(CsvReader *r) {
  int64_t room = r->cell_room ? r->cell_room * 2 : 256;
  CsvCell *p = realloc(r->cells, (size_t)room * sizeof *p);
  if (!p) return ddp_error(DDP_MEMORY, "out of memory while reading '%s'", r->path);
  r->cells = p;
  r->cell_room = room;
  return NULL;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

static inline DdpError *cell_add(CsvReader *r, int64_t from, int64_t to, bool quoted) {
  if (r->n_cells == r->cell_room) DDP_TRY(cells_grow(r));
  char *b = r->buffer;
  if (!quoted) {
    while (from < to && is_blank(b[from])) from++;
    while (to > from && is_blank(b[to - 1])) to--;
  }
  r->cells[r->n_cells++] = (CsvCell){b + from, (size_t)(to - from), quoted};
  return NULL;
}

static int64_t lines_before(const CsvReader *r, int64_t begin, int64_t end) {
  int64_t n = 0;
  for (int64_t i = begin; i < end; i++) n += r->buffer[i] == '\n';
  return n;
}

static DdpError *bad_byte(const CsvReader *r, int64_t i, const char *what) {
  int64_t line = r->next_line + lines_before(r, r->at, i);
  return ddp_error(DDP_DATA, "%s:%lld: %s", r->path, (long long)line, what);
}

/* A quoted cell: *i stands on the quote; afterwards behind the closing one and blanks. */
static DdpError *scan_quoted(CsvReader *r, int64_t *i, Scan *state) {
  const char *b = r->buffer;
  int64_t open = *i, k = open + 1;
  for (; k < r->filled; k++) {
    if (b[k] == 0) return bad_byte(r, k, "a NUL byte: this is no text file");
    if (b[k] != '"') continue;
    if (k + 1 == r->filled && !r->ended) break;
    if (k + 1 < r->filled && b[k + 1] == '"')
      k++;
    else
      goto closed;
  }
  if (r->ended) return bad_byte(r, open, "the quote that opens here is never closed");
  *state = SCAN_more;
  return NULL;
closed:
  DDP_TRY(cell_add(r, open + 1, k, true));
  for (k++; k < r->filled && is_blank(b[k]); k++) {
  }
  *i = k;
  if (k < r->filled && b[k] != ',' && b[k] != '\n' && b[k] != '\r') {
    return bad_byte(r, k,
                    "text between a closing quote and the next comma; quotes inside a quoted "
                    "cell are doubled");
  }
  return NULL;
}

/* Bytes that end an unquoted cell. */
static const bool ends_cell[256] = {[0] = true, [','] = true, ['\n'] = true, ['\r'] = true};

/* The record at `at`, if the buffer holds all of it. */
static DdpError *scan(CsvReader *r, Scan *state, int64_t *next) {
  const char *b = r->buffer;
  int64_t i = r->at, n = r->filled;
  r->n_cells = 0;
  r->quotes = false;
  *state = SCAN_done;
  for (;;) {
    int64_t from = i;
    bool quoted = false;
    while (i < n && is_blank(b[i])) i++;
    if (i < n && b[i] == '"') {
      quoted = r->quotes = true;
      DDP_TRY(scan_quoted(r, &i, state));
      if (*state != SCAN_done) return NULL;
    } else {
      while (i < n && !ends_cell[(unsigned char)b[i]]) i++;
    }
    if (i == n && !r->ended) {
      *state = SCAN_more;
      return NULL;
    }
    if (i < n && b[i] == 0) return bad_byte(r, i, "a NUL byte: this is no text file");
    if (!quoted) DDP_TRY(cell_add(r, from, i, false));
    if (i < n && b[i] == ',') {
      i++;
      continue;
    }
    if (i < n && b[i] == '\r') {
      if (i + 1 == n && !r->ended) {
        *state = SCAN_more;
        return NULL;
      }
      i++;
      if (i < n && b[i] != '\n') {
        return bad_byte(r, i - 1,
                        "a carriage return without a line feed; convert the line ends to LF");
      }
    }
    *next = i < n ? i + 1 : n;
    return NULL;
  }
}

/* "" inside a quoted cell -> " */
static void unescape(CsvCell *cell) {
  char *w = memchr(cell->text, '"', cell->n), *end = cell->text + cell->n;
  if (!w) return;
  for (char *p = w; p < end; p++) {
    *w++ = *p;
    if (*p == '"') p++;
  }
  cell->n = (size_t)(w - cell->text);
}

DdpError *csv_next(CsvReader *r, CsvCell **cells, int64_t *n) {
  Scan state = SCAN_more;
  int64_t next = r->at;
  while (state == SCAN_more) {
    if (r->at == r->filled && r->ended) {
      *n = 0;
      return NULL;
    }
    DDP_TRY(scan(r, &state, &next));
    if (state == SCAN_more) DDP_TRY(refill(r));
  }
  r->begin = r->at;
  r->at = next;
  r->line = r->next_line;
  r->next_line += lines_before(r, r->begin, next);
  r->record++;
  for (int64_t i = 0; i < r->n_cells && r->quotes; i++) {
    if (r->cells[i].quoted) unescape(&r->cells[i]);
  }
  *cells = r->cells;
  *n = r->n_cells;
  return NULL;
}

int64_t csv_line(const CsvReader *r) {
  return r->line;
}

int64_t csv_record_number(const CsvReader *r) {
  return r->record;
}

void csv_place(const CsvReader *r, const CsvCell *cell, int64_t *line, int64_t *character) {
  int64_t at = cell->text - r->buffer, start = r->begin;
  *line = r->line;
  for (int64_t i = r->begin; i < at; i++) {
    if (r->buffer[i] != '\n') continue;
    ++*line;
    start = i + 1;
  }
  *character = at - start + 1;
}

void csv_close(CsvReader *r) {
  if (!r) return;
  ddp_stream_close(r->in);
  free(r->cells);
  free(r->buffer);
  free(r->path);
  free(r);
}
