/* Texts of any bytes: a vocabulary that numbers every character of them, or an error. */
#include "fuzz.h"
#include "tokens.h"
#include <stdlib.h>
#include <string.h>

const FuzzSeed fuzz_seeds[] = {
    FUZZ_SEED("First Citizen:\nBefore we proceed\n"),
    FUZZ_SEED("\xef\xbb\xbf\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 a\r\n"),
    FUZZ_SEED("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x33\xd4\x31\xd2\x31\xd0\x49\xe4\x02\x00\xc3"
              "\x94\x8e\xd4\x08\x00\x00\x00"),
    {NULL, 0}};

static void check(const char *path, const uint32_t *found, int32_t n) {
  static char texts[64][5];
  const char *categories[65] = {NULL};
  for (int32_t i = 0; i < n && i < 64; i++) {
    if (found[i] > 127) return;
    texts[i][0] = (char)found[i];
    categories[i] = texts[i];
  }
  const DdpField f = {
      .name = "c", .dtype = DDP_u8, .rank = 1, .elements = 1, .categories = categories};
  DdpTokenFile file;
  DdpError *e = ddp_text_open(&file, path, &f);
  if (n < 64 && e) abort();
  for (int64_t i = 0; !e && i < file.n; i++) {
    if (file.ids[i] >= n) abort();
  }
  ddp_error_free(e);
  ddp_token_file_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  char path[64];
  strncpy(path, fuzz_file(data, n), sizeof path - 1);
  path[sizeof path - 1] = 0;
  const char *paths[] = {path};
  uint32_t *found = NULL;
  int32_t count;
  DdpError *e = ddp_text_vocabulary(paths, 1, &found, &count);
  if (!e) check(path, found, count);
  free(found);
  ddp_error_free(e);
  fuzz_file_close();
  return 0;
}
