/* The smallest of some numbers first: heap_push, heap_pop. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H
#include "arena.h"
#include <stdint.h>

typedef struct Heap {
  Arena *arena;
  uint64_t *at;
  uint32_t len, cap;
} Heap;

void heap_push(Heap *h, uint64_t x);
uint64_t heap_pop(Heap *h); /* of a heap that is not empty */
#endif
