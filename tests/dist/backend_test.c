/* Names of ddp_backend: what a program for CPUs cannot use is refused in one line that names library and
   devices. */
#include "backend.h"
#include "comm.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void test_names(void **state) {
  (void)state;
  assert_null(ddp_backend_check(NULL, "cpu"));
  for (int i = 0; i < ddp_backend_count; i++) {
    const DdpBackendInfo *b = &ddp_backend_infos[i];
    assert_ptr_equal(ddp_backend_info(b->name), b);
    bool linked = strcmp(b->name, "gloo") == 0; /* the others are not in programs for CPUs */
    assert_true(linked == (ddp_backend_find(b->name) != NULL));
    for (int k = 0; k < 2; k++) {
      const char *target = k ? "cuda" : "cpu";
      DdpError *e = ddp_backend_check(b->name, target);
      bool serves = !b->later && (!strcmp(b->target, "cpu") || !strcmp(b->target, target));
      assert_true(serves == (e == NULL));
      if (!e) continue;
      assert_int_equal(e->klass, DDP_USAGE);
      if (b->later) assert_non_null(strstr(e->message, b->library));
      assert_non_null(strstr(e->message, b->devices));
      assert_non_null(strstr(e->message, k ? "--ddp_backend nccl" : "--ddp_backend gloo"));
      assert_null(strchr(e->message, '\n'));
      ddp_error_free(e);
    }
  }
  DdpError *e = ddp_backend_check("mpi", "cpu");
  assert_non_null(e);
  ddp_error_free(e);
}

/* What is missing is said piece by piece; where nothing is, nothing. */
static void test_missing(void **state) {
  (void)state;
  char text[256];
  const DdpBackendInfo none = {.name = "none",
                               .file = "/nowhere/device",
                               .library = "libnowhere.so.1",
                               .driver = "libnowhere_driver.so"};
  const DdpBackendInfo all = {
      .name = "all", .file = "/dev/null", .library = "libc.so.6", .driver = ""};
  ddp_backend_missing(&none, text, sizeof text);
  assert_string_equal(text, "no /nowhere/device, no libnowhere_driver.so, no libnowhere.so.1");
  ddp_backend_missing(&all, text, sizeof text);
  assert_string_equal(text, "");
  ddp_backend_missing(&none, text, 20); /* cut, not beyond its end */
  assert_int_equal(strlen(text), 19);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_missing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
