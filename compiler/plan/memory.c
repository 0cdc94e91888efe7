/* Offsets in the activation block. In: places with lifetimes (in kernel numbers, both ends
   included). Out: offset and bytes of every HOME_block value at the program's largest batch;
   block_bytes. Largest first, each at the lowest offset that is free during its whole life. */
#include "die.h"
#include "fuse.h"
#include <stdlib.h>

typedef struct Piece {
  ValuePlace *place;
  uint32_t number;
} Piece;

static int by_size(const void *a, const void *b) {
  const Piece *x = a, *y = b;
  if (x->place->bytes != y->place->bytes) return x->place->bytes > y->place->bytes ? -1 : 1;
  if (x->place->first != y->place->first) return x->place->first < y->place->first ? -1 : 1;
  return x->number < y->number ? -1 : 1;
}

static bool overlap(const ValuePlace *a, const ValuePlace *b) {
  return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset from `from` on where `p` does not touch what is placed and alive with it. */
static int64_t lowest_free(const Piece *placed, uint32_t n, const ValuePlace *p) {
  int64_t at = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t i = 0; i < n; i++) {
      const ValuePlace *q = placed[i].place;
      if (!overlap(p, q) || at + p->bytes <= q->offset || q->offset + q->bytes <= at) continue;
      at = q->offset + q->bytes;
      moved = true;
    }
  }
  return at;
}

void plan_memory(Program *p, Arena *a) {
  Piece *piece = ARENA_ARRAY(a, Piece, p->places.len + p->kernels.len);
  uint32_t n = 0;
  for (Val v = 1; v < p->places.len; v++) {
    ValuePlace *place = &p->places.at[v];
    Type t = value_at(p->g, v)->type;
    if (place->home != HOME_block) continue;
    check(place->first >= 0, "%%%u is in the block but no kernel writes it", v);
    place->bytes = plan_align(type_elements_at(t, p->batch_max) * dtype_bytes(t.dtype), PLAN_ALIGN);
    piece[n] = (Piece){place, n};
    n++;
  }
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    PlanLoop *loop = p->kernels.at[i].loop;
    if (!loop || !loop->scratch.bytes) continue;
    piece[n] = (Piece){&loop->scratch, n};
    n++;
  }
  qsort(piece, n, sizeof *piece, by_size);
  p->block_bytes = 0;
  for (uint32_t i = 0; i < n; i++) {
    ValuePlace *place = piece[i].place;
    place->offset = lowest_free(piece, i, place);
    if (place->offset + place->bytes > p->block_bytes)
      p->block_bytes = place->offset + place->bytes;
  }
}
