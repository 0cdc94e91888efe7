/* A map from numbers or pointers to numbers, in an arena: Map m = {.arena = a};
   *map_at(&m, key) = 3; map_get(&m, key) is 0 for what is not there. Keys are not 0. */
#ifndef BASE_MAP_H
#define BASE_MAP_H
#include "arena.h"
#include <stdint.h>

typedef struct Map {
  Arena *arena;
  uint64_t *key;
  uint32_t *value;
  uint32_t cap, len;
} Map;

/* The value of a key, made as 0 where it is new; valid until the next call. */
uint32_t *map_at(Map *m, uint64_t key);
uint32_t map_get(const Map *m, uint64_t key);
static inline uint64_t map_key(const void *p) {
  return (uint64_t)(uintptr_t)p;
}
#endif
