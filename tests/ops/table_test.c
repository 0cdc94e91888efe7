/* The op table: every row infers, runs, prints and reads back on its samples; C expressions mean
   what libm says; results of hand; the type rules' promotion, broadcasting and messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "diag.h"
#include "sample.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static Arena *arena;

/* ---------- rows ---------- */
static void each_sample(void (*f)(const Sample *s)) {
  for (int op = OP_none + 1; op < OP_COUNT; op++) {
    Sample s[SAMPLES_MAX];
    int n = samples_of(arena, (OpKind)op, s);
    for (int i = 0; i < n; i++) f(&s[i]);
  }
}

static void verify(const Sample *s) {
  ir_verify(s->g, "sample");
}
static void test_infer(void **state) {
  (void)state;
  each_sample(verify);
}

static void round_trip(const Sample *s) {
  Text first = {0}, second = {0};
  ir_print(&first, s->g);
  uint32_t file = source_add("sample.ir", arena_strdup(arena, first.at), first.len);
  Graph *again = ir_parse(arena, file);
  assert_non_null(again);
  ir_verify(again, "parse");
  ir_print(&second, again);
  assert_string_equal(first.at, second.at);
  text_free(&first);
  text_free(&second);
}
static void test_round_trip(void **state) {
  (void)state;
  each_sample(round_trip);
}

static void run(const Sample *s) {
  double *in[IR_MAX_INPUTS];
  for (int i = 0; i < s->inputs; i++)
    in[i] = ARENA_ARRAY(arena, double, sample_count(s->g, s->in[i]));
  sample_fill(s, 7, in);
  const double *y = sample_run(arena, s, s->g, s->y, in);
  for (int64_t k = 0; k < sample_count(s->g, s->y); k++)
    if (isnan(y[k])) fail_msg("%s gives NaN in its domain", op_def(s->op)->name);
}
static void test_run(void **state) {
  (void)state;
  each_sample(run);
}

static void test_rows(void **state) {
  (void)state;
  for (int op = OP_none + 1; op < OP_COUNT; op++) {
    const OpDef *d = op_def((OpKind)op);
    OpKind found;
    assert_true(op_find(d->name, &found) && (int)found == op);
    assert_non_null(d->infer);
    if (!(d->flags & OPF_source)) assert_non_null(d->interpret);
    bool view = (d->flags & OPF_view) != 0;
    if (view) assert_non_null(d->lower);
    if (d->flags & (OPF_library | OPF_reduce)) assert_null(d->lower);
    for (int i = 0; i < d->inputs; i++) assert_non_null(d->grad[i]);
    if (d->flags & OPF_random) assert_int_equal(op_attr((OpKind)op, "shape"), d->attrs - 1);
  }
}

static void test_reference_page(void **state) {
  (void)state;
  Text t = {0};
  ops_print_table(&t);
  assert_non_null(strstr(t.at, "| `exp` | 1 |  | `F(exp)(a)` | `g * y` |"));
  assert_non_null(strstr(t.at, "`dim = none`, `keepdim = false`"));
  text_free(&t);
}

/* ---------- C expressions against libm ---------- */
static double ref_mod(double a, double b) {
  return a - b * floor(a / b);
}
static double ref_floordiv(double a, double b) {
  return floor(a / b);
}
static double ref_rsqrt(double a) {
  return pow(a, -0.5);
}
static double ref_sign(double a) {
  return a > 0 ? 1 : a < 0 ? -1 : 0;
}
static double ref_neg(double a) {
  return -a;
}
static double ref_add(double a, double b) {
  return a + b;
}
static double ref_sub(double a, double b) {
  return a - b;
}
static double ref_mul(double a, double b) {
  return a * b;
}
static double ref_div(double a, double b) {
  return a / b;
}

