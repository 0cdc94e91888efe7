/* In: keys and values. Out: requests and replies of PyTorch's store protocol.
   Holds: one send per request, the first together with VALIDATE: the libuv server drops a
   connection whose first message arrives in pieces, the legacy server stalls the whole job on half
   a request. */
#include "tcpstore.h"
#include "net.h"
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { OP_VALIDATE = 0, OP_SET = 1, OP_GET = 3, OP_CHECK = 5 };
enum { KEY_LIMIT = 512, VALUE_LIMIT = 4096 };
static const uint32_t validate_magic = 0x3C85F7CE;

typedef struct Request {
  char bytes[2 * KEY_LIMIT + VALUE_LIMIT + 128];
  size_t n;
} Request;

static void put(Request *q, const void *data, size_t n) {
  memcpy(q->bytes + q->n, data, n);
  q->n += n;
}
static void put_op(Request *q, int op) {
  char c = (char)op;
  put(q, &c, 1);
}
static void put_u64(Request *q, uint64_t v) {
  put(q, &v, sizeof v);
}
static void put_key(Request *q, const char *key) {
  size_t n = strnlen(key, KEY_LIMIT);
  put_u64(q, n + 1);
  put(q, "/", 1);
  put(q, key, n);
}
static void put_check(Request *q, const char *key) {
  put_op(q, OP_CHECK);
  put_u64(q, 1);
  put_key(q, key);
}

static int answer_of_check(int fd, const Request *q, double deadline) {
  unsigned char reply;
  if (ddp_net_send(fd, q->bytes, q->n, deadline) || ddp_net_recv(fd, &reply, 1, deadline))
    return -1;
  if (reply > 1) {
    errno = EPROTO;
    return -1;
  }
  return reply == 0;
}

int ddp_tcpstore_open(const char *host, int port, const char *key, int *present, double deadline) {
  int fd = ddp_net_dial(host, port, deadline);
  if (fd < 0) return -1;
  Request q = {.n = 0};
  put_op(&q, OP_VALIDATE);
  put(&q, &validate_magic, sizeof validate_magic);
  put_check(&q, key);
  *present = answer_of_check(fd, &q, deadline);
  if (*present >= 0) return fd;
  int e = errno == ETIMEDOUT ? EPROTO : errno; /* accepts but never answers: no store */
  close(fd);
  errno = e;
  return -1;
}

int ddp_tcpstore_check(int fd, const char *key, double deadline) {
  Request q = {.n = 0};
  put_check(&q, key);
  return answer_of_check(fd, &q, deadline);
}

int ddp_tcpstore_set(int fd, const char *key, const char *value, double deadline) {
  size_t n = strlen(value);
  if (n > VALUE_LIMIT || strlen(key) > KEY_LIMIT) {
    errno = EMSGSIZE;
    return -1;
  }
  Request q = {.n = 0};
  put_op(&q, OP_SET);
  put_key(&q, key);
  put_u64(&q, n);
  put(&q, value, n);
  put_check(&q, key); /* SET has no reply of its own */
  int rc = answer_of_check(fd, &q, deadline);
  if (rc == 0) errno = EPROTO;
  return rc == 1 ? 0 : -1;
}

int ddp_tcpstore_get(int fd, const char *key, char *out, size_t size, double deadline) {
  Request q = {.n = 0};
  put_op(&q, OP_GET);
  put_key(&q, key);
  uint64_t n;
  if (ddp_net_send(fd, q.bytes, q.n, deadline) || ddp_net_recv(fd, &n, sizeof n, deadline))
    return -1;
  if (n >= size) {
    errno = EMSGSIZE;
    return -1;
  }
  if (ddp_net_recv(fd, out, (size_t)n, deadline)) return -1;
  out[n] = 0;
  return 0;
}
