/* numpy's arrays and zip files of any bytes: rows or an error, every value in its field's range. */
#include "fuzz.h"
#include "npy.h"
#include <stdlib.h>
#include <string.h>

#define ARRAY                                                                                      \
  "\x93NUMPY\1\0\x3b\0{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }"                 \
  "\1\0\2\0\3\0\4\0\5\0\6\0"
const FuzzSeed fuzz_seeds[] = {
    FUZZ_SEED(ARRAY),
    FUZZ_SEED("\x93NUMPY\2\0\x3b\0\0\0{'descr': '>u4', 'fortran_order': False, 'shape': (1, 3), }"
              "\0\0\0\1\0\0\0\2\0\0\0\3"),
    /* a zip file with v.npy, stored: 81 bytes */
    FUZZ_SEED("PK\3\4\x14\0\0\0\0\0\0\0\0\0\x23\x95\x73\x7c\x51\0\0\0\x51\0\0\0\5\0\0\0v.npy" ARRAY
              "PK\1\2\x14\0\x14\0\0\0\0\0\0\0\0\0\x23\x95\x73\x7c\x51\0\0\0\x51\0\0\0\5\0\0\0\0\0"
              "\0\0\0\0\0\0\0\0\0\0\0\0v.npy"
              "PK\5\6\0\0\0\0\1\0\1\0\x33\0\0\0\x74\0\0\0\0\0"),
    {NULL, 0}};

static const DdpField field = {.name = "v",
                               .dtype = DDP_i32,
                               .rank = 1,
                               .shape = {3},
                               .elements = 3,
                               .has_range = true,
                               .low = 1,
                               .high = 7,
                               .used = true};

static void check(DdpTable *t, DdpError *e) {
  if (!e) e = ddp_table_finish(t);
  for (int64_t k = 0; !e && k < 3 * t->rows; k++) {
    int32_t v = ((int32_t *)(void *)t->columns[0])[k];
    if (v < 1 || v > 6) abort();
  }
  ddp_error_free(e);
  ddp_table_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const names[] = {"v", NULL};
  char path[64];
  DdpTable *t;
  strncpy(path, fuzz_file(data, n), sizeof path - 1);
  path[sizeof path - 1] = 0;
  char *paths[] = {path, NULL};
  if (ddp_table_open(&t, &field, 1)) abort();
  check(t, ddp_npy_read(t, paths, names));
  if (ddp_table_open(&t, &field, 1)) abort();
  check(t, ddp_npz_read(t, path));
  fuzz_file_close();
  return 0;
}
