/* One product of the stand-in, with everything that was said about it. All matrices by columns. */
#ifndef CUBLASLTSIM_PRODUCT_H
#define CUBLASLTSIM_PRODUCT_H
#include "cublasLt.h"

namespace cublasltsim {
enum : uint32_t { /* the bits of an epilogue */
                  RELU = 2,
                  BIAS = 4,
                  BGRAD = 16,
                  GELU = 32,
                  DGELU = 64,
                  AUX = 128,
                  BGRADA = 256,
                  BGRADB = 512,
};
struct Operation {
  int32_t ta = 0, tb = 0;
  uint32_t epilogue = 1;
  void *bias = nullptr, *aux = nullptr;
  int64_t aux_ld = 0;
  int32_t bias_type = -1, aux_type = -1; /* -1: that of the result */
  int compute = 0, scale = 0;
};
struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t ld;
  int32_t count;
  int64_t stride;
};
struct Product {
  Operation d;
  Layout a, b, c, y;
  const void *A, *B, *C;
  void *Y;
  float alpha, beta;
  uint64_t split;

  uint64_t m() const { return y.rows; }
  uint64_t n() const { return y.columns; }
  uint64_t k() const { return d.ta ? a.rows : a.columns; }
  int bias_type() const { return d.bias_type < 0 ? y.type : d.bias_type; }
  int aux_type() const { return d.aux_type < 0 ? y.type : d.aux_type; }
};
inline size_t width(int type) {
  return type == CUDA_R_32F                          ? 4
         : type == CUDA_R_16F || type == CUDA_R_16BF ? 2
         : type == CUDA_R_64F                        ? 8
                                                     : 1;
}
void run(const Product &p);
} // namespace cublasltsim
#endif
