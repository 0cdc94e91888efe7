/* Zip files. In: a path. Out: bytes of members. The list at the end of the file is read as a whole and every
   number of it is compared with the size of the file before it is believed. */
#include "zip.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { END = 22, TAIL = END + 65535, ENTRY = 46, LOCAL = 30, PIECE = 1 << 16, END64 = 56 };
enum { INFLATE_AT_MOST = 1040, MOST_LIST = 1 << 26 };

struct DdpZip {
  char *path;
  int fd;
  int64_t size;
  unsigned char *list;
  int64_t list_bytes, entries;
  char *names;
  /* the member that is being read */
  z_stream inflate;
  bool inflating, deflated;
  int64_t at, left;     /* of its bytes in the file */
  int64_t bytes, given; /* of it as it is read */
  int64_t limit;        /* of bytes, by what lies in the file */
  uint32_t crc, wanted;
  unsigned char piece[PIECE];
};

static uint64_t number(const unsigned char *p, int n) {
  uint64_t v = 0;
  for (int i = n; i-- > 0;) v = v << 8 | p[i];
  return v;
}

static DdpError *damaged(const DdpZip *z, const char *what) {
  return ddp_error(DDP_DATA, "%s: the zip file is damaged: %s", z->path, what);
}

static DdpError *read_at(const DdpZip *z, void *into, int64_t n, int64_t at) {
  if (at < 0 || n < 0 || at > z->size - n) return damaged(z, "it ends too early");
  for (int64_t done = 0; done < n;) {
    ssize_t got = pread(z->fd, (char *)into + done, (size_t)(n - done), (off_t)(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ddp_error(DDP_DATA, "cannot read '%s': %s", z->path, strerror(errno));
    if (got == 0) return damaged(z, "it ends too early");
    done += got;
  }
  return NULL;
}

/* ---------- the list of members ---------- */

static DdpError *find_list(DdpZip *z, int64_t *at) {
  int64_t n = z->size < TAIL ? z->size : TAIL;
  unsigned char *tail = malloc((size_t)n + 1);
  if (!tail) return ddp_error(DDP_MEMORY, "out of memory");
  DdpError *error = read_at(z, tail, n, z->size - n);
  int64_t k = n - END;
  while (!error && k >= 0 && memcmp(tail + k, "PK\5\6", 4) != 0) k--;
  if (!error && k < 0)
    error =
        ddp_error(DDP_DATA, "%s: no zip file: the end of its list of members is missing", z->path);
  if (!error) {
    z->entries = (int64_t)number(tail + k + 10, 2);
    z->list_bytes = (int64_t)number(tail + k + 12, 4);
    *at = (int64_t)number(tail + k + 16, 4);
  }
  bool large = !error && (*at == 0xffffffff || z->entries == 0xffff) && k >= 20 &&
               !memcmp(tail + k - 20, "PK\6\7", 4);
  int64_t end64 = large ? (int64_t)number(tail + k - 12, 8) : 0;
  free(tail);
  if (!large) return error;
  unsigned char e[END64];
  DDP_TRY(read_at(z, e, END64, end64));
  if (memcmp(e, "PK\6\6", 4) != 0) return damaged(z, "its 64-bit end is missing");
  z->entries = (int64_t)number(e + 32, 8);
  z->list_bytes = (int64_t)number(e + 40, 8);
  *at = (int64_t)number(e + 48, 8);
  return NULL;
}

/* Bytes of the entry at `at` of the list; 0: it is none. */
static int64_t entry_bytes(const DdpZip *z, int64_t at) {
  const unsigned char *e = z->list + at;
  if (at > z->list_bytes - ENTRY || memcmp(e, "PK\1\2", 4) != 0) return 0;
  int64_t n = ENTRY + (int64_t)(number(e + 28, 2) + number(e + 30, 2) + number(e + 32, 2));
  return at <= z->list_bytes - n ? n : 0;
}

static DdpError *collect_names(DdpZip *z) {
  size_t used = 0;
  z->names = calloc(1, (size_t)z->list_bytes + 1);
  if (!z->names) return ddp_error(DDP_MEMORY, "out of memory");
  int64_t at = 0, k = 0;
  for (int64_t n; k < z->entries && (n = entry_bytes(z, at)) > 0; k++, at += n) {
    size_t length = (size_t)number(z->list + at + 28, 2);
    if (used) used += (size_t)(stpcpy(z->names + used, ", ") - (z->names + used));
    memcpy(z->names + used, z->list + at + ENTRY, length);
    used += length;
  }
  return k == z->entries ? NULL : damaged(z, "its list of members is cut off");
}

static DdpError *open_zip(DdpZip *z) {
  struct stat st;
  int64_t at = 0;
  z->fd = open(z->path, O_RDONLY | O_CLOEXEC);
  if (z->fd < 0 || fstat(z->fd, &st) != 0)
    return ddp_error(DDP_DATA, "cannot read data file '%s': %s", z->path, strerror(errno));
  z->size = (int64_t)st.st_size;
  if (z->size < END) return ddp_error(DDP_DATA, "%s: no zip file: too short", z->path);
  DDP_TRY(find_list(z, &at));
  if (z->list_bytes < 0 || z->list_bytes > MOST_LIST) return damaged(z, "its list is too long");
  if (z->list_bytes > z->size) return damaged(z, "its list is longer than the file");
  z->list = malloc((size_t)z->list_bytes + 1);
  if (!z->list) return ddp_error(DDP_MEMORY, "out of memory");
  DDP_TRY(read_at(z, z->list, z->list_bytes, at));
  return collect_names(z);
}

DdpError *ddp_zip_open(DdpZip **out, const char *path) {
  DdpZip *z = *out = calloc(1, sizeof *z);
  if (z) z->path = strdup(path);
  if (z) z->fd = -1;
  DdpError *error = z && z->path ? open_zip(z) : ddp_error(DDP_MEMORY, "out of memory");
  if (!error) return NULL;
  ddp_zip_close(z);
  *out = NULL;
  return error;
}

/* ---------- a member ---------- */

/* Sizes that do not fit into 32 bits stand in an extra field, in this order. */
static bool wide_sizes(const unsigned char *e, int64_t *bytes, int64_t *packed, int64_t *local) {
  int64_t *want[] = {bytes, packed, local};
  const unsigned char *x = e + ENTRY + number(e + 28, 2), *end = x + number(e + 30, 2);
  while (end - x >= 4 && number(x, 2) != 1) {
    size_t n = 4 + (size_t)number(x + 2, 2);
    if ((size_t)(end - x) < n) return false;
    x += n;
  }
  if (end - x >= 4) {
    size_t n = (size_t)number(x + 2, 2);
    if ((size_t)(end - x - 4) < n) return false;
    end = x + 4 + n;
    x += 4;
  }
  for (int i = 0; i < 3; i++) {
    if (*want[i] != 0xffffffff) continue;
    if (end - x < 8) return false;
    *want[i] = (int64_t)number(x, 8);
    x += 8;
  }
  return *bytes >= 0 && *packed >= 0 && *local >= 0;
}

static DdpError *start(DdpZip *z, const unsigned char *e) {
  unsigned char head[LOCAL];
  int64_t packed = (int64_t)number(e + 20, 4), local = (int64_t)number(e + 42, 4);
  uint64_t flags = number(e + 8, 2), method = number(e + 10, 2);
  z->bytes = (int64_t)number(e + 24, 4);
  if (!wide_sizes(e, &z->bytes, &packed, &local)) return damaged(z, "a member's sizes are missing");
  if ((flags & 1) || (method != 0 && method != 8))
    return ddp_error(DDP_DATA, "%s: a member is %s; stored and deflated ones are read", z->path,
                     flags & 1 ? "encrypted" : "packed in another way");
  DDP_TRY(read_at(z, head, LOCAL, local));
  if (memcmp(head, "PK\3\4", 4) != 0) return damaged(z, "a member does not begin where it should");
  z->at = local + LOCAL + (int64_t)(number(head + 26, 2) + number(head + 28, 2));
  z->left = packed;
  z->deflated = method == 8;
  z->wanted = (uint32_t)number(e + 16, 4);
  z->crc = (uint32_t)crc32(0, NULL, 0);
  z->given = 0;
  z->limit =
      z->deflated && z->bytes / INFLATE_AT_MOST > packed ? packed * INFLATE_AT_MOST : z->bytes;
  if (z->left > z->size || z->at > z->size - z->left) return damaged(z, "it ends too early");
  if (!z->deflated && z->bytes != packed) return damaged(z, "a stored member has two sizes");
  if (z->inflating) inflateEnd(&z->inflate);
  z->inflate = (z_stream){0};
  z->inflating = z->deflated && inflateInit2(&z->inflate, -MAX_WBITS) == Z_OK;
  return !z->deflated || z->inflating ? NULL : ddp_error(DDP_MEMORY, "out of memory");
}

DdpError *ddp_zip_member(DdpZip *z, const char *name, bool *found) {
  size_t length = strlen(name);
  *found = false;
  int64_t at = 0;
  for (int64_t n; (n = entry_bytes(z, at)) > 0; at += n) {
    const unsigned char *e = z->list + at;
    if (number(e + 28, 2) != length || memcmp(e + ENTRY, name, length) != 0) continue;
    *found = true;
    return start(z, e);
  }
  return NULL;
}

static DdpError *next_piece(DdpZip *z) {
  int64_t n = z->left < PIECE ? z->left : PIECE;
  if (n == 0) return damaged(z, "a member ends too early");
  DDP_TRY(read_at(z, z->piece, n, z->at));
  z->at += n;
  z->left -= n;
  z->inflate.next_in = z->piece;
  z->inflate.avail_in = (unsigned)n;
  return NULL;
}

static DdpError *inflate_some(DdpZip *z, void *into, int64_t n) {
  z->inflate.next_out = into;
  z->inflate.avail_out = (unsigned)n;
  while (z->inflate.avail_out) {
    if (!z->inflate.avail_in) DDP_TRY(next_piece(z));
    int code = inflate(&z->inflate, Z_NO_FLUSH);
    if (code == Z_STREAM_END && !z->inflate.avail_out) break;
    if (code != Z_OK) return damaged(z, "a member cannot be unpacked");
  }
  return NULL;
}

DdpError *ddp_zip_read(DdpZip *z, void *into, int64_t n, int64_t *got) {
  if (n > z->bytes - z->given) n = z->bytes - z->given;
  if (n > 1 << 30) n = 1 << 30;
  *got = n;
  if (n == 0) return NULL;
  if (z->deflated) {
    DDP_TRY(inflate_some(z, into, n));
  } else {
    DDP_TRY(read_at(z, into, n, z->at));
    z->at += n;
  }
  z->given += n;
  z->crc = (uint32_t)crc32(z->crc, into, (unsigned)n);
  bool right = z->given < z->bytes || z->crc == z->wanted;
  return right ? NULL : damaged(z, "the checksum of a member is wrong");
}

int64_t ddp_zip_limit(const DdpZip *z) {
  return z->limit;
}

const char *ddp_zip_names(const DdpZip *z) {
  return z->names;
}

void ddp_zip_close(DdpZip *z) {
  if (!z) return;
  if (z->inflating) inflateEnd(&z->inflate);
  if (z->fd >= 0) close(z->fd);
  free(z->path);
  free(z->list);
  free(z->names);
  free(z);
}