static void test_unary(void **state) {
  (void)state;
  static const struct {
    OpKind op;
    double (*f)(double);
  } table[] = {{OP_exp, exp},    {OP_expm1, expm1}, {OP_log, log},       {OP_log1p, log1p},
               {OP_sqrt, sqrt},  {OP_sin, sin},     {OP_cos, cos},       {OP_tanh, tanh},
               {OP_erf, erf},    {OP_abs, fabs},    {OP_floor, floor},   {OP_ceil, ceil},
               {OP_round, rint}, {OP_neg, ref_neg}, {OP_sign, ref_sign}, {OP_rsqrt, ref_rsqrt}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    const OpDef *d = op_def(table[i].op);
    for (double x = -3.3; x < 4; x += 0.37) {
      double want = table[i].f(x), got = d->eval(x, 0, 0);
      if (isnan(want))
        assert_true(isnan(got));
      else if (fabs(got - want) > 1e-15 * fabs(want))
        fail_msg("%s(%g)", d->name, x);
    }
  }
}

static void test_binary(void **state) {
  (void)state;
  static const struct {
    OpKind op;
    double (*f)(double, double);
  } table[] = {{OP_pow, pow},     {OP_maximum, fmax},          {OP_minimum, fmin},
               {OP_mod, ref_mod}, {OP_floordiv, ref_floordiv}, {OP_add, ref_add},
               {OP_sub, ref_sub}, {OP_mul, ref_mul},           {OP_div, ref_div}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    const OpDef *d = op_def(table[i].op);
    for (double x = -3.3; x < 4; x += 0.37)
      for (double y = -2.9; y < 3; y += 0.43) {
        double want = table[i].f(x, y), got = d->eval(x, y, 0);
        if (isnan(want))
          assert_true(isnan(got));
        else if (fabs(got - want) > 1e-12)
          fail_msg("%s(%g, %g): %g, %g", d->name, x, y, got, want);
      }
  }
}

static void test_corners(void **state) {
  (void)state;
  const OpDef *maximum = op_def(OP_maximum), *minimum = op_def(OP_minimum);
  assert_true(isnan(maximum->eval(NAN, 1, 0)) && isnan(maximum->eval(1, NAN, 0)));
  assert_true(isnan(minimum->eval(NAN, 1, 0)) && isnan(minimum->eval(1, NAN, 0)));
  assert_true(maximum->eval(-INFINITY, 3, 0) == 3);
  assert_true(op_def(OP_mod)->eval(-7, 3, 0) == 2 && op_def(OP_mod)->eval(7, -3, 0) == -2);
  assert_true(op_def(OP_floordiv)->eval(-7, 2, 0) == -4);
  assert_true(op_def(OP_round)->eval(2.5, 0, 0) == 2 && op_def(OP_round)->eval(3.5, 0, 0) == 4);
  assert_true(op_def(OP_isnan)->eval(NAN, 0, 0) == 1 && op_def(OP_isnan)->eval(1, 0, 0) == 0);
  assert_true(op_def(OP_where)->eval(1, 2, NAN) == 2);
}

/* ---------- by hand ---------- */
/* Runs a graph written as text whose only sources are constants; result of output 0. */
static Graph *read_graph(const char *text) {
  uint32_t file = source_add("test.ir", arena_strdup(arena, text), strlen(text));
  return ir_parse(arena, file);
}

static void give_counted(void *self, const Graph *g, Val v, double *out) {
  (void)self; /* 1, 2, 3 ... */
  for (int64_t k = 0; k < sample_count(g, v); k++) out[k] = (double)k + 1;
}

static void expect(const char *body, int n, const double *want) {
  Graph *g = read_graph(arena_printf(arena, "graph t {\n%s\n}\n", body));
  assert_non_null(g);
  ir_verify(g, "parse");
  Interp how = {.batch = SAMPLE_BATCH, .source = give_counted};
  Val y = g->outputs.at[0].value;
  const double *got = interp_run(arena, g, &how)[y];
  assert_int_equal(sample_count(g, y), n);
  for (int k = 0; k < n; k++)
    if (fabs(got[k] - want[k]) > 1e-12)
      fail_msg("element %d: %g, not %g in\n%s", k, got[k], want[k], body);
}
#define EXPECT(body, ...)                                                                          \
  expect(body "\nout value 0 %9", sizeof((double[]){__VA_ARGS__}) / sizeof(double),                \
         (double[]){__VA_ARGS__})
