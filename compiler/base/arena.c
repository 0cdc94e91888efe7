/* A chain of blocks that grow up to a limit; large requests get a block of their own. */
#include "arena.h"
#include "die.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BLOCK = 16 << 10, LARGEST_BLOCK = 1 << 20, ALIGN = 16 };

typedef struct Block {
  struct Block *older;
  size_t used, size; /* of the bytes behind this header */
} Block;

struct Arena {
  Block *newest;
  size_t next_size;
};

/* The bytes of a block begin at the first aligned offset behind its header. */
static char *block_bytes(Block *b) {
  return (char *)b + (sizeof(Block) + ALIGN - 1) / ALIGN * ALIGN;
}

static Block *block_new(size_t size) {
  Block *b = calloc(1, (sizeof(Block) + ALIGN - 1) / ALIGN * ALIGN + size);
  check(b, "out of memory (%zu bytes)", size);
  b->size = size;
  return b;
}

Arena *arena_new(void) {
  Arena *a = calloc(1, sizeof *a);
  check(a, "out of memory");
  a->next_size = FIRST_BLOCK;
  return a;
}

void arena_free(Arena *a) {
  if (!a) return;
  for (Block *b = a->newest; b;) {
    Block *older = b->older;
    free(b);
    b = older;
  }
  free(a);
}

void *arena_alloc(Arena *a, size_t bytes) {
  check(bytes < SIZE_MAX / 2, "allocation of %zu bytes", bytes);
  bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
  Block *b = a->newest;
  if (b && b->size - b->used >= bytes) {
    void *p = block_bytes(b) + b->used;
    b->used += bytes;
    return p;
  }
  if (b && bytes > a->next_size / 2) { /* keeps the room left in the newest block */
    Block *own = block_new(bytes);
    own->used = bytes;
    own->older = b->older;
    b->older = own;
    return block_bytes(own);
  }
  Block *fresh = block_new(bytes > a->next_size ? bytes : a->next_size);
  if (a->next_size < LARGEST_BLOCK) a->next_size *= 2;
  fresh->older = b;
  fresh->used = bytes;
  a->newest = fresh;
  return block_bytes(fresh);
}

void *arena_copy(Arena *a, const void *from, size_t bytes) {
  void *p = arena_alloc(a, bytes);
  if (bytes) memcpy(p, from, bytes);
  return p;
}

char *arena_strndup(Arena *a, const char *s, size_t n) {
  char *p = arena_alloc(a, n + 1);
  if (n) memcpy(p, s, n);
  return p;
}

char *arena_strdup(Arena *a, const char *s) {
  return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(Arena *a, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, again);
  va_end(again);
  check(n >= 0, "format '%s'", format);
  char *p = arena_alloc(a, (size_t)n + 1);
  vsnprintf(p, (size_t)n + 1, format, args);
  return p;
}

char *arena_printf(Arena *a, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *p = arena_vprintf(a, format, args);
  va_end(args);
  return p;
}
