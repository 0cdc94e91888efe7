/* Lifting a graph over one sample to the batch gives, for every sample, what the sample alone gives. */
#include "analysis.h"
#include "ops.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above */
#include <cmocka.h>

enum { BATCH = 3 };

static double number(int64_t field, int64_t sample, int64_t k) {
  return (double)((field * 31 + sample * 17 + k * 7) % 13) / 4 - 1;
}

static int64_t first; /* sample that a graph over one sample stands for */

static void source(void *self, const Graph *g, Val v, double *out) {
  const Value *x = value_at(g, v);
  int64_t batch = *(const int64_t *)self, n = type_elements_at(x->type, batch), per = n / batch;
  assert_int_equal(x->op, OP_input);
  for (int64_t k = 0; k < n; k++) out[k] = number(x->attr[0].as.i, first + k / per, k % per);
}

static double *run(Arena *a, const Graph *g, int64_t batch, Val v) {
  return interp_run(a, g, &(Interp){.batch = batch, .source = source, .self = &batch})[v];
}

static void check(const char *body) {
  Arena *a = arena_new();
  const char *text = arena_printf(a, "graph sample {\n%s}\n", body);
  Graph *sample = ir_parse(a, source_add("sample.ir", text, strlen(text)));
  assert_non_null(sample);
  Graph *g = graph_new(a, "lifted", false);
  Val *map = ARENA_ARRAY(a, Val, sample->values.len), last = sample->values.len - 1;
  Val lifted = lift_value(g, sample, last, map, 0);
  assert_int_not_equal(lifted, NO_VAL);
  ir_verify(g, "lift");
  Type t = value_at(g, lifted)->type, s = value_at(sample, last)->type;
  assert_int_equal(t.rank, s.rank + 1);
  assert_true(t.dim[0].per_batch == 1 && t.dim[0].fixed == 0);
  int64_t per = type_elements_at(s, 1);
  first = 0;
  double *all = run(a, g, BATCH, lifted);
  for (first = 0; first < BATCH; first++) {
    double *one = run(a, sample, 1, last);
    for (int64_t k = 0; k < per; k++) assert_true(all[first * per + k] == one[k]);
  }
  arena_free(a);
}

#define X "%1 = input field=0 dtype=f32 shape=[2,3] : f32[2,3]\n"
#define Y "%2 = input field=1 dtype=f32 shape=[3] : f32[3]\n"
#define C "%3 = arange n=[3] : i64[3]\n"

static void test_ranks(void **state) {
  (void)state;
  check(X Y "%3 = mul %1, %2 : f32[2,3]\n");
  check(X Y C "%4 = add %2, %3 : f32[3]\n%5 = sub %4, %1 : f32[2,3]\n");
  check("%1 = input field=0 dtype=f32 shape=[] : f32[]\n" Y "%3 = div %2, %1 : f32[3]\n");
  check("%1 = arange n=[3] : i64[3]\n%2 = reshape %1 shape=[3,1] : i64[3,1]\n"
        "%3 = input field=1 dtype=f32 shape=[3] : f32[3]\n%4 = lt %3, %2 : bool[3,3]\n");
}

static void test_axes(void **state) {
  (void)state;
  check(X "%2 = sum %1 dim=[0] keepdim=false : f32[3]\n");
  check(X "%2 = sum %1 dim=[0,1] keepdim=false : f32[]\n");
  check(X "%2 = amax %1 dim=[1] keepdim=true : f32[2,1]\n");
  check(X "%2 = argmax %1 dim=[0] keepdim=false : i64[3]\n");
  check(X "%2 = permute %1 dims=[1,0] inverse=false : f32[3,2]\n");
  check(X "%2 = flip %1 dims=[1] : f32[2,3]\n");
  check(X Y "%3 = reshape %2 shape=[1,3] : f32[1,3]\n%4 = concat %1, %3 dim=[0] : f32[3,3]\n");
}

static void test_sizes(void **state) {
  (void)state;
  check(X "%2 = reshape %1 shape=[6] : f32[6]\n");
  check(X "%2 = expand %1 shape=[4,2,3] dim=[0] : f32[4,2,3]\n");
  check(X "%2 = slice %1 start=[1,0] stop=[2,3] step=[1,2] : f32[1,2]\n");
  check(X "%2 = pad %1 lo=[1,0] hi=[0,2] value=0.5 step=[1,1] : f32[3,5]\n");
}

static void test_mixtures(void **state) {
  (void)state;
  /* what is the same for all samples is broadcast where an op does not do it itself */
  check(Y "%1 = arange n=[3] : i64[3]\n%3 = cast %1 dtype=f32 : f32[3]\n"
          "%4 = concat %2, %3 dim=[0] : f32[6]\n");
  check(X "%2 = permute %1 dims=[1,0] inverse=false : f32[3,2]\n"
          "%3 = matmul %2, %1 ta=false tb=false : f32[3,3]\n");
  check(C); /* nothing of a sample at all: the same for each */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranks), cmocka_unit_test(test_axes),
                                     cmocka_unit_test(test_sizes), cmocka_unit_test(test_mixtures)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
