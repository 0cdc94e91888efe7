/* Offsets in the activation block. In: places with lifetimes (in kernel numbers, both ends
   included). Out: offset and bytes of every HOME_block value at the program's largest batch
   (in chunks, at that of a chunk); block_bytes. Largest first, each at the lowest offset that is free during its whole life; what takes the
   place of an operand has that place. */
#include "die.h"
#include "fuse.h"
#include <stdlib.h>

typedef struct Piece {
  ValuePlace *place;
  uint32_t number;
  int32_t first, last; /* with all that takes its place in turn */
} Piece;

static int by_size(const void *a, const void *b) {
  const Piece *x = a, *y = b;
  if (x->place->bytes != y->place->bytes) return x->place->bytes > y->place->bytes ? -1 : 1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->number < y->number ? -1 : 1;
}

/* Puts a piece at the lowest offset where it touches nothing that is alive with it; `placed`: pieces by
   offset. */
static void place_piece(const Piece **placed, uint32_t n, const Piece *p) {
  ValuePlace *own = p->place;
  own->offset = 0;
  for (uint32_t i = 0; i < n; i++) {
    const Piece *q = placed[i];
    if (q->place->offset >= own->offset + own->bytes) break;
    int64_t end = q->place->offset + q->place->bytes;
    if (p->first <= q->last && q->first <= p->last && end > own->offset) own->offset = end;
  }
  uint32_t at = n;
  for (; at > 0 && placed[at - 1]->place->offset > own->offset; at--) placed[at] = placed[at - 1];
  placed[at] = p;
}

/* The most bytes that are alive during one kernel: no placement needs less. */
static int64_t most_alive(const Program *p, const Piece *piece, uint32_t n, Arena *a) {
  int64_t *change = ARENA_ARRAY(a, int64_t, p->kernels.len + 2), alive = 0, most = 0;
  for (uint32_t i = 0; i < n; i++) {
    change[piece[i].first] += piece[i].place->bytes;
    change[piece[i].last + 1] -= piece[i].place->bytes;
  }
  for (uint32_t k = 0; k < p->kernels.len; k++) {
    alive += change[k];
    if (alive > most) most = alive;
  }
  return most;
}

void plan_memory(Program *p, Arena *a) {
  Piece *piece = ARENA_ARRAY(a, Piece, p->places.len + p->kernels.len);
  uint32_t *piece_of = ARENA_ARRAY(a, uint32_t, p->places.len), n = 0;
  for (Val v = 1; v < p->places.len; v++) {
    ValuePlace *place = &p->places.at[v];
    Type t = value_at(p->g, v)->type;
    if (place->home != HOME_block) continue;
    check(place->first >= 0, "%%%u is in the block but no kernel writes it", v);
    int64_t batch = place->chunk == CHUNK_own ? p->chunk.samples : p->batch_max;
    place->bytes = plan_align(type_elements_at(t, batch) * dtype_bytes(t.dtype), PLAN_ALIGN);
    if (place->updates) continue;
    piece_of[v] = n;
    piece[n] = (Piece){place, n, place->first, place->last};
    n++;
  }
  for (Val v = 1; v < p->places.len; v++) {
    const ValuePlace *place = &p->places.at[v];
    if (place->home != HOME_block || !place->updates) continue;
    Piece *own = &piece[piece_of[place->updates]];
    if (place->last > own->last) own->last = place->last;
  }
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    PlanLoop *loop = p->kernels.at[i].loop;
    if (!loop || !loop->scratch.bytes) continue;
    piece[n] = (Piece){&loop->scratch, n, loop->scratch.first, loop->scratch.last};
    n++;
  }
  p->alive_bytes = most_alive(p, piece, n, a);
  if (n) qsort(piece, n, sizeof *piece, by_size);
  const Piece **placed = ARENA_ARRAY(a, const Piece *, n + 1);
  p->block_bytes = 0;
  for (uint32_t i = 0; i < n; i++) {
    const ValuePlace *place = piece[i].place;
    place_piece(placed, i, &piece[i]);
    if (place->offset + place->bytes > p->block_bytes)
      p->block_bytes = place->offset + place->bytes;
  }
  for (Val v = 1; v < p->places.len; v++) {
    ValuePlace *place = &p->places.at[v];
    if (place->home == HOME_block && place->updates)
      place->offset = p->places.at[place->updates].offset;
  }
}
