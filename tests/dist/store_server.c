/* In: requests of the store protocol (VALIDATE, SET, GET, CHECK). Out: replies, or the connection
   closed where the real servers close it. One thread per connection. */
#include "store_server.h"
#include "net.h"
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEYS = 64, TEXT = 1024, CONNECTIONS = 64 };

struct StoreServer {
  bool legacy;
  int listener;
  pthread_t thread, workers[CONNECTIONS];
  int sockets[CONNECTIONS], n;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  char keys[KEYS][TEXT], values[KEYS][TEXT];
  int n_keys, checks;
};

typedef struct Connection {
  StoreServer *server;
  int fd;
} Connection;

static bool take(int fd, void *out, size_t n) {
  return n == 0 || recv(fd, out, n, MSG_WAITALL) == (ssize_t)n;
}

static bool take_text(int fd, char out[TEXT]) {
  uint64_t n;
  if (!take(fd, &n, sizeof n) || n >= TEXT || !take(fd, out, (size_t)n)) return false;
  out[n] = 0;
  return true;
}

static int find(const StoreServer *s, const char *key) {
  for (int i = 0; i < s->n_keys; i++) {
    if (strcmp(s->keys[i], key) == 0) return i;
  }
  return -1;
}

void store_server_set(StoreServer *s, const char *key, const char *value) {
  pthread_mutex_lock(&s->lock);
  int i = find(s, key);
  if (i < 0) i = s->n_keys++;
  snprintf(s->keys[i], TEXT, "%s", key);
  snprintf(s->values[i], TEXT, "%s", value);
  pthread_mutex_unlock(&s->lock);
}

static bool on_get(StoreServer *s, int fd) {
  char key[TEXT], value[TEXT] = "";
  if (!take_text(fd, key)) return false;
  pthread_mutex_lock(&s->lock);
  int i = find(s, key);
  if (i >= 0) memcpy(value, s->values[i], TEXT);
  pthread_mutex_unlock(&s->lock);
  if (i < 0 && s->legacy) return false;
  uint64_t n = strlen(value);
  return send(fd, &n, sizeof n, MSG_NOSIGNAL) == sizeof n &&
         (n == 0 || send(fd, value, (size_t)n, MSG_NOSIGNAL) == (ssize_t)n);
}

static bool on_check(StoreServer *s, int fd) {
  uint64_t count;
  char key[TEXT];
  unsigned char reply = 0;
  if (!take(fd, &count, sizeof count)) return false;
  for (uint64_t i = 0; i < count; i++) {
    if (!take_text(fd, key)) return false;
    pthread_mutex_lock(&s->lock);
    if (find(s, key) < 0) reply = 1;
    pthread_mutex_unlock(&s->lock);
  }
  bool sent = send(fd, &reply, 1, MSG_NOSIGNAL) == 1;
  pthread_mutex_lock(&s->lock);
  s->checks++;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
  return sent;
}

static bool on_request(StoreServer *s, int fd) {
  unsigned char op;
  char key[TEXT], value[TEXT];
  if (!take(fd, &op, 1)) return false;
  switch (op) {
  case 1:
    if (!take_text(fd, key) || !take_text(fd, value)) return false;
    store_server_set(s, key, value);
    return true;
  case 3:
    return on_get(s, fd);
  case 5:
    return on_check(s, fd);
  default:
    return false;
  }
}

static void *serve(void *argument) {
  Connection c = *(Connection *)argument;
  free(argument);
  unsigned char first[5];
  static const unsigned char validate[5] = {0, 0xce, 0xf7, 0x85, 0x3c};
  ssize_t n = recv(c.fd, first, sizeof first, c.server->legacy ? MSG_WAITALL : 0);
  bool good = n == 5 && memcmp(first, validate, 5) == 0;
  while (good && on_request(c.server, c.fd)) {
  }
  if (!good && n == 5 && !c.server->legacy) recv(c.fd, first, 1, 0); /* silent until it is closed */
  shutdown(c.fd, SHUT_RDWR);
  return NULL;
}

static void *accept_all(void *argument) {
  StoreServer *s = argument;
  for (;;) {
    int fd = accept(s->listener, NULL, NULL);
    if (fd < 0 || s->n == CONNECTIONS) return NULL;
    Connection *c = malloc(sizeof *c);
    if (!c) abort();
    *c = (Connection){s, fd};
    s->sockets[s->n] = fd;
    if (pthread_create(&s->workers[s->n], NULL, serve, c)) abort();
    s->n++;
  }
}

StoreServer *store_server_start(bool legacy, int *port) {
  StoreServer *s = calloc(1, sizeof *s);
  if (!s) abort();
  s->legacy = legacy;
  s->listener = ddp_net_listen("127.0.0.1", 0, port);
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  if (s->listener < 0 || pthread_create(&s->thread, NULL, accept_all, s)) abort();
  return s;
}

void store_server_await_checks(StoreServer *s, int checks) {
  pthread_mutex_lock(&s->lock);
  while (s->checks < checks) pthread_cond_wait(&s->changed, &s->lock);
  pthread_mutex_unlock(&s->lock);
}

void store_server_stop(StoreServer *s) {
  shutdown(s->listener, SHUT_RDWR);
  pthread_join(s->thread, NULL);
  close(s->listener);
  for (int i = 0; i < s->n; i++) {
    shutdown(s->sockets[i], SHUT_RDWR);
    pthread_join(s->workers[i], NULL);
    close(s->sockets[i]);
  }
  free(s);
}

int silent_server_start(int *port) {
  return ddp_net_listen("127.0.0.1", 0, port);
}
