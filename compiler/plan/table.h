/* Tables and numbers of `ddpc plan`, for people. */
#ifndef PLAN_TABLE_H
#define PLAN_TABLE_H
#include "arena.h"
#include "text.h"
#include "vec.h"

typedef struct Table {
  Arena *a;
  int columns;
  const char *align; /* one letter a column: l or r */
  VEC(const char *) cells;
} Table;

void table_row(Table *t, ...); /* as many texts as columns */
void table_print(Text *out, const Table *t);

const char *number_grouped(Arena *a, int64_t n);  /* 1234567 -> "1,234,567" */
const char *number_bytes(Arena *a, int64_t n);    /* "1.5 MiB" */
const char *number_flops(Arena *a, double flops); /* "1.50 GFLOP" */

/* Names that differ in their numbers alone: "h.0.attn" and "h.11.attn". */
uint64_t numbered_hash(const char *s, uint64_t seed); /* the same for all of them */
const char *numbered_range(Arena *a, const char *first, const char *last); /* "h.{0..11}.attn" */
#endif
