/* Random graphs through plan and emitter, compiled and run, against the reference interpreter: fused
   stages, views, guards, reductions in scalars and in memory, at several batch sizes; where the graph has a part
   that may be, in chunks of samples; as kernels of GPUs every other one with
   indices of 64 bits. */
#include "emitted.h"
#include "random_graph.h"
#include "program_eval.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GRAPHS = 120, VALUES = 24, OUTPUTS = 3, BATCH_MAX = 4 };

typedef struct Draws {
  int64_t batch;
} Draws;

static void source(void *self, const Graph *g, Val v, double *out) {
  Draws *s = self;
  if (op_has(value_at(g, v)->op, OPF_random))
    emitted_draw(g, v, s->batch, out);
  else
    sample_source(&s->batch, g, v, out);
}

static void compare(Arena *a, Emitted *e, int number, const Graph *g, uint64_t seed,
                    int64_t batch) {
  Draws s = {batch};
  Interp how = {.batch = batch, .round_f32 = true, .source = source, .self = &s};
  double **all = interp_run(a, g, &how), *got[OUTPUTS];
  for (uint32_t i = 0; i < g->outputs.len; i++)
    got[i] = ARENA_ARRAY(a, double,
                         type_elements_at(value_at(g, g->outputs.at[i].value)->type, batch) + 1);
  emitted_run(e, number, batch, source, &s, got);
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    const double *want = all[g->outputs.at[i].value];
    int64_t n = type_elements_at(value_at(g, g->outputs.at[i].value)->type, batch);
    for (int64_t k = 0; k < n; k++) {
      bool same = isnan(want[k]) ? isnan(got[i][k]) != 0 : got[i][k] == want[k];
      if (same || fabs(got[i][k] - want[k]) <= 1e-4 * (1 + fabs(want[k]))) continue;
      Text t = {0};
      ir_print(&t, g);
      print_error("seed %llu, batch %lld, output %u, element %lld: %.9g, should be %.9g\n%s",
                  (unsigned long long)seed, (long long)batch, i, (long long)k, got[i][k], want[k],
                  t.at);
      fail();
    }
  }
}

static void agree(const char *cc, const char *flags) {
  Arena *a = arena_new();
  Emitted *e = emitted_new(a, &TEST_TARGET);
  Graph *graphs[GRAPHS];
  int numbers[GRAPHS], in_chunks = 0;
  for (int i = 0; i < GRAPHS; i++) {
    graphs[i] = random_graph(a, (uint64_t)i, VALUES, OUTPUTS);
    emitted_wide(e, i % 2);
    numbers[i] = emitted_add(e, graphs[i], BATCH_MAX, i % 3);
    in_chunks += emitted_program(e, numbers[i])->chunk.count > 0;
  }
  print_message("%d graphs with a part in chunks of samples\n", in_chunks);
  assert_true(in_chunks > 0);
  emitted_build(e, cc, flags);
  for (int i = 0; i < GRAPHS; i++)
    for (int64_t batch = 1; batch <= BATCH_MAX; batch += 3)
      compare(a, e, numbers[i], graphs[i], (uint64_t)i, batch);
  arena_free(a);
}

#ifdef TEST_CUDA
static void cuda_emulated(void **state) {
  (void)state;
  agree("g++", "-O1");
}
#else
static void gcc_vectors(void **state) {
  (void)state;
  agree("gcc", "-O2 -ftree-vectorize -march=native");
}
static void clang_checked(void **state) {
  (void)state;
  if (system("clang --version > /dev/null 2>&1")) skip();
  agree("clang", "-O1 -fsanitize=bounds,signed-integer-overflow,shift,null -fsanitize-trap=all");
}

#endif

int main(void) {
  const struct CMUnitTest tests[] = {
#ifdef TEST_CUDA
      cmocka_unit_test(cuda_emulated),
#else
      cmocka_unit_test(gcc_vectors),
      cmocka_unit_test(clang_checked),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
