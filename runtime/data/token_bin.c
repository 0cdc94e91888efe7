/* Token files: numbers of one width, little-endian, nothing else; or llm.c's header before them. In: a
   path. Out: an open file whose length fits. Magic, version, width, byte order and length are checked
   here, values when they are read. */
#include "tokens.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 1024 }; /* 256 numbers of 32 bits: magic, version, how many tokens follow */

static const struct {
  uint32_t magic, version;
  int width;
} headers[] = {{20240520, 1, 2}, {20240801, 7, 4}};
enum { HEADERS = sizeof headers / sizeof *headers };

static uint32_t number(const unsigned char *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static DdpError *no_magic(const char *path, const unsigned char *head) {
  uint32_t magic = number(head), swapped = __builtin_bswap32(magic);
  const char *hint = "a file of tokens alone is read with `header = none`";
  for (int i = 0; i < HEADERS; i++) {
    if (headers[i].magic == swapped) hint = "it is one in big-endian order; convert it";
  }
  if (head[0] == 0x1f && head[1] == 0x8b) hint = "it is compressed: unpack it";
  return ddp_error(DDP_DATA,
                   "%s: no header of llm.c: it starts with the number %u; expected 20240520 "
                   "(uint16) or 20240801 (uint32): %s",
                   path, magic, hint);
}

static DdpError *read_header(DdpTokenFile *f, int64_t size, int64_t *promised) {
  unsigned char head[HEADER];
  ssize_t got = size < HEADER ? 0 : pread(f->fd, head, HEADER, 0);
  if (got != HEADER)
    return ddp_error(DDP_DATA, "%s: %lld bytes: shorter than the header of llm.c, %d bytes",
                     f->path, (long long)size, HEADER);
  uint32_t magic = number(head), version = number(head + 4);
  int k = 0;
  while (k < HEADERS && headers[k].magic != magic) k++;
  if (k == HEADERS) return no_magic(f->path, head);
  if (headers[k].version != version)
    return ddp_error(DDP_DATA, "%s: version %u of the header; version %u is known", f->path,
                     version, headers[k].version);
  f->width = headers[k].width;
  *promised = number(head + 8);
  return NULL;
}

static DdpError *check_length(const DdpTokenFile *f, int64_t bytes, int64_t promised) {
  if (bytes % f->width)
    return ddp_error(DDP_DATA, "%s: %lld bytes of tokens are not a multiple of %d, the size of one",
                     f->path, (long long)bytes, f->width);
  if (promised < 0 || promised == f->n) return NULL;
  return ddp_error(DDP_DATA, "%s: %s: the header promises %lld tokens, and %lld follow", f->path,
                   f->n < promised ? "truncated" : "too long", (long long)promised,
                   (long long)f->n);
}

static DdpError *open_tokens(DdpTokenFile *out, const DdpSource *source, const DdpField *f) {
  struct stat st;
  out->fd = open(out->path, O_RDONLY | O_CLOEXEC);
  if (out->fd < 0 || fstat(out->fd, &st) != 0)
    return ddp_error(DDP_DATA, "cannot read data file '%s': %s", out->path, strerror(errno));
  if (!S_ISREG(st.st_mode))
    return ddp_error(DDP_DATA, "cannot read data file '%s': it is no file", out->path);
  int64_t promised = -1, size = (int64_t)st.st_size;
  if (source->header) {
    DDP_TRY(read_header(out, size, &promised));
    out->offset = HEADER;
  }
  if (out->width != source->width)
    return ddp_error(DDP_DATA, "%s: holds uint%d tokens; field %s%s%s%s declares uint%d", out->path,
                     8 * out->width, f->name, f->place ? " (" : "", f->place ? f->place : "",
                     f->place ? ")" : "", (int)(8 * source->width));
  out->n = (size - out->offset) / out->width;
  return check_length(out, size - out->offset, promised);
}

DdpError *ddp_token_bin_open(DdpTokenFile *out, const char *path, const DdpSource *source,
                             const DdpField *f) {
  *out = (DdpTokenFile){.path = strdup(path), .fd = -1, .width = (int)source->width};
  if (!out->path) return ddp_error(DDP_MEMORY, "out of memory");
  return open_tokens(out, source, f);
}
