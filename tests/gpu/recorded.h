/* Cases of the op table in a file: tests/emit/op_test.c writes them, replay.c reads them on a machine with a GPU. One after
   another: RecordedCase, the fields' bytes, chunks of the arena of parameters and of that of buffers (each until one at -1),
   then the numbers that must come out and how far each may be off, `elements` doubles each. */
#ifndef TESTS_RECORDED_H
#define TESTS_RECORDED_H
#include "ddp/job.h"

enum { RECORDED_FIELDS = 64, RECORDED_SAMPLES = 64 };

typedef struct RecordedCase {
  char name[64];
  int32_t graph, dtype; /* dtype: of what comes out */
  int64_t batch, elements;
  int64_t output; /* bytes from the start of the buffers */
  int64_t arena_bytes, block_bytes;
  int64_t field_bytes[RECORDED_FIELDS]; /* 0: no such field */
  int64_t sample[RECORDED_SAMPLES], row[RECORDED_SAMPLES];
  DdpScalars scalars;
} RecordedCase;

typedef struct RecordedChunk {
  int64_t offset;
  unsigned char data[256];
} RecordedChunk;
#endif
