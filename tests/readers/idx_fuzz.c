/* The idx reader on any bytes: rows or an error, every value in its field's range. */
#include "fuzz.h"
#include "idx.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const FuzzSeed fuzz_seeds[] = {
    FUZZ_SEED("\0\0\x08\x02\0\0\0\x02\0\0\0\x03\x01\x02\x03\x04\x05\x06"),
    FUZZ_SEED("\0\0\x0d\x02\0\0\0\x01\0\0\0\x03\x3f\x80\0\0\x40\0\0\0\x40\x40\0\0"),
    FUZZ_SEED(
        "\0\0\x0e\x02\0\0\0\x01\0\0\0\x03\x3f\xf0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    FUZZ_SEED("\0\0\x0c\x02\0\0\0\x01\0\0\0\x03\0\0\0\x01\0\0\0\x02\0\0\0\x03"),
    {NULL, 0}};

static const DdpField ways[] = {
    {.name = "v", .dtype = DDP_u8, .rank = 1, .shape = {3}, .elements = 3, .used = true},
    {.name = "v", .dtype = DDP_f32, .rank = 1, .shape = {3}, .elements = 3, .used = true},
    {.name = "v",
     .dtype = DDP_i64,
     .rank = 1,
     .shape = {3},
     .elements = 3,
     .has_range = true,
     .low = 1,
     .high = 7,
     .used = true},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const names[] = {"v", NULL};
  for (int i = 0; i < 3; i++) {
    DdpTable *t;
    if (ddp_table_open(&t, &ways[i], 1)) abort();
    char path[64];
    strncpy(path, fuzz_file(data, n), sizeof path - 1);
    path[sizeof path - 1] = 0;
    char *paths[] = {path, NULL};
    DdpError *e = ddp_idx_read(t, paths, names);
    if (!e) e = ddp_table_finish(t);
    for (int64_t k = 0; !e && k < 3 * t->rows; k++) {
      if (i == 1 && !isfinite(((float *)(void *)t->columns[0])[k])) abort();
      if (i == 2 &&
          (((int64_t *)(void *)t->columns[0])[k] < 1 || ((int64_t *)(void *)t->columns[0])[k] > 6))
        abort();
    }
    ddp_error_free(e);
    ddp_table_free(t);
    fuzz_file_close();
  }
  return 0;
}
