/* How values of a graph depend on the batch: shared by means.c and metrics.c. */
#ifndef PASSES_BATCH_H
#define PASSES_BATCH_H
#include "job.h"
#include "ops.h"

typedef enum BatchFlag {
  BATCH_data = 1,  /* differs between micro-batches */
  BATCH_param = 2, /* depends on a parameter or frozen tensor */
  BATCH_state = 4, /* depends on a buffer or a draw */
  BATCH_mixed = 8, /* depends on a number that was taken over the samples of a micro-batch */
} BatchFlag;

typedef struct Batch {
  Arena *arena;
  Graph *g;
  uint8_t *flags; /* by value; batch_update extends it */
  uint32_t known;
} Batch;

Batch batch_begin(Arena *a, Graph *g);
uint8_t batch_flags(Batch *b, Val v); /* also of values added since */
bool batch_has_dim(Type t);           /* a dimension depends on B */
/* The same in every micro-batch of an update. */
static inline bool batch_constant(Batch *b, Val v) {
  return (batch_flags(b, v) & (BATCH_data | BATCH_state)) == 0;
}
/* A sum over the samples: `sum` over every dimension with B, or a size that is linear in B. */
bool batch_is_sum(Batch *b, Val v);
/* Rank-0 numbers: expand and reshape of one look through. NO_VAL when v is none. */
Val batch_scalar(const Graph *g, Val v);
/* indices.c */
void indices_check(const Job *job, const Graph *g);
#endif
