/* Products of tiles in shared memory with float arithmetic, whatever the storage: what convolution and attention
   are made of. A block of 256 threads, 16 x 16 of them, has 64 x 64 results, 4 x 4 in each thread. Operands lie
   with the summed index first, [depth][64]: four neighbours are one 16-byte access. Sums run in the order of that
   index. */
#ifndef DDP_KERNELS_CUDA_TILE_H
#define DDP_KERNELS_CUDA_TILE_H
#include "ddp_cuda.h"
#include "../scratch.h"

/* Whole 16 bytes; the columns of a row that is turned lie in different banks. */
static constexpr int DDP_TILE_PITCH = DDP_TILE + 4;
static constexpr int DDP_TILE_THREADS = 256;

/* Place of the thread's results: rows 4 y .. 4 y + 3, columns 4 x .. 4 x + 3. The 16 threads of a row are half
   a warp. */
DDP_DEVICE int ddp_tile_x() {
  return (int)threadIdx.x & 15;
}
DDP_DEVICE int ddp_tile_y() {
  return (int)threadIdx.x >> 4;
}

DDP_DEVICE void ddp_tile_clear(float (&sum)[4][4]) {
#pragma unroll
  for (int r = 0; r < 4; r++)
#pragma unroll
    for (int c = 0; c < 4; c++) sum[r][c] = 0.0f;
}

/* sum[r][c] += a[k][4 y + r] * b[k][4 x + c] over k < depth */
DDP_DEVICE void ddp_tile_product(float (&sum)[4][4], const float *a, const float *b, int depth) {
  a += 4 * ddp_tile_y();
  b += 4 * ddp_tile_x();
#pragma unroll 8
  for (int k = 0; k < depth; k++) {
    const float4 u = *reinterpret_cast<const float4 *>(a + k * DDP_TILE_PITCH);
    const float4 v = *reinterpret_cast<const float4 *>(b + k * DDP_TILE_PITCH);
    const float row[4] = {u.x, u.y, u.z, u.w}, column[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
      for (int c = 0; c < 4; c++) sum[r][c] = fmaf(row[r], column[c], sum[r][c]);
  }
}

/* The thread's results as an operand whose summed index is their column: to[4 x + c][4 y + r]. */
DDP_DEVICE void ddp_tile_store_turned(float *to, const float (&x)[4][4]) {
#pragma unroll
  for (int c = 0; c < 4; c++)
    *reinterpret_cast<float4 *>(to + (4 * ddp_tile_x() + c) * DDP_TILE_PITCH + 4 * ddp_tile_y()) =
        make_float4(x[0][c], x[1][c], x[2][c], x[3][c]);
}

/* Columns c0 .. c0 + 31 of 64 rows of memory, the column being the summed index: to[c][row] = from[row][c0 + c];
   0 where there are no more rows or columns. */
template <class T>
DDP_DEVICE void ddp_tile_load_turned(float *to, const T *from, int64_t stride, int rows, int c0,
                                     int columns) {
  for (int i = (int)threadIdx.x; i < DDP_TILE * DDP_TILE_DEPTH; i += DDP_TILE_THREADS) {
    const int row = i / DDP_TILE_DEPTH, c = i % DDP_TILE_DEPTH;
    const bool there = row < rows && c0 + c < columns;
    to[c * DDP_TILE_PITCH + row] = there ? ddp_load(from[row * stride + c0 + c]) : 0.0f;
  }
}

/* Columns c0 .. c0 + 63 of 64 rows of memory, the row being the summed index: to[row][c] = from[row][c0 + c]. */
template <class T>
DDP_DEVICE void ddp_tile_load(float *to, const T *from, int64_t stride, int rows, int c0,
                              int columns) {
  for (int i = (int)threadIdx.x; i < DDP_TILE * DDP_TILE; i += DDP_TILE_THREADS) {
    const int row = i / DDP_TILE, c = i % DDP_TILE;
    const bool there = row < rows && c0 + c < columns;
    to[row * DDP_TILE_PITCH + c] = there ? ddp_load(from[row * stride + c0 + c]) : 0.0f;
  }
}

#endif
