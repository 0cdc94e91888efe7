/* Reports of wrong results, each at the edges of its versions, architectures and shapes. */
#include "cudnn_refuse.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static DdpCudnnAttention gpt2(void) {
  DdpCudnnAttention a = {.type = DDP_bf16, .causal = 1, .backward = 1, .batch = 8};
  a.heads = a.groups = 12;
  a.t = a.s = 1024;
  a.k = a.v = 64;
  return a;
}

static void trusted(void **state) {
  (void)state;
  const DdpCudnnAttention a = gpt2();
  static const int sm[] = {80, 90, 100};
  for (int i = 0; i < 3; i++) {
    assert_null(cudnn_refuses(91900, sm[i]));
    assert_null(cudnn_refuses_attention(&a, 91900, sm[i]));
  }
}

static void versions(void **state) {
  (void)state;
  assert_non_null(cudnn_refuses(90799, 90));
  assert_null(cudnn_refuses(90800, 90));
  assert_non_null(cudnn_refuses(91900, 75));
  DdpCudnnAttention a = gpt2();
  assert_null(cudnn_refuses_attention(&a, 91799, 80));
  assert_non_null(cudnn_refuses_attention(&a, 91799, 90));
  assert_null(cudnn_refuses_attention(&a, 91800, 90));
  a.backward = 0;
  assert_null(cudnn_refuses_attention(&a, 91799, 90));
  assert_null(cudnn_refuses_attention(&a, 90999, 80));
  assert_non_null(cudnn_refuses_attention(&a, 91000, 80));
  assert_non_null(cudnn_refuses_attention(&a, 91001, 80));
  assert_null(cudnn_refuses_attention(&a, 91002, 80));
}

static void shapes(void **state) {
  (void)state;
  DdpCudnnAttention a = gpt2();
  a.t = a.s = 1000; /* fills no tile */
  assert_non_null(cudnn_refuses_attention(&a, 91500, 80));
  assert_null(cudnn_refuses_attention(&a, 91501, 80));
  assert_null(cudnn_refuses_attention(&a, 92500, 90));
  a.causal = 0;
  assert_non_null(cudnn_refuses_attention(&a, 92500, 90));
  assert_null(cudnn_refuses_attention(&a, 92600, 90));
  assert_null(cudnn_refuses_attention(&a, 92500, 100));
  a = gpt2();
  a.t = 1;
  assert_non_null(cudnn_refuses_attention(&a, 92600, 90));
  assert_null(cudnn_refuses_attention(&a, 92600, 80));
  a = gpt2();
  a.groups = 4;
  assert_non_null(cudnn_refuses_attention(&a, 91900, 100));
  assert_null(cudnn_refuses_attention(&a, 91899, 100));
  assert_null(cudnn_refuses_attention(&a, 91900, 90));
  a.heads = 4; /* few heads, but none is shared */
  assert_null(cudnn_refuses_attention(&a, 91900, 100));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(trusted), cmocka_unit_test(versions),
                                     cmocka_unit_test(shapes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
