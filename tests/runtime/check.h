/* What the runtime's unit tests share: cmocka and ways to look at errors. */
#ifndef TESTS_RUNTIME_CHECK_H
#define TESTS_RUNTIME_CHECK_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "ddp/status.h"

#define CHECK_OK(call)                                                                             \
  do {                                                                                             \
    DdpError *e_ = (call);                                                                         \
    if (e_) fail_msg("%s: %s", #call, e_->message);                                                \
  } while (0)

/* The call fails with this class and a message that contains the text. */
#define CHECK_ERROR(call, class_, text)                                                            \
  do {                                                                                             \
    DdpError *e_ = (call);                                                                         \
    if (!e_) fail_msg("%s: no error", #call);                                                      \
    if (!strstr(e_->message, text)) fail_msg("%s: \"%s\" lacks \"%s\"", #call, e_->message, text); \
    assert_int_equal(e_->klass, class_);                                                           \
    ddp_error_free(e_);                                                                            \
  } while (0)

/* A folder of its own for the test program; removed by check_folder_remove. */
static inline const char *check_folder(void) {
  static char path[64];
  if (!path[0]) {
    snprintf(path, sizeof path, "/tmp/ddp-test-XXXXXX");
    if (!mkdtemp(path)) abort();
  }
  return path;
}

static inline void check_folder_remove(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", check_folder());
  if (system(command) != 0) abort();
}

/* Writes a file into the folder; returns its path (overwritten by the fourth call after). */
static inline const char *check_file(const char *name, const void *data, size_t n) {
  static char paths[4][160];
  static int turn;
  char *path = paths[turn++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", check_folder(), name);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
  return path;
}
#endif