#define X23 "%1 = input field=0 dtype=f32 shape=[2,3]\n"

static void test_by_hand(void **state) {
  (void)state;
  EXPECT(X23 "%9 = sum %1 dim=[1] : f32[2]", 6, 15);
  EXPECT(X23 "%9 = sum %1 : f32[]", 21);
  EXPECT(X23 "%9 = sum %1 dim=[-2] keepdim=true : f32[1,3]", 5, 7, 9);
  EXPECT(X23 "%9 = amax %1 dim=[0] : f32[3]", 4, 5, 6);
  EXPECT(X23 "%9 = argmax %1 dim=[1] : i64[2]", 2, 2);
  EXPECT(X23 "%9 = logsumexp %1 dim=[0] : f32[3]", 4.0485873515737421, 5.0485873515737421,
         6.0485873515737421);
  EXPECT(X23 "%9 = reshape %1 shape=[3,-1] : f32[3,2]", 1, 2, 3, 4, 5, 6);
  EXPECT(X23 "%9 = permute %1 dims=[1,0] : f32[3,2]", 1, 4, 2, 5, 3, 6);
  EXPECT(X23 "%9 = slice %1 start=[0,1] stop=[2,3] : f32[2,2]", 2, 3, 5, 6);
  EXPECT(X23 "%9 = slice %1 start=[0,-3] stop=[9,9] step=[1,2] : f32[2,2]", 1, 3, 4, 6);
  EXPECT(X23
         "%2 = slice %1 start=[0,0] stop=[1,3]\n%9 = pad %2 lo=[1,0] hi=[0,1] value=7.0 : f32[2,4]",
         7, 7, 7, 7, 1, 2, 3, 7);
  EXPECT(
      X23
      "%2 = slice %1 start=[0,0] stop=[1,2]\n%9 = pad %2 lo=[0,1] hi=[0,0] step=[1,2] : f32[1,4]",
      0, 1, 0, 2);
  EXPECT(X23 "%9 = flip %1 dims=[1] : f32[2,3]", 3, 2, 1, 6, 5, 4);
  EXPECT(X23 "%9 = concat %1, %1 dim=[0] : f32[4,3]", 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6);
  EXPECT("%1 = arange n=[3]\n%9 = expand %1 shape=[3,2] dim=[1] : i64[3,2]", 0, 0, 1, 1, 2, 2);
  EXPECT("%9 = arange n=[B]", 0, 1, 2);
  EXPECT("%9 = dimval size=[2B+1] : i64[]", 7);
  EXPECT(X23
         "%2 = arange n=[2]\n%3 = reshape %2 shape=[2,1]\n%9 = gather %1, %3 dim=[1] : f32[2,1]",
         1, 5);
  EXPECT(X23
         "%2 = const value=1.0 dtype=i64\n%3 = reshape %2 shape=[1]\n%9 = rows %1, %3 : f32[1,3]",
         4, 5, 6);
  EXPECT(X23 "%2 = const value=1.0 dtype=i64\n%3 = expand %2 shape=[2]\n%9 = rows_add %3, %1 n=[2] "
             ": f32[2,3]",
         0, 0, 0, 5, 7, 9);
  EXPECT(X23 "%9 = matmul %1, %1 tb=true : f32[2,2]", 14, 32, 32, 77);
  EXPECT(X23 "%9 = matmul %1, %1 ta=true : f32[3,3]", 17, 22, 27, 22, 29, 36, 27, 36, 45);
  EXPECT("%1 = input field=0 dtype=u8 shape=[2]\n%2 = sub %1, %1\n%3 = sub %2, %1\n%9 = add %3, %3 "
         ": u8[2]",
         254, 252);
  EXPECT("%1 = input field=0 dtype=f32 shape=[4]\n%2 = const value=2.0\n%3 = lt %1, %2\n%9 = cast "
         "%3 dtype=i64",
         1, 0, 0, 0);
}

