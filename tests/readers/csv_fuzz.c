/* The CSV reader on any bytes: rows or an error, and every value stored lies in its field's range. */
#include "csv.h"
#include "fuzz.h"
#include <math.h>
#include <stdlib.h>

const FuzzSeed fuzz_seeds[] = {
    FUZZ_SEED("1,2,0,a\n3.5,-4,2,b\n"),
    FUZZ_SEED("x,y,label,kind\r\n1e3,2,1,\"a\"\r\n\"3\",4,2,\"b\"\r\n"),
    FUZZ_SEED("\xef\xbb\xbfkind,x,label,y\n\"b\",1,0,\"2\"\n?,1,2,3\n\n"),
    FUZZ_SEED("# two\n# lines\n\"1\n\",\"2\",0,\"a\"\"\"\n"),
    /* "1,2,0,a\n" with gzip */
    FUZZ_SEED("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x33\xd4\x31\xd2\x31\xd0\x49\xe4\x02\x00\xc3"
              "\x94\x8e\xd4\x08\x00\x00\x00"),
    {NULL, 0}};

static const char *const kinds[] = {"a", "b", NULL};
static const DdpField fields[] = {
    {.name = "x", .dtype = DDP_f32, .elements = 1, .used = true},
    {.name = "y", .dtype = DDP_i64, .elements = 1, .used = true},
    {.name = "label",
     .dtype = DDP_u8,
     .elements = 1,
     .has_range = true,
     .low = 0,
     .high = 3,
     .used = true},
    {.name = "kind", .dtype = DDP_i32, .elements = 1, .categories = kinds, .used = true},
};

static const DdpField with_text[] = {
    {.name = "x",
     .dtype = DDP_u8,
     .rank = 1,
     .shape = {3},
     .elements = 3,
     .text = true,
     .used = true},
    {.name = "y", .dtype = DDP_f32, .rank = 1, .shape = {3}, .elements = 3, .used = true}};

static void read_texts(const uint8_t *data, size_t n) {
  static const DdpSource source = {.header = false};
  DdpTable *t;
  if (ddp_table_open(&t, with_text, 2)) abort();
  ddp_error_free(ddp_csv_read(t, fuzz_file(data, n), &source));
  ddp_table_free(t);
  fuzz_file_close();
}

static void check(const DdpTable *t) {
  for (int64_t i = 0; i < t->rows; i++) {
    float x = ((const float *)(const void *)t->columns[0])[i];
    uint8_t label = ((const uint8_t *)t->columns[2])[i];
    int32_t kind = ((const int32_t *)(const void *)t->columns[3])[i];
    if (!isfinite(x) || label > 2 || kind < 0 || kind > 1) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const DdpSource ways[] = {
      {.header = false}, {.header = true, .missing = "?"}, {.skip = 2}};
  for (int i = 0; i < 3; i++) {
    DdpTable *t;
    DdpError *e = ddp_table_open(&t, fields, 4);
    if (e) abort();
    e = ddp_csv_read(t, fuzz_file(data, n), &ways[i]);
    if (!e) e = ddp_table_finish(t);
    if (!e) check(t);
    ddp_error_free(e);
    ddp_table_free(t);
    fuzz_file_close();
  }
  read_texts(data, n);
  return 0;
}
