/* Rows of tokens. In: open files. Out: any run of a row as checked values of a field. A row is a list of
   parts of files; slices and concatenations are such lists too, and copy nothing. */
#include "tokens.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { PIECE = 1 << 14 }; /* bytes read at once */

void ddp_token_file_close(DdpTokenFile *f) {
  if (f->fd >= 0) close(f->fd);
  free(f->path);
  free(f->ids);
  *f = (DdpTokenFile){.fd = -1};
}

/* Bytes of n tokens of a file. */
static DdpError *read_tokens(const DdpTokenFile *f, int64_t start, int64_t n, unsigned char *into) {
  size_t bytes = (size_t)(n * f->width), done = 0;
  if (f->ids) {
    memcpy(into, f->ids + start * f->width, bytes);
    return NULL;
  }
  while (done < bytes) {
    int64_t at = f->offset + start * f->width + (int64_t)done;
    ssize_t got = pread(f->fd, into + done, bytes - done, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return ddp_error(DDP_DATA, "cannot read data file '%s': %s", f->path, strerror(errno));
    if (got == 0)
      return ddp_error(DDP_DATA,
                       "data file '%s' has become shorter since the start: it ends at byte %lld of "
                       "%lld",
                       f->path, (long long)at, (long long)(f->offset + f->n * f->width));
    done += (size_t)got;
  }
  return NULL;
}

static DdpError *hash_piece(const DdpTokenFile *f, int64_t start, uint64_t *hash) {
  unsigned char bytes[PIECE];
  int64_t per = PIECE / f->width, n = f->n - start < per ? f->n - start : per;
  DDP_TRY(read_tokens(f, start, n, bytes));
  *hash = XXH64(bytes, (size_t)(n * f->width), *hash);
  return NULL;
}

DdpError *ddp_token_file_hash(const DdpTokenFile *f, uint64_t *hash) {
  enum { PIECES = 4096 }; /* 64 MiB at most, spread evenly, and the end */
  int64_t per = PIECE / f->width, pieces = (f->n + per - 1) / per, step = 1 + pieces / PIECES;
  *hash = XXH64(&f->n, sizeof f->n, *hash);
  for (int64_t k = 0; k < pieces; k += step) DDP_TRY(hash_piece(f, k * per, hash));
  if (pieces > 0 && (pieces - 1) % step) DDP_TRY(hash_piece(f, (pieces - 1) * per, hash));
  return NULL;
}

/* ---------- rows ---------- */

static DdpError *row_alloc(DdpTokenRow *row, int32_t parts) {
  *row = (DdpTokenRow){.part = malloc(((size_t)parts + 1) * sizeof *row->part)};
  return row->part ? NULL : ddp_error(DDP_MEMORY, "out of memory");
}

static void row_push(DdpTokenRow *row, DdpTokenPart part) {
  if (part.n <= 0) return;
  row->part[row->parts++] = part;
  row->n += part.n;
}

DdpError *ddp_token_row_slice(const DdpTokenRow *row, int64_t start, int64_t stop,
                              DdpTokenRow *out) {
  DDP_TRY(row_alloc(out, row->parts));
  int64_t before = 0;
  for (int32_t i = 0; i < row->parts; i++) {
    DdpTokenPart p = row->part[i];
    int64_t from = start > before ? start - before : 0, to = stop - before;
    if (to > p.n) to = p.n;
    before += p.n;
    p.start += from;
    p.n = to - from;
    row_push(out, p);
  }
  return NULL;
}

DdpError *ddp_token_row_join(const DdpTokenRow *const *rows, int32_t n, DdpTokenRow *out) {
  int32_t parts = 0;
  for (int32_t i = 0; i < n; i++) parts += rows[i]->parts;
  DDP_TRY(row_alloc(out, parts));
  for (int32_t i = 0; i < n; i++) {
    for (int32_t k = 0; k < rows[i]->parts; k++) row_push(out, rows[i]->part[k]);
  }
  return NULL;
}

void ddp_token_row_free(DdpTokenRow *row) {
  free(row->part);
  *row = (DdpTokenRow){0};
}

/* ---------- values ---------- */

static uint32_t token_at(const unsigned char *p, int width) {
  uint32_t v = p[0];
  if (width > 1) v |= (uint32_t)p[1] << 8;
  if (width > 2) v |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
  return v;
}

/* Several are out of range, and all would fit with their bytes swapped. */
static bool other_order(int width, const unsigned char *bytes, int64_t n, const DdpField *field) {
  int wrong = 0;
  for (int64_t i = 0; width > 1 && i < n; i++) {
    uint32_t v = token_at(bytes + i * width, width);
    uint32_t swapped = width == 2 ? __builtin_bswap16((uint16_t)v) : __builtin_bswap32(v);
    if ((double)swapped >= field->high) return false;
    wrong += (double)v >= field->high;
  }
  return wrong > 1 && field->has_range;
}

static DdpError *store_tokens(const DdpTokenFile *f, int64_t start, int64_t n,
                              const unsigned char *bytes, const DdpField *field, char *into) {
  int64_t size = ddp_dtype_bytes(field->dtype);
  for (int64_t i = 0; i < n; i++) {
    uint32_t v = token_at(bytes + i * f->width, f->width);
    DdpWhy why;
    if (ddp_field_store_int(field, into + i * size, (int64_t)v, &why)) continue;
    const char *hint = other_order(f->width, bytes, n, field) ? " (is the file big-endian?)" : "";
    return ddp_error(DDP_DATA, "%s: token %lld (from 0): %u is not %s%s%s%s%s", f->path,
                     (long long)(start + i), v, why.text, hint, field->place ? " (" : "",
                     field->place ? field->place : "", field->place ? ")" : "");
  }
  return NULL;
}

static DdpError *copy_part(const DdpTokenPart *p, int64_t from, int64_t n, const DdpField *field,
                           char *into) {
  unsigned char bytes[PIECE];
  int64_t size = ddp_dtype_bytes(field->dtype), per = PIECE / p->file->width;
  for (int64_t done = 0; done < n;) {
    int64_t k = n - done < per ? n - done : per, start = p->start + from + done;
    DDP_TRY(read_tokens(p->file, start, k, bytes));
    DDP_TRY(store_tokens(p->file, start, k, bytes, field, into + done * size));
    done += k;
  }
  return NULL;
}

DdpError *ddp_token_row_copy(const DdpTokenRow *row, int64_t start, int64_t n, const DdpField *f,
                             void *into) {
  char *to = into;
  for (int32_t i = 0; i < row->parts && n > 0; i++) {
    const DdpTokenPart *p = &row->part[i];
    if (start >= p->n) {
      start -= p->n;
      continue;
    }
    int64_t k = p->n - start < n ? p->n - start : n;
    DDP_TRY(copy_part(p, start, k, f, to));
    to += k * ddp_dtype_bytes(f->dtype);
    n -= k;
    start = 0;
  }
  return NULL;
}
