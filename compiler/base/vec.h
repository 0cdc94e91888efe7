/* Growable arrays in an arena: VEC(int) v = {0}; vec_push(arena, &v, 3); v.at[0]; v.len.
   Growing copies; old storage stays in the arena, so pointers into it stay readable but stale. */
#ifndef BASE_VEC_H
#define BASE_VEC_H
#include "arena.h"
#include <stdint.h>
#include <string.h>

#define VEC(T)                                                                                     \
  struct {                                                                                         \
    T *at;                                                                                         \
    uint32_t len, cap;                                                                             \
  }

#define vec_push(arena, v, ...)                                                                    \
  do {                                                                                             \
    if ((v)->len == (v)->cap) {                                                                    \
      uint32_t cap_ = (v)->cap ? (v)->cap * 2 : 8;                                                 \
      void *grown_ = arena_alloc((arena), sizeof(*(v)->at) * cap_);                                \
      if ((v)->len) memcpy(grown_, (v)->at, sizeof(*(v)->at) * (v)->len);                          \
      (v)->at = grown_;                                                                            \
      (v)->cap = cap_;                                                                             \
    }                                                                                              \
    (v)->at[(v)->len++] = __VA_ARGS__;                                                             \
  } while (0)
#endif
