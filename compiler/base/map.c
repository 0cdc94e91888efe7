/* Open addressing over a power of two; at most half full. */
#include "map.h"
#include "die.h"

static uint32_t slot_of(const Map *m, uint64_t key) {
  uint64_t h = key * 0x9E3779B97F4A7C15u;
  uint32_t at = (uint32_t)(h >> 32) & (m->cap - 1);
  while (m->key[at] && m->key[at] != key) at = (at + 1) & (m->cap - 1);
  return at;
}

static void grow(Map *m) {
  Map old = *m;
  m->cap = old.cap ? 2 * old.cap : 64;
  m->key = ARENA_ARRAY(m->arena, uint64_t, m->cap);
  m->value = ARENA_ARRAY(m->arena, uint32_t, m->cap);
  for (uint32_t i = 0; i < old.cap; i++) {
    if (!old.key[i]) continue;
    uint32_t at = slot_of(m, old.key[i]);
    m->key[at] = old.key[i];
    m->value[at] = old.value[i];
  }
}

uint32_t *map_at(Map *m, uint64_t key) {
  check(key, "a map has no key 0");
  if (2 * (m->len + 1) > m->cap) grow(m);
  uint32_t at = slot_of(m, key);
  if (!m->key[at]) {
    m->key[at] = key;
    m->len++;
  }
  return &m->value[at];
}

uint32_t map_get(const Map *m, uint64_t key) {
  return m->cap ? m->value[slot_of(m, key)] : 0;
}
