/* In: fields. Out: frames, and back. Holds: a reader never leaves its payload. */
#include "wire.h"
#include "net.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t magic = 0x31504444; /* "DDP1" on the wire of a little-endian host */

static void put(DdpBytes *b, const void *data, size_t n) {
  if (b->size + n > b->capacity) {
    b->capacity = (b->size + n) * 2 + 64;
    b->data = realloc(b->data, b->capacity);
    if (!b->data) abort();
  }
  if (n) memcpy(b->data + b->size, data, n);
  b->size += n;
}

void ddp_bytes_frame(DdpBytes *b, DdpFrameType type, int rank) {
  *b = (DdpBytes){0};
  DdpFrame f = {.magic = magic, .type = (uint32_t)type, .rank = rank};
  put(b, &f, sizeof f);
}
void ddp_bytes_u32(DdpBytes *b, uint32_t v) {
  put(b, &v, sizeof v);
}
void ddp_bytes_u64(DdpBytes *b, uint64_t v) {
  put(b, &v, sizeof v);
}
void ddp_bytes_block(DdpBytes *b, const void *data, size_t n) {
  ddp_bytes_u32(b, (uint32_t)n);
  put(b, data, n);
}
void ddp_bytes_text(DdpBytes *b, const char *text) {
  ddp_bytes_block(b, text ? text : "", text ? strlen(text) : 0);
}

int ddp_bytes_send(DdpBytes *b, int fd, double deadline) {
  uint32_t length = (uint32_t)(b->size - sizeof(DdpFrame));
  memcpy(b->data + offsetof(DdpFrame, length), &length, sizeof length);
  int rc = ddp_net_send(fd, b->data, b->size, deadline);
  int e = errno;
  ddp_bytes_free(b);
  errno = e;
  return rc;
}

void ddp_bytes_free(DdpBytes *b) {
  free(b->data);
  *b = (DdpBytes){0};
}

static const void *take(DdpReader *r, size_t n) {
  if (r->bad || (size_t)(r->end - r->at) < n) {
    r->bad = true;
    return NULL;
  }
  const void *p = r->at;
  r->at += n;
  return p;
}

uint32_t ddp_read_u32(DdpReader *r) {
  uint32_t v = 0;
  const void *p = take(r, sizeof v);
  if (p) memcpy(&v, p, sizeof v);
  return v;
}

uint64_t ddp_read_u64(DdpReader *r) {
  uint64_t v = 0;
  const void *p = take(r, sizeof v);
  if (p) memcpy(&v, p, sizeof v);
  return v;
}

const void *ddp_read_block(DdpReader *r, size_t *n) {
  *n = ddp_read_u32(r);
  const void *p = take(r, *n);
  if (!p) *n = 0;
  return p;
}

void ddp_read_text(DdpReader *r, char *out, size_t size) {
  size_t n;
  const void *p = ddp_read_block(r, &n);
  if (n >= size) n = size - 1;
  if (p) memcpy(out, p, n);
  out[n] = 0;
}

char *ddp_read_text_new(DdpReader *r) {
  size_t n;
  const void *p = ddp_read_block(r, &n);
  char *s = malloc(n + 1);
  if (!s) abort();
  if (p) memcpy(s, p, n);
  s[n] = 0;
  return s;
}

bool ddp_frame_valid(const DdpFrame *f) {
  return f->magic == magic && f->length <= DDP_WIRE_LIMIT;
}

int ddp_frame_recv(int fd, DdpFrame *f, char **payload, double deadline) {
  *payload = NULL;
  if (ddp_net_recv(fd, f, sizeof *f, deadline)) return -1;
  if (!ddp_frame_valid(f)) {
    errno = EPROTO;
    return -1;
  }
  char *p = malloc((size_t)f->length + 1);
  if (!p) return -1;
  p[f->length] = 0;
  if (ddp_net_recv(fd, p, f->length, deadline)) {
    int e = errno;
    free(p);
    errno = e;
    return -1;
  }
  *payload = p;
  return 0;
}
