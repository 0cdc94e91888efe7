#include "dtype.h"

int64_t ddp_dtype_bytes(DdpDType dtype) {
  static const int64_t bytes[] = {
#define DTYPE(name, ctype, bytes_, category, st) bytes_,
#include "dtype.def"
  };
  return bytes[dtype];
}
