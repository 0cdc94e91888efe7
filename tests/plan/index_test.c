/* Index algebra: expressions keep a clean affine form, and exact divisions disappear. Random
   expressions are compared with plain arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "nest.h"

static const Dim B = {1, 0};

static void expect(const Nest *n, NestIndex ix, const char *want) {
  Text t = {0};
  nest_ix_print(&t, n, ix);
  assert_string_equal(t.at, want);
  text_free(&t);
}

static Nest *nest_of(Arena *a, const Dim *extent, int loops) {
  Nest *n = nest_new(a, graph_new(a, "test", false));
  for (int i = 0; i < loops; i++) nest_loop(n, extent[i], false);
  return n;
}

static Type shape(int rank, const Dim *dim) {
  Type t = {.dtype = DT_f32, .rank = rank};
  for (int i = 0; i < rank; i++) t.dim[i] = dim[i];
  return t;
}

static void affine_forms(void **state) {
  (void)state;
  Arena *a = arena_new();
  Nest *n = nest_of(a, (Dim[]){B, dim_of(64), dim_of(1), dim_of(8)}, 4);
  NestIndex i = nest_ix_loop(n, 0), j = nest_ix_loop(n, 1), one = nest_ix_loop(n, 2);
  expect(n, nest_ix_flat(n, shape(2, (Dim[]){B, dim_of(64)}), (NestIndex[]){i, j}), "i0*64 + i1");
  expect(n, nest_ix_flat(n, shape(3, (Dim[]){B, dim_of(1), dim_of(64)}), (NestIndex[]){i, one, j}),
         "i0*64 + i1");
  expect(n, nest_ix_flat(n, shape(2, (Dim[]){dim_of(64), B}), (NestIndex[]){j, i}), "i0 + i1*B");
  assert_int_equal(nest_ix_add(n, i, j), nest_ix_add(n, j, i)); /* one node */
  NestIndex back = nest_ix_add(n, nest_ix_const(n, dim_of(63)), nest_ix_mul(n, j, dim_of(-1)));
  expect(n, nest_ix_add(n, back, j), "63");
  Dim low, high;
  assert_true(nest_ix_range(n, back, &low, &high));
  assert_true(dim_is(low, 0) && dim_is(high, 63));
  arena_free(a);
}

static void exact_divisions(void **state) {
  (void)state;
  Arena *a = arena_new();
  Nest *n = nest_of(a, (Dim[]){B, dim_of(64), dim_of(8), {2, 0}}, 4);
  NestIndex i = nest_ix_loop(n, 0), j = nest_ix_loop(n, 1), k = nest_ix_loop(n, 2);
  NestIndex flat = nest_ix_add(n, nest_ix_mul(n, i, dim_of(64)), j);
  expect(n, nest_ix_div(n, flat, dim_of(64)), "i0");
  expect(n, nest_ix_mod(n, flat, dim_of(64)), "i1");
  expect(n, nest_ix_mod(n, flat, dim_of(16)), "i1 % 16");
  expect(n, nest_ix_div(n, flat, dim_of(16)), "i0*4 + i1 / 16");
  expect(n, nest_ix_div(n, nest_ix_div(n, flat, dim_of(4)), dim_of(16)), "i0");
  /* (x / k) * k + x % k = x */
  NestIndex x = nest_ix_add(n, nest_ix_mul(n, nest_ix_div(n, j, dim_of(8)), dim_of(8)),
                            nest_ix_mod(n, j, dim_of(8)));
  expect(n, x, "i1");
  /* [B, 8, 8] seen as [B, 64] and back */
  NestIndex at[3];
  nest_ix_unflat(n, shape(3, (Dim[]){B, dim_of(8), dim_of(8)}), flat, at);
  expect(n, at[0], "i0");
  expect(n, at[1], "i1 / 8");
  expect(n, at[2], "i1 % 8");
  expect(n, nest_ix_flat(n, shape(3, (Dim[]){B, dim_of(8), dim_of(8)}), at), "i0*64 + i1");
  /* 8*j + k with k < 8: remainder and quotient by 64 look at j alone */
  NestIndex wide = nest_ix_add(n, nest_ix_mul(n, j, dim_of(8)), k);
  expect(n, nest_ix_mod(n, wide, dim_of(64)), "i2 + (i1 % 8)*8");
  expect(n, nest_ix_div(n, wide, dim_of(64)), "i1 / 8");
  /* 2B rows: exact by the batch */
  NestIndex rows = nest_ix_add(n, nest_ix_mul(n, k, B), i);
  expect(n, nest_ix_div(n, rows, B), "i2");
  expect(n, nest_ix_mod(n, rows, B), "i0");
  arena_free(a);
}

