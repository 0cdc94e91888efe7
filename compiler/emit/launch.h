/* How a nest is spread over threads and blocks of a device: a function of the nest and the largest batch
   alone, so that the order of additions does not depend on the GPU.

   A nest is one kernel, or several one after another (pieces): one for each stage where there are no outer
   loops, whose values per row then go from piece to piece in scratch; and one for each set of loops that
   roots of a stage keep, where these differ.

   flat      nothing is reduced: a thread for each element of all loops
   columns   a thread for each element of the loops that are kept; along what is reduced, `along` threads
             and `parts` blocks. The sums of the blocks lie in scratch, and a second kernel adds them in order
   rows      the first loops are rows; a team (a thread, a warp or a block) for each. Loops of a stage are
             spread over the threads of the team, in passes (see Pass). Sums over rows are kept by teams with many
             rows each, added up in each block, and these `parts` by a second kernel. Also columns whose elements
             are neighbours in memory: what is reduced are the rows
   serial    one thread for all of it: right for anything */
#ifndef EMIT_LAUNCH_H
#define EMIT_LAUNCH_H
#include "scalar.h"

typedef enum Shape { SHAPE_flat, SHAPE_columns, SHAPE_rows, SHAPE_serial } Shape;

/* What is computed in one walk over the loops of a stage: the first `rows` loops of the path are open
   already, the next `spread` are spread over threads, the others run inside a thread. */
typedef struct Pass {
  uint32_t stage;
  const bool *root; /* by root of the nest: computed here */
  LoopPath path;
  uint32_t rows, spread;
  int vector; /* neighbours that a thread has at once; 1: none */
} Pass;

typedef struct Piece {
  Shape shape;
  VEC(Pass) passes;  /* serial: none */
  uint32_t rows;     /* loops that are rows */
  int threads;       /* of a block */
  int team;          /* rows: threads of a row */
  int across, along; /* columns: threads of a block over what is kept, and along what is reduced */
  int64_t parts;     /* columns: blocks along what is reduced; rows: of sums over rows.
                        1 (rows: 0): no second kernel */
  bool of_blocks; /* rows: each block has a part; else each team, and its sums lie there at once */
} Piece;

typedef struct Pieces {
  Piece *at;
  uint32_t len, cap;
} Pieces;

Pieces launch_pieces(Arena *a, const Program *p, const Nest *n);
const char *launch_shape_name(Shape shape); /* "rows" */
/* The product of the loops from..to of a path at the largest batch. */
int64_t launch_extent(const Program *p, const Nest *n, const LoopPath *path, uint32_t from,
                      uint32_t to);
/* How many elements of a pass a thread of the team has, where that is a small constant; 0: it is none. */
int launch_turns(const Nest *n, int team, const Pass *pass);
/* Is root r a sum over all rows of a piece of this shape? */
bool launch_over_rows(const Nest *n, const NestRoot *r, const Pass *pass);
#endif
