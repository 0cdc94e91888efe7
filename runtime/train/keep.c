/* See keep.h. The Trainer orders checkpoints by the times of their folders, which a copy or a clock that was
   set changes; their numbers and the one just saved say the same. */
#include "keep.h"
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b) {
  int64_t x, y;
  memcpy(&x, a, sizeof x);
  memcpy(&y, b, sizeof y);
  return (x > y) - (x < y);
}

int ddp_keep_select(int64_t *updates, int n, const DdpKeep *k) {
  if (k->limit <= 0 || n == 0) return 0;
  int64_t *order = malloc((size_t)n * sizeof *order);
  if (!order) return 0; /* nothing is removed: the next save tries again */
  int at = 0, must_stay = k->best >= 0 && k->best != k->newest ? 2 : 1, gone = 0;
  qsort(updates, (size_t)n, sizeof *updates, ascending);
  for (int i = 0; i < n; i++) {
    if (updates[i] > k->newest) order[at++] = updates[i];
  }
  for (int i = 0; i < n; i++) {
    if (updates[i] <= k->newest) order[at++] = updates[i];
  }
  int64_t stay = k->limit > must_stay ? k->limit : must_stay;
  for (int i = 0; i < n && n - gone > stay; i++) {
    if (order[i] != k->newest && order[i] != k->best) updates[gone++] = order[i];
  }
  free(order);
  return gone;
}
