/* How many bytes of DdpStep.scratch the kernels of devices take, as functions of shapes: a program has the most of all
   as a constant (kernels/cuda), and ddpc counts it in the plan. C, and constant expressions in C++. */
#ifndef DDP_KERNELS_SCRATCH_H
#define DDP_KERNELS_SCRATCH_H
#include "shapes.h"

#ifdef __cplusplus
#define DDP_NUMBER(type, name, value) static constexpr type name = value
#define DDP_FORMULA                   static constexpr
#else
#define DDP_NUMBER(type, name, value) enum { name = value }
#define DDP_FORMULA                   static inline __attribute__((unused))
#endif

/* ---------- sums over arenas ---------- */
DDP_NUMBER(int32_t, DDP_SQUARE_RANGES, 64); /* of one launch */
DDP_NUMBER(int64_t, DDP_SQUARE_PARTS, 256); /* of one range at most */
DDP_NUMBER(int64_t, ddp_arena_scratch, 64 * 256 * 8);

/* ---------- optimizers ---------- */
DDP_NUMBER(int64_t, ddp_adamw_scratch, 16);

/* ---------- attention ---------- */
DDP_FORMULA int64_t ddp_attention_scratch(int64_t batch, int64_t heads, int64_t t) {
  return batch * heads * t * 4;
}

/* ---------- sums into places that data names ---------- */
DDP_NUMBER(int, DDP_SORT_DIGITS, 256);
DDP_NUMBER(int, DDP_SORT_WARPS, 8);  /* of a block; 256 threads, one for each digit */
DDP_NUMBER(int, DDP_SORT_ROUNDS, 8); /* rows of a lane */
DDP_NUMBER(int, DDP_SORT_TILE, 8 * 8 * 32);
DDP_NUMBER(int, DDP_SUM_CHUNK, 64); /* sorted rows that a thread adds */

DDP_FORMULA int64_t ddp_index_pad(int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}
DDP_FORMULA int64_t ddp_index_tiles(int64_t n) {
  return (n + DDP_SORT_TILE - 1) / DDP_SORT_TILE;
}
DDP_FORMULA int64_t ddp_index_chunks(int64_t n) {
  return (n + DDP_SUM_CHUNK - 1) / DDP_SUM_CHUNK;
}
DDP_FORMULA int64_t ddp_rows_add_scratch(int64_t count, int64_t width) {
  return 4 * ddp_index_pad(count * 4) +
         ddp_index_pad(ddp_index_tiles(count) * DDP_SORT_DIGITS * 4) +
         ddp_index_chunks(count) * 2 * width * 4;
}
DDP_FORMULA int64_t ddp_scatter_add_scratch(int64_t outer, int64_t count, int64_t inner) {
  return ddp_rows_add_scratch(outer * count * inner, 1);
}

/* ---------- convolution ---------- */
DDP_NUMBER(int, DDP_TILE, 64); /* cuda/tile.h */
DDP_NUMBER(int, DDP_TILE_DEPTH, 32);
DDP_NUMBER(int, DDP_CONV_TILED,
           16); /* channels of a group from which tiles are filled well enough */

typedef struct DdpConvSplit { /* of the sums of a filter's gradient */
  int64_t splits, rows_each;
  bool direct;
} DdpConvSplit;

/* A function of the shape and the batch, so that sums have the same order on every device: enough blocks for a large
   one, and parts that are long enough to be worth a block. */
DDP_FORMULA DdpConvSplit ddp_conv_split(const DdpConv c, int64_t batch) {
  int64_t rows = batch, n = c.big / c.groups;
  for (int64_t i = 0; i < c.space; i++) {
    rows *= c.small_size[i];
    n *= c.kernel[i];
  }
  const int64_t m = c.small / c.groups;
  const bool direct = c.groups > 1 && m < DDP_CONV_TILED;
  const int64_t blocks =
      direct ? (c.small + 31) / 32 * n
             : (m + DDP_TILE - 1) / DDP_TILE * c.groups * ((n + DDP_TILE - 1) / DDP_TILE);
  const int64_t wanted = (512 + blocks - 1) / blocks, worth = rows / 256 > 1 ? rows / 256 : 1;
  const int64_t splits = wanted < worth ? wanted : worth;
  const int64_t each =
      ((rows + splits - 1) / splits + DDP_TILE_DEPTH - 1) / DDP_TILE_DEPTH * DDP_TILE_DEPTH;
  const DdpConvSplit s = {(rows + each - 1) / each, each, direct};
  return s;
}

DDP_FORMULA int64_t ddp_conv_scratch(const DdpConv c, DdpConvResult result, int64_t batch) {
  int64_t elements = c.small * (c.big / c.groups);
  for (int64_t i = 0; i < c.space; i++) elements *= c.kernel[i];
  const int64_t splits = result == DDP_CONV_FILTER ? ddp_conv_split(c, batch).splits : 1;
  return splits * elements * 4;
}

#endif
