/* Arena memory. The compiler allocates and never frees piecemeal; an arena goes as a whole.
   Out of memory ends the process (die.h). Returned memory is zeroed and 16-byte aligned. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *a);
void *arena_alloc(Arena *a, size_t bytes);
void *arena_copy(Arena *a, const void *from, size_t bytes);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *format, ...)
    __attribute__((format(printf, 2, 3), nonnull(2)));
char *arena_vprintf(Arena *a, const char *format, va_list args)
    __attribute__((format(printf, 2, 0), nonnull(2)));

/* ARENA_NEW(a, Node) -> Node*;  ARENA_ARRAY(a, Node, n) -> Node* */
#define ARENA_NEW(a, T)      ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))
#endif
