/* Lists of the tree: arrays in the arena that double as they grow. */
#include "build.h"
#include "parser.h"

#define AST_VEC(V, T, add)                                                                         \
  V *add(Parse *p, V *list, T item) {                                                              \
    if (!list) list = ARENA_NEW(p->arena, V);                                                      \
    if (list->len == list->cap) {                                                                  \
      uint32_t cap = list->cap ? list->cap * 2 : 2; /* most lists are short */                     \
      T *grown = ARENA_ARRAY(p->arena, T, cap);                                                    \
      if (list->len) memcpy(grown, list->at, sizeof(T) * list->len);                               \
      list->at = grown;                                                                            \
      list->cap = cap;                                                                             \
    }                                                                                              \
    list->at[list->len++] = item;                                                                  \
    return list;                                                                                   \
  }
AST_VECS(AST_VEC)
