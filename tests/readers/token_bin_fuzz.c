/* Token files of any bytes: tokens within the field's range, or an error. */
#include "fuzz.h"
#include "tokens.h"
#include <stdlib.h>
#include <string.h>

/* 20240520, version 1, two tokens, then the rest of the header. */
#define ZEROS_63                                                                                   \
  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"           \
  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define ZEROS_252  ZEROS_63 ZEROS_63 ZEROS_63 ZEROS_63
#define ZEROS_1012 ZEROS_252 ZEROS_252 ZEROS_252 ZEROS_252 "\0\0\0\0"
const FuzzSeed fuzz_seeds[] = {
    FUZZ_SEED("\x01\x00\x02\x00\xff\x00"),
    FUZZ_SEED("\x98\xd8\x34\x01\x01\0\0\0\x02\0\0\0" ZEROS_1012 "\x05\0\x06\0"),
    {NULL, 0}};

static const DdpField field = {.name = "t",
                               .dtype = DDP_i32,
                               .rank = 1,
                               .elements = 1,
                               .has_range = true,
                               .low = 0,
                               .high = 1000};

static void read_all(const DdpTokenFile *f) {
  DdpTokenPart part = {f, 0, f->n};
  const DdpTokenRow row = {&part, 1, f->n};
  uint64_t hash = 0;
  int32_t *to = malloc((size_t)f->n * 4 + 4);
  if (!to || ddp_token_file_hash(f, &hash)) abort();
  DdpError *e = ddp_token_row_copy(&row, 0, f->n, &field, to);
  for (int64_t i = 0; !e && i < f->n; i++) {
    if (to[i] < 0 || to[i] >= 1000) abort();
  }
  ddp_error_free(e);
  free(to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  for (int way = 0; way < 3; way++) {
    const DdpSource source = {.width = way == 2 ? 4 : 2, .header = way == 1};
    DdpTokenFile f;
    DdpError *e = ddp_token_bin_open(&f, fuzz_file(data, n), &source, &field);
    if (!e) read_all(&f);
    ddp_error_free(e);
    ddp_token_file_close(&f);
    fuzz_file_close();
  }
  return 0;
}
