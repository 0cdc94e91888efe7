/* C face of libddp_gloo.so, the one file that includes Gloo's headers. Every function blocks; an
   error is text in `error`. Loaded by gloo_backend.c. */
#ifndef DDP_COMM_GLOO_H
#define DDP_COMM_GLOO_H
#include <stddef.h>
#include <stdint.h>

enum { DDP_GLOO_ABI = 3 };

typedef struct DdpGlooContext DdpGlooContext;

typedef struct DdpGlooStore {
  void *self;
  int (*set)(void *self, const char *key, const void *data, size_t size); /* 0: done */
  /* Waits for the key. 0: *out (malloc) holds it. */
  int (*get)(void *self, const char *key, void **out, size_t *size);
} DdpGlooStore;

typedef struct DdpGlooPlugin {
  int abi;
  int (*open)(DdpGlooContext **out, int rank, int world, const char *address,
              const DdpGlooStore *store, double timeout, char *error, size_t size);
  /* Ring sum of n numbers of `width` bytes (2 or 4), in place; sum: out = a + b of n of them. tag: the same
     on all ranks, another one for each operation. */
  int (*all_reduce)(DdpGlooContext *c, void *data, size_t n, size_t width,
                    void (*sum)(void *out, const void *a, const void *b, size_t n), uint32_t tag,
                    char *error, size_t size);
  int (*broadcast)(DdpGlooContext *c, void *data, size_t bytes, int root, uint32_t tag, char *error,
                   size_t size);
  int (*all_gather)(DdpGlooContext *c, const void *mine, void *all, size_t bytes, uint32_t tag,
                    char *error, size_t size);
  int (*barrier)(DdpGlooContext *c, uint32_t tag, char *error, size_t size);
  /* From any thread: ends all connections, so that blocked calls return with an error. */
  void (*shut)(DdpGlooContext *c);
  /* The connections, at most `limit` of them; returns how many. They stay Gloo's. */
  size_t (*sockets)(const DdpGlooContext *c, int *out, size_t limit);
  void (*close)(DdpGlooContext *c);
} DdpGlooPlugin;

/* The only symbol that is looked up, by this name. */
#define DDP_GLOO_SYMBOL "ddp_gloo_plugin"
#ifdef __cplusplus
extern "C"
#else
extern
#endif
    const DdpGlooPlugin ddp_gloo_plugin;
#endif
