/* Frames between ranks: a fixed header, then a payload of typed fields. Host byte order; the magic
   number shows a host of the other order as "not a ddp program". */
#ifndef DDP_COMM_WIRE_H
#define DDP_COMM_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DDP_WIRE_VERSION = 3, DDP_WIRE_LIMIT = 16 << 20 };

typedef enum DdpFrameType {
  DDP_FRAME_banner = 1, /* listener -> dialler: version, nonce, world, job */
  DDP_FRAME_hello,      /* dialler -> listener: who I am */
  DDP_FRAME_accept,     /* the hello is right; the table follows when all ranks are in */
  DDP_FRAME_reject,     /* class, blamed rank, reason */
  DDP_FRAME_table,      /* rank 0 -> all: every rank's place */
  DDP_FRAME_set,        /* store: key, value */
  DDP_FRAME_get,        /* store: key; answered by a value as soon as there is one */
  DDP_FRAME_value,      /* store: key, value */
  DDP_FRAME_beat,       /* where I am */
  DDP_FRAME_state,      /* rank 0 -> all: where everybody is */
  DDP_FRAME_abort,      /* class, blamed rank, text */
  DDP_FRAME_bye,        /* orderly end */
} DdpFrameType;

typedef struct DdpFrame {
  uint32_t magic, type;
  int32_t rank; /* of the sender */
  uint32_t length;
} DdpFrame;

typedef struct DdpBytes { /* growing output; .data starts with room for the header */
  char *data;
  size_t size, capacity;
} DdpBytes;

typedef struct DdpReader { /* input with bounds; bad becomes true for good on overrun */
  const char *at, *end;
  bool bad;
} DdpReader;

void ddp_bytes_frame(DdpBytes *b, DdpFrameType type, int rank);
void ddp_bytes_u32(DdpBytes *b, uint32_t v);
void ddp_bytes_u64(DdpBytes *b, uint64_t v);
void ddp_bytes_block(DdpBytes *b, const void *data, size_t n); /* length, then bytes */
void ddp_bytes_text(DdpBytes *b, const char *text);
/* Sends and frees. 0, or -1 with errno. */
int ddp_bytes_send(DdpBytes *b, int fd, double deadline);
void ddp_bytes_free(DdpBytes *b);

uint32_t ddp_read_u32(DdpReader *r);
uint64_t ddp_read_u64(DdpReader *r);
const void *ddp_read_block(DdpReader *r, size_t *n);
/* Copies and cuts to the size of out. */
void ddp_read_text(DdpReader *r, char *out, size_t size);
char *ddp_read_text_new(DdpReader *r);

bool ddp_frame_valid(const DdpFrame *f);
/* Whole frame; the payload (malloc) ends with a NUL that does not count. */
int ddp_frame_recv(int fd, DdpFrame *f, char **payload, double deadline);
#endif