static void batch_squared(void **state) {
  (void)state;
  Arena *a = arena_new();
  Nest *n = nest_of(a, (Dim[]){B, B, B}, 3);
  NestIndex at[3] = {nest_ix_loop(n, 0), nest_ix_loop(n, 1), nest_ix_loop(n, 2)};
  NestIndex flat = nest_ix_flat(n, shape(3, (Dim[]){B, B, B}), at);
  NestIndex back[3];
  nest_ix_unflat(n, shape(3, (Dim[]){B, B, B}), flat, back);
  for (int i = 1; i < 3; i++) assert_int_equal(at[i], back[i]);
  arena_free(a);
}

/* ---------- random expressions against arithmetic ---------- */
static int64_t value(const Nest *n, NestIndex ix, const int64_t *loop, int64_t batch) {
  const Ix *x = &n->ix.at[ix];
  int64_t k = dim_at(x->value, batch);
  switch (x->kind) {
  case IX_const:
    return k;
  case IX_loop:
    return loop[x->loop];
  case IX_add:
    return value(n, x->left, loop, batch) + value(n, x->right, loop, batch);
  case IX_mul:
    return value(n, x->left, loop, batch) * k;
  case IX_div:
    return value(n, x->left, loop, batch) / k;
  case IX_mod:
    return value(n, x->left, loop, batch) % k;
  case IX_temp:
    break;
  }
  return -1;
}

enum { LOOPS = 4, POOL = 14, BATCHES = 5 };
static void random_expressions(void **state) {
  (void)state;
  static const Dim factor[] = {{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 6}, {1, 0}, {2, 0}};
  srand(7);
  for (int round = 0; round < 3000; round++) {
    Arena *a = arena_new();
    Dim extent[LOOPS];
    for (int i = 0; i < LOOPS; i++) extent[i] = factor[1 + rand() % 6];
    Nest *n = nest_of(a, extent, LOOPS);
    NestIndex ix[POOL];
    int64_t loop[BATCHES][LOOPS], want[BATCHES][POOL];
    for (int b = 0; b < BATCHES; b++)
      for (int i = 0; i < LOOPS; i++) loop[b][i] = rand() % (int)dim_at(extent[i], b + 1);
    for (int i = 0; i < POOL; i++) {
      int kind = i < LOOPS ? -1 : rand() % 5, l = rand() % (i ? i : 1), r = rand() % (i ? i : 1);
      Dim k = factor[rand() % 7];
      if (kind < 0)
        ix[i] = nest_ix_loop(n, (uint32_t)i);
      else if (kind <= 1)
        ix[i] = nest_ix_add(n, ix[l], ix[r]);
      else if (kind == 2)
        ix[i] = nest_ix_mul(n, ix[l], k);
      else if (kind == 3)
        ix[i] = nest_ix_div(n, ix[l], k);
      else
        ix[i] = nest_ix_mod(n, ix[l], k);
      for (int b = 0; b < BATCHES; b++) {
        int64_t kb = dim_at(k, b + 1), x = kind < 0 ? loop[b][i] : want[b][l];
        want[b][i] = kind < 0    ? x
                     : kind <= 1 ? x + want[b][r]
                     : kind == 2 ? x * kb
                     : kind == 3 ? x / kb
                                 : x % kb;
        assert_int_equal(value(n, ix[i], loop[b], b + 1), want[b][i]);
        Dim low, high;
        if (nest_ix_range(n, ix[i], &low, &high)) {
          assert_true(want[b][i] >= dim_at(low, b + 1));
          assert_true(want[b][i] <= dim_at(high, b + 1));
        }
      }
    }
    arena_free(a);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(affine_forms), cmocka_unit_test(exact_divisions),
      cmocka_unit_test(batch_squared), cmocka_unit_test(random_expressions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