/* ---------- type rules ---------- */
static void type_is(const char *body, const char *want) {
  Graph *g = read_graph(arena_printf(arena, "graph t {\n%s\nout value 0 %%9\n}\n", body));
  assert_non_null(g);
  Text t = {0};
  type_print(&t, value_at(g, g->outputs.at[0].value)->type);
  assert_string_equal(t.at, want);
  text_free(&t);
}

static void test_promotion(void **state) {
  (void)state;
#define IN(n, type) "%" #n " = input field=" #n " dtype=" type "\n"
  type_is(IN(1, "u8 shape=[B,4]") IN(2, "i64 shape=[4]") "%9 = add %1, %2", "i64[B,4]");
  type_is(IN(1, "u8 shape=[B,4]") "%2 = const value=300.0 dtype=i64\n%9 = mul %1, %2", "u8[B,4]");
  type_is(IN(1, "u8 shape=[B,4]") "%2 = const value=255.0\n%9 = mul %1, %2", "f32[B,4]");
  type_is(IN(1, "u8 shape=[B,4]") "%2 = const value=255.0 dtype=i64\n%9 = div %1, %2", "f32[B,4]");
  type_is(IN(1, "f32 shape=[3]") "%2 = host name=\"lr\" dtype=f64\n%9 = mul %1, %2", "f32[3]");
  type_is(IN(1, "f32 shape=[3]") IN(2, "f64 shape=[1]") "%9 = mul %1, %2", "f64[3]");
  type_is("%1 = host name=\"step\" dtype=i64\n%2 = const value=0.5\n%9 = pow %2, %1", "f32[]");
  type_is("%1 = host name=\"lr\" dtype=f64\n%2 = const value=0.5\n%9 = mul %1, %2", "f64[]");
  type_is(IN(1, "bf16 shape=[3]") IN(2, "f16 shape=[3]") "%9 = add %1, %2", "f32[3]");
  type_is(IN(1, "bool shape=[B,3]") "%9 = sum %1", "i64[]");
  type_is(IN(1, "u8 shape=[B,3]") "%9 = sum %1 dim=[1]", "i64[B]");
  type_is(IN(1, "i64 shape=[3]") "%9 = exp %1", "f32[3]");
  type_is(IN(1, "i64 shape=[3]") "%9 = floor %1", "i64[3]");
  type_is(
      "%1 = bernoulli p=0.5 site=1 data=false shape=[B,3]\n%2 = const value=0.5\n%9 = div %1, %2",
      "f32[B,3]");
  type_is(IN(1, "f32 shape=[B,4]") IN(2, "f32 shape=[B,4]") "%9 = matmul %1, %2 tb=true",
          "f32[B,B]");
  type_is(IN(1, "f32 shape=[B,7,4]") "%9 = reshape %1 shape=[-1,4]", "f32[7B,4]");
  type_is(IN(1, "f32 shape=[B,4]") "%9 = slice %1 start=[1,0] stop=[B,-1]", "f32[B-1,3]");
  type_is(IN(1, "f32 shape=[B,4]") "%9 = concat %1, %1 dim=[0]", "f32[2B,4]");
}

static void refused(const char *body, const char *code) {
  FILE *out = tmpfile();
  char text[2048];
  assert_null(read_graph(arena_printf(arena, "graph t {\n%s\n}\n", body)));
  diag_flush(out, false);
  rewind(out);
  text[fread(text, 1, sizeof text - 1, out)] = 0;
  fclose(out);
  if (!strstr(text, code)) fail_msg("%s expected, not:\n%s", code, text);
}

