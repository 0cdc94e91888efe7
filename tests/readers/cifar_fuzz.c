/* CIFAR's files of any bytes: whole records with labels in range, or an error. */
#include "cifar.h"
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>

/* Records shorter than real ones are errors; the whole one is made of the first byte. */
const FuzzSeed fuzz_seeds[] = {FUZZ_SEED("\1"), FUZZ_SEED("\2 some bytes of a record"), {NULL, 0}};

static const DdpField fields[] = {{.name = "label",
                                   .dtype = DDP_u8,
                                   .elements = 1,
                                   .has_range = true,
                                   .low = 0,
                                   .high = 10,
                                   .used = true},
                                  {.name = "image",
                                   .dtype = DDP_u8,
                                   .rank = 3,
                                   .shape = {3, 32, 32},
                                   .elements = 3072,
                                   .used = true}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const char *const ten[] = {"label", NULL};
  static const DdpSource ways[] = {{.fields = ten}, {.fields = NULL}};
  static uint8_t whole[3073 * 2 + 64];
  size_t length = n && data[0] & 1 ? 3073 + n % 64 * (n % 3 > 0) : n;
  for (size_t i = 0; n && i < length; i++) whole[i] = data[i % n];
  for (int i = 0; i < 2; i++) {
    DdpTable *t;
    if (ddp_table_open(&t, fields, 2)) abort();
    DdpError *e = ddp_cifar_read(t, fuzz_file(whole, length), &ways[i]);
    if (!e && length % 3073 && length % 3074) abort();
    for (int64_t k = 0; !e && i == 0 && k < t->rows; k++) {
      if (t->columns[0][k] > 9) abort();
    }
    ddp_error_free(e);
    ddp_table_free(t);
    fuzz_file_close();
  }
  return 0;
}
