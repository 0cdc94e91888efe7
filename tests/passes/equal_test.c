/* Passes change no number: random graphs, some parameters of which are constants, give the same bits
   before and after fold, cse and decompose (zeros of either sign are equal). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "passes.h"
#include "ops.h"
#include "random_graph.h"
#include "rewrite.h"
#include <math.h>
#include <stdio.h>

enum { BATCH = 3, GRAPHS = 300 };

/* Numbers of a source depend on what it names alone. */
static void fill(void *self, const Graph *g, Val v, double *out) {
  (void)self;
  const Value *x = value_at(g, v);
  int named = op_has(x->op, OPF_random) ? op_attr(x->op, "site") : 0;
  uint64_t h = (uint64_t)x->attr[named].as.i * 977 + (uint64_t)x->op;
  for (int64_t k = 0; k < type_elements_at(x->type, BATCH); k++) {
    h = text_hash(&k, sizeof k, h);
    double u = (double)(h >> 40) * 0x1p-24;
    if (x->op == OP_randint)
      out[k] = (double)x->attr[0].as.i + floor(u * (double)(x->attr[1].as.i - x->attr[0].as.i));
    else if (x->op == OP_bernoulli)
      out[k] = u < x->attr[0].as.f;
    else
      out[k] = dtype_category(x->type.dtype) == 'f' ? 4 * u - 2 : floor(4 * u);
  }
}

/* Two parameters of three become constants, most of them those that fold has rules for. */
static Graph *with_constants(const Graph *g) {
  static const double numbers[] = {0, 1, -1, 0.5, 2, 4, -INFINITY, INFINITY, 0.3};
  Rewrite r = rewrite_begin(g);
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    uint64_t h = text_hash(&v, sizeof v, g->values.len);
    if (x->op != OP_param || dtype_category(x->type.dtype) != 'f' || h % 3 == 0) {
      r.map[v] = ir_copy(r.to, g, v, r.map);
      continue;
    }
    double c = numbers[(h >> 8) % (sizeof numbers / sizeof *numbers)];
    Attr attrs[IR_MAX_ATTRS] = {{.as.dims.len = x->type.rank}, {.as.ints.len = -1}};
    for (int i = 0; i < x->type.rank; i++) attrs[0].as.dims.at[i] = x->type.dim[i];
    Val k = ir_const(r.to, c, x->type.dtype, x->at, 0);
    r.map[v] = ir_must(r.to, OP_expand, &k, 1, attrs, x->at, 0);
  }
  return rewrite_end(&r);
}

static Graph *run_all(Graph *g) {
  g = pass_fold(g, NULL);
  ir_verify(g, "fold");
  g = pass_cse(g);
  ir_verify(g, "cse");
  g = pass_decompose(g);
  ir_verify(g, "decompose");
  g = pass_dce(pass_cse(pass_fold(g, NULL)));
  ir_verify(g, "fold2");
  return g;
}

static void compare(Arena *a, const Graph *before, const Graph *after, int seed) {
  Interp how = {.batch = BATCH, .round_f32 = true, .source = fill};
  double **x = interp_run(a, before, &how), **y = interp_run(a, after, &how);
  assert_int_equal(before->outputs.len, after->outputs.len);
  for (uint32_t i = 0; i < before->outputs.len; i++) {
    Val u = before->outputs.at[i].value, v = after->outputs.at[i].value;
    assert_true(type_equal(value_at(before, u)->type, value_at(after, v)->type));
    for (int64_t k = 0; k < type_elements_at(value_at(before, u)->type, BATCH); k++) {
      if (x[u][k] == y[v][k] || (isnan(x[u][k]) && isnan(y[v][k]))) continue;
      Text t = {0};
      ir_print(&t, before);
      ir_print(&t, after);
      fail_msg("graph %d, output %u, element %d: %g became %g\n%s", seed, i, (int)k, x[u][k],
               y[v][k], t.at);
    }
  }
}

static void test_equal(void **state) {
  (void)state;
  uint32_t smaller = 0;
  for (int seed = 1; seed <= GRAPHS; seed++) {
    Arena *a = arena_new();
    Graph *g = with_constants(random_graph(a, (uint64_t)seed, 30, 5));
    ir_verify(g, "made");
    Graph *plain = pass_dce(g), *done = run_all(g);
    compare(a, plain, done, seed);
    smaller += done->values.len < plain->values.len;
    arena_free(a);
  }
  assert_true(smaller > GRAPHS / 2); /* there was something to fold */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equal)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