static void test_refused(void **state) {
  (void)state;
  refused(IN(1, "f32 shape=[B,4]") IN(2, "f32 shape=[3]") "%9 = add %1, %2", "E0415");
  refused(IN(1, "f32 shape=[B,4]") IN(2, "f32 shape=[3,5]") "%9 = matmul %1, %2", "E0405");
  refused(IN(1, "f32 shape=[B,4]") IN(2, "f32 shape=[3]") "%9 = matmul %1, %2", "E0406");
  refused(IN(1, "i64 shape=[4,4]") "%9 = matmul %1, %1", "E0506");
  refused(IN(1, "f32 shape=[B,4]") "%9 = reshape %1 shape=[B,5]", "E0416");
  refused(IN(1, "f32 shape=[B,4]") "%9 = sum %1 dim=[2]", "E0412");
  refused(IN(1, "f32 shape=[B,4]") "%9 = sum %1 dim=[1,-1]", "E0412");
  refused(IN(1, "f32 shape=[B,4]") "%9 = slice %1 start=[0,3] stop=[B,2]", "E0410");
  refused(IN(1, "f32 shape=[B,4]") "%9 = gather %1, %1 dim=[1]", "E0506");
  refused(IN(1, "bool shape=[B,4]") "%9 = add %1, %1", "E0506");
  refused(IN(1, "f32 shape=[B,4]") "%9 = not %1", "E0506");
  refused(IN(1, "f32 shape=[4]") "%9 = add %1", "E0503");
  refused(IN(1, "f32 shape=[4]") "%9 = exp %1 : f64[4]", "E0518");
  refused("%9 = exp %8", "E0301");
  refused("%9 = relo %8", "E0301");
  refused("%1 = const", "E0503");
  refused("%1 = const value=1.0 valu=2", "E0502");
  refused("%1 = const value=1.0\n%1 = const value=1.0", "E0302");
  refused("%1 = const value=x", "E0201");
  refused("%1 = const value=1.0\nout nothing 0 %1", "E0201");
}

static void test_scopes(void **state) {
  (void)state;
  Graph *g = read_graph(
      "; two layers\ngraph train training {\n  %4 = const value=0.1   ; net.fc1 job.ddp:31\n"
      "  %7 = neg %4   ; net.fc1.act\n  out loss 0 %7\n}\n");
  assert_non_null(g);
  assert_true(g->training);
  assert_string_equal(graph_scope_path(arena, g, value_at(g, 2)->scope), "net.fc1.act");
  Text t = {0};
  ir_print(&t, g);
  assert_string_equal(
      t.at, "graph train training {\n  %1 = const value=0.1 dtype=f32 : f32[]   ; net.fc1\n"
            "  %2 = neg %1 : f32[]   ; net.fc1.act\n  out loss 0 %2\n}\n");
  text_free(&t);
}

static void test_dims(void **state) {
  (void)state;
  Dim b = {1, 0}, r;
  assert_true(dim_mul(b, dim_of(4), &r) && r.per_batch == 4);
  assert_false(dim_mul(b, b, &r));
  assert_true(dim_div((Dim){8, 4}, dim_of(4), &r) && r.per_batch == 2 && r.fixed == 1);
  assert_false(dim_div((Dim){8, 3}, dim_of(4), &r));
  assert_true(dim_div((Dim){6, 0}, (Dim){2, 0}, &r) && dim_is(r, 3));
  assert_false(dim_div((Dim){6, 1}, (Dim){2, 0}, &r));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),           cmocka_unit_test(test_infer),
      cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_run),
      cmocka_unit_test(test_reference_page), cmocka_unit_test(test_unary),
      cmocka_unit_test(test_binary),         cmocka_unit_test(test_corners),
      cmocka_unit_test(test_by_hand),        cmocka_unit_test(test_promotion),
      cmocka_unit_test(test_refused),        cmocka_unit_test(test_scopes),
      cmocka_unit_test(test_dims),
  };
  arena = arena_new();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  arena_free(arena);
  return failed;
}
