/* The store's table in memory and the ranks that wait for a key; internal to control.c. Not
   locked. */
#ifndef DDP_COMM_TABLE_H
#define DDP_COMM_TABLE_H
#include <stddef.h>

typedef struct DdpEntry {
  char *key, *data;
  size_t size;
  struct DdpEntry *next;
} DdpEntry;
typedef struct DdpWaiter {
  char *key;
  int rank;
  struct DdpWaiter *next;
} DdpWaiter;
typedef struct DdpTable {
  DdpEntry *entries;
  DdpWaiter *waiters;
} DdpTable;

void ddp_table_set(DdpTable *t, const char *key, const void *data, size_t size);
const DdpEntry *ddp_table_find(const DdpTable *t, const char *key);
void ddp_table_await(DdpTable *t, const char *key, int rank);
/* Removes and returns one rank that waits for the key, -1: none. */
int ddp_table_waiter(DdpTable *t, const char *key);
void ddp_table_clear(DdpTable *t);
#endif
