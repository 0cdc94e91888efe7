/* In: keys, bytes, waiting ranks. Out: the bytes, the ranks to answer. A list: a job stores a few
   keys per rank and backend, once. */
#include "table.h"
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t n) {
  void *p = malloc(n);
  if (!p) abort();
  return p;
}

const DdpEntry *ddp_table_find(const DdpTable *t, const char *key) {
  const DdpEntry *e = t->entries;
  while (e && strcmp(e->key, key) != 0) e = e->next;
  return e;
}

void ddp_table_set(DdpTable *t, const char *key, const void *data, size_t size) {
  DdpEntry *e = t->entries;
  while (e && strcmp(e->key, key) != 0) e = e->next;
  if (!e) {
    e = allocate(sizeof *e);
    *e = (DdpEntry){.key = allocate(strlen(key) + 1), .next = t->entries};
    strcpy(e->key, key);
    t->entries = e;
  }
  free(e->data);
  e->data = allocate(size + 1);
  memcpy(e->data, data, size);
  e->data[size] = 0;
  e->size = size;
}

void ddp_table_await(DdpTable *t, const char *key, int rank) {
  DdpWaiter *w = allocate(sizeof *w);
  *w = (DdpWaiter){.key = allocate(strlen(key) + 1), .rank = rank, .next = t->waiters};
  strcpy(w->key, key);
  t->waiters = w;
}

int ddp_table_waiter(DdpTable *t, const char *key) {
  for (DdpWaiter **p = &t->waiters; *p; p = &(*p)->next) {
    DdpWaiter *w = *p;
    if (strcmp(w->key, key) != 0) continue;
    int rank = w->rank;
    *p = w->next;
    free(w->key);
    free(w);
    return rank;
  }
  return -1;
}

void ddp_table_clear(DdpTable *t) {
  while (t->waiters) {
    DdpWaiter *w = t->waiters;
    t->waiters = w->next;
    free(w->key);
    free(w);
  }
  while (t->entries) {
    DdpEntry *e = t->entries;
    t->entries = e->next;
    free(e->key);
    free(e->data);
    free(e);
  }
}
