/* A binary heap in an array: the children of i are 2i+1 and 2i+2. */
#include "heap.h"
#include "die.h"
#include "vec.h"

void heap_push(Heap *h, uint64_t x) {
  vec_push(h->arena, h, x);
  uint32_t i = h->len - 1;
  for (; i && h->at[(i - 1) / 2] > x; i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
  h->at[i] = x;
}

uint64_t heap_pop(Heap *h) {
  check(h->len, "nothing in the heap");
  uint64_t top = h->at[0], x = h->at[--h->len];
  uint32_t i = 0, child;
  while ((child = 2 * i + 1) < h->len) {
    if (child + 1 < h->len && h->at[child + 1] < h->at[child]) child++;
    if (h->at[child] >= x) break;
    h->at[i] = h->at[child];
    i = child;
  }
  h->at[i] = x;
  return top;
}
