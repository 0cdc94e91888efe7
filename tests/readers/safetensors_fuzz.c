/* The safetensors reader on any bytes: a file whose tensors can all be read, or an error. */
#include "fuzz.h"
#include "safetensors.h"
#include <stdlib.h>

const FuzzSeed fuzz_seeds[] = {
    FUZZ_SEED("\x88\0\0\0\0\0\0\0{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\","
              "\"shape\":[2],\"data_offsets\":[0,8]},"
              "\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]}}    123456789"),
    FUZZ_SEED("\x38\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"
              "12345678"),
    FUZZ_SEED("\x02\0\0\0\0\0\0\0{}"),
    {NULL, 0}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static const int64_t shape[] = {2};
  DdpSafeFile *f;
  float a[2];
  DdpError *e = ddp_safetensors_open(&f, fuzz_file(data, n));
  if (!e) {
    for (int i = 0; i < ddp_safetensors_count(f); i++) {
      if (ddp_safetensors_find(f, ddp_safetensors_name(f, i)) < 0) abort();
    }
    e = ddp_safetensors_read(f, "a", DDP_f32, 1, shape, a);
    ddp_safetensors_close(f);
  }
  ddp_error_free(e);
  fuzz_file_close();
  return 0;
}
