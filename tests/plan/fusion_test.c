/* Fused and unfused programs compute what the reference interpreter computes: random graphs,
   executed as planned, with memory as planned. Also: no two values that are alive together share
   memory, and fusion does not need more kernels than no fusion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "fuse.h"
#include "op.h"
#include "program_eval.h"
#include "random_graph.h"

enum { BATCH_MAX = 4 };
static const int64_t batches[] = {1, 3, BATCH_MAX};

static void show(const Graph *g, const Program *p, uint64_t seed, const char *what) {
  Text t = {0};
  ir_print(&t, g);
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    text_addf(&t, "kernel %u\n", i);
    if (p->kernels.at[i].nest) nest_print(&t, p->kernels.at[i].nest);
  }
  print_error("seed %llu: %s\n%s\n", (unsigned long long)seed, what, t.at);
  text_free(&t);
}

static int chunked, runs; /* kernels and programs that were run in chunks */

static void check_outputs(Arena *a, const Graph *g, const Program *p, uint64_t seed, int64_t batch,
                          bool together, int64_t samples) {
  double **want = graph_eval(a, g, batch);
  Results got = program_eval_in_chunks(a, p, batch, together, samples);
  chunked += got.chunked;
  if (got.fault) show(g, p, seed, got.fault);
  assert_null(got.fault);
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    int64_t n = type_elements_at(value_at(g, g->outputs.at[i].value)->type, batch);
    for (int64_t k = 0; k < n; k++) {
      double x = want[i][k], y = got.at[i][k];
      if (fabs(x - y) <= 1e-9 * (1 + fabs(x))) continue;
      show(g, p, seed, "an output differs");
      print_error("output %u element %lld: %g, not %g\n", i, (long long)k, y, x);
      fail();
    }
  }
}

static void check_memory(const Program *p) {
  for (Val v = 1; v < p->places.len; v++)
    for (Val w = 1; w < v; w++) {
      const ValuePlace *x = &p->places.at[v], *y = &p->places.at[w];
      if (x->home != HOME_block || y->home != HOME_block) continue;
      bool alive = x->first <= y->last && y->first <= x->last;
      Val of_x = x->updates ? x->updates : v, of_y = y->updates ? y->updates : w;
      if (of_x == of_y && p->chunk.count) continue; /* of other samples at the same time */
      if (of_x == of_y) { /* one takes the place of the other as that is read for the last time */
        assert_true(x->first >= y->last || y->first >= x->last);
        continue;
      }
      bool apart = x->offset + x->bytes <= y->offset || y->offset + y->bytes <= x->offset;
      assert_true(!alive || apart);
      assert_int_equal(x->offset % PLAN_ALIGN, 0);
      assert_true(x->offset + x->bytes <= p->block_bytes);
    }
}

static uint32_t run_one(uint64_t seed, int values, int outputs, bool no_fuse, bool in_order) {
  Arena *a = arena_new();
  Graph *g = random_graph(a, seed, values, outputs);
  ProgramOptions options = {
      .batch_max = BATCH_MAX, .no_fuse = no_fuse, .in_order = in_order, .epilogues = seed % 3 == 0};
  options.chunk = seed % 4 < 2 ? 0 : (int64_t)(seed % 4) - 1;
  Program p = {0};
  plan_program(&p, a, g, &options);
  check_memory(&p);
  runs += p.chunk.count > 0;
  for (int i = 0; i < 3; i++) {
    check_outputs(a, g, &p, seed, batches[i], false, 0);
    check_outputs(a, g, &p, seed, batches[i], false, 1 + (int64_t)(seed % 2));
    if (options.epilogues) check_outputs(a, g, &p, seed, batches[i], true, 0);
  }
  uint32_t kernels = p.kernels.len;
  arena_free(a);
  return kernels;
}

static void random_graphs(void **state) {
  (void)state;
  const char *many = getenv("PLAN_TEST_GRAPHS");
  int graphs = many ? atoi(many) : 300;
  const char *one = getenv("PLAN_TEST_SEED");
  uint32_t fused = 0, unfused = 0;
  for (int i = 0; i < graphs; i++) {
    uint64_t seed = one ? (uint64_t)atoll(one) : (uint64_t)i;
    int values = 8 + (int)(seed % 40), outputs = 1 + (int)(seed % 4);
    unfused += run_one(seed, values, outputs, true, false);
    fused += run_one(seed, values, outputs, false, seed % 2);
    if (one) break;
  }
  print_message("%u kernels fused, %u unfused\n", fused, unfused);
  print_message("%d kernels and %d programs in chunks\n", chunked, runs);
  assert_true(fused < unfused);
  assert_true(one || (chunked > graphs && runs > 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
