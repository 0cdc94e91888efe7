/* The client of PyTorch's store against both manners of server, and against what is no store. */
#include "clock.h"
#include "net.h"
#include "store_server.h"
#include "tcpstore.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static double soon(void) {
  return ddp_clock() + 5;
}

static void exercise(bool legacy) {
  int port, present;
  char value[4096];
  StoreServer *s = store_server_start(legacy, &port);
  store_server_set(s, "/old", "1");
  int fd = ddp_tcpstore_open("127.0.0.1", port, "old", &present, soon());
  assert_true(fd >= 0);
  assert_int_equal(present, 1);
  assert_int_equal(ddp_tcpstore_check(fd, "new", soon()), 0);
  assert_int_equal(ddp_tcpstore_set(fd, "new", "some value", soon()), 0);
  assert_int_equal(ddp_tcpstore_check(fd, "new", soon()), 1);
  assert_int_equal(ddp_tcpstore_get(fd, "new", value, sizeof value, soon()), 0);
  assert_string_equal(value, "some value");
  assert_int_equal(ddp_tcpstore_set(fd, "new", "", soon()), 0);
  assert_int_equal(ddp_tcpstore_get(fd, "new", value, sizeof value, soon()), 0);
  assert_string_equal(value, "");
  assert_int_equal(ddp_tcpstore_get(fd, "old", value, 1, soon()), -1); /* does not fit */
  assert_int_equal(errno, EMSGSIZE);
  close(fd);
  fd = ddp_tcpstore_open("127.0.0.1", port, "other", &present, soon());
  assert_true(fd >= 0);
  assert_int_equal(present, 0);
  close(fd);
  store_server_stop(s);
}

static void test_libuv(void **state) {
  (void)state;
  exercise(false);
}

static void test_legacy(void **state) {
  (void)state;
  exercise(true);
}

static void test_silent(void **state) {
  (void)state;
  int port, present, listener = silent_server_start(&port);
  double start = ddp_clock();
  assert_int_equal(ddp_tcpstore_open("127.0.0.1", port, "k", &present, start + 0.5), -1);
  assert_int_equal(errno, EPROTO);
  assert_true(ddp_clock() - start >= 0.5 && ddp_clock() - start < 2);
  close(listener);
  assert_int_equal(ddp_tcpstore_open("127.0.0.1", port, "k", &present, soon()), -1);
  assert_int_equal(errno, ECONNREFUSED);
}

static void test_too_long(void **state) {
  (void)state;
  int port, present;
  StoreServer *s = store_server_start(false, &port);
  char text[8192];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  int fd = ddp_tcpstore_open("127.0.0.1", port, "k", &present, soon());
  assert_int_equal(ddp_tcpstore_set(fd, "k", text, soon()), -1);
  assert_int_equal(errno, EMSGSIZE);
  assert_int_equal(ddp_tcpstore_check(fd, text, soon()), 0); /* cut, not overrun */
  close(fd);
  store_server_stop(s);
}

/* An address that swallows what is sent to it, here a full queue of a listener, costs a second, not the
   time of all attempts. */
static void test_no_answer(void **state) {
  (void)state;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t n = sizeof a;
  int listener = socket(AF_INET, SOCK_STREAM, 0), waiting[2];
  assert_int_equal(bind(listener, (struct sockaddr *)&a, n), 0);
  assert_int_equal(listen(listener, 0), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
  for (int i = 0; i < 2; i++) {
    waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    connect(waiting[i], (struct sockaddr *)&a, n);
  }
  double begin = ddp_clock();
  assert_int_equal(ddp_net_dial("127.0.0.1", ntohs(a.sin_port), begin + 20), -1);
  assert_int_equal(errno, ETIMEDOUT);
  assert_true(ddp_clock() - begin < 10);
  for (int i = 0; i < 2; i++) close(waiting[i]);
  close(listener);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_libuv),     cmocka_unit_test(test_legacy),
      cmocka_unit_test(test_silent),    cmocka_unit_test(test_too_long),
      cmocka_unit_test(test_no_answer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
