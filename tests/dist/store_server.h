/* A TCPStore server for tests, in the manner of either of PyTorch's: libuv (default since torch
   2.4) or legacy. They differ in what they do to careless clients. */
#ifndef DDP_TEST_STORE_SERVER_H
#define DDP_TEST_STORE_SERVER_H
#include <stdbool.h>
#include <stddef.h>

typedef struct StoreServer StoreServer;

StoreServer *store_server_start(bool legacy, int *port);
/* Key with its leading "/". */
void store_server_set(StoreServer *s, const char *key, const char *value);
/* Returns when that many CHECKs have been answered. */
void store_server_await_checks(StoreServer *s, int checks);
void store_server_stop(StoreServer *s);

/* A server that accepts and never says a word. Returns its listener; close it to end. */
int silent_server_start(int *port);
#endif
