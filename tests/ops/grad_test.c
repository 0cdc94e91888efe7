/* Every gradient rule of the op table against finite differences in double, on the samples of its
   row; PyTorch's conventions where there is a kink; every body of a composite op against the op
   itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "diag.h"
#include "sample.h"
#include "sema.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static Arena *arena;

/* A rule may give a shape that broadcasts from or to the input's: summed back, as the pass does. */
/* Size of axis i of `rank` axes, and the step there that row-major order takes (0: broadcast). */
static void axes_of(Type t, int rank, int64_t *size, int64_t *step) {
  int64_t stride = 1;
  for (int i = rank; i-- > 0;) {
    int own = i - (rank - t.rank);
    size[i] = own < 0 ? 1 : dim_at(t.dim[own], SAMPLE_BATCH);
    step[i] = size[i] == 1 ? 0 : stride;
    stride *= size[i];
  }
}

static void fit(Type from, const double *x, Type to, double *out) {
  int64_t sx[IR_MAX_RANK], so[IR_MAX_RANK], nx[IR_MAX_RANK], no[IR_MAX_RANK], total = 1;
  int rank = from.rank > to.rank ? from.rank : to.rank;
  axes_of(from, rank, nx, sx);
  axes_of(to, rank, no, so);
  for (int i = 0; i < rank; i++) total *= nx[i] > no[i] ? nx[i] : no[i];
  for (int64_t k = 0; k < type_elements_at(to, SAMPLE_BATCH); k++) out[k] = 0;
  for (int64_t k = 0; k < total; k++) {
    int64_t rest = k, ix = 0, io = 0;
    for (int i = rank; i-- > 0;) {
      int64_t size = nx[i] > no[i] ? nx[i] : no[i];
      ix += rest % size * sx[i];
      io += rest % size * so[i];
      rest /= size;
    }
    out[io] += x[ix];
  }
}

static double dot(const Sample *s, const double *g, double **in) {
  const double *y = sample_run(arena, s, s->g, s->y, in);
  double sum = 0;
  for (int64_t k = 0; k < sample_count(s->g, s->y); k++) sum += g[k] * y[k];
  return sum;
}

/* Result of the rule for input i, with g as one more input. */
static const double *by_rule(const Sample *s, int i, const char *rule, double **in, double *out) {
  Type ty = value_at(s->g, s->y)->type, tx = value_at(s->g, s->in[i])->type;
  Val g = ir_leaf(s->g, OP_input, s->inputs, ty, (Span){0}, 0);
  Val r = sema_eval_rule(s->g, rule, s->y, g, 0);
  if (!r) {
    diag_flush(stderr, false);
    fail_msg("%s: rule does not evaluate: %s", op_def(s->op)->name, rule);
  }
  ir_verify(s->g, "rule");
  fit(value_at(s->g, r)->type, sample_run(arena, s, s->g, r, in), tx, out);
  return out;
}

static void check_input(const Sample *s, int i, double **in) {
  const OpDef *d = op_def(s->op);
  const char *rule = d->grad[i];
  int64_t n = sample_count(s->g, s->in[i]);
  double *got = ARENA_ARRAY(arena, double, n), *g = in[s->inputs];
  bool zero = !strcmp(rule, GRAD_ZERO);
  if (!zero) by_rule(s, i, rule, in, got);
  for (int64_t k = 0; k < n; k++) {
    const double h = 1e-6, x = in[i][k];
    in[i][k] = x + h;
    double above = dot(s, g, in);
    in[i][k] = x - h;
    double below = dot(s, g, in), want = (above - below) / (2 * h);
    in[i][k] = x;
    if (fabs(got[k] - want) > 1e-6 * (1 + fabs(want)))
      fail_msg("%s: input %d, element %d: rule %g, difference %g\n%s", d->name, i, (int)k, got[k],
               want, rule);
  }
}

static void check_sample(const Sample *s) {
  const OpDef *d = op_def(s->op);
  double *in[IR_MAX_INPUTS + 1];
  int64_t ny = sample_count(s->g, s->y);
  for (int i = 0; i < s->inputs; i++)
    in[i] = ARENA_ARRAY(arena, double, sample_count(s->g, s->in[i]));
  in[s->inputs] = ARENA_ARRAY(arena, double, ny);
  sample_fill(s, 3, in);
  for (int64_t k = 0; k < ny; k++) in[s->inputs][k] = cos(1.3 * (double)k + 0.4);
  for (int i = 0; i < s->inputs; i++) {
    if (!strcmp(d->grad[i], GRAD_NONE)) continue;
    if (strcmp(d->grad[i], GRAD_MISSING) != 0) check_input(s, i, in);
  }
}

static void test_rules(void **state) {
  (void)state;
  for (int op = OP_none + 1; op < OP_COUNT; op++) {
    Sample s[SAMPLES_MAX];
    int n = samples_of(arena, (OpKind)op, s);
    for (int i = 0; i < n; i++) check_sample(&s[i]);
  }
}

/* ---------- bodies ---------- */
static void check_body(const Sample *s) {
  double *in[IR_MAX_INPUTS];
  int64_t n = sample_count(s->g, s->y);
  for (int i = 0; i < s->inputs; i++)
    in[i] = ARENA_ARRAY(arena, double, sample_count(s->g, s->in[i]));
  sample_fill(s, 5, in);
  if (s->op == OP_logsumexp) in[0][0] = INFINITY; /* rows that are not shifted */
  Val r = sema_eval_rule(s->g, op_def(s->op)->body, s->y, NO_VAL, 0);
  if (!r) diag_flush(stderr, false);
  assert_true(r != NO_VAL);
  assert_true(type_equal(value_at(s->g, r)->type, value_at(s->g, s->y)->type));
  const double *want = sample_run(arena, s, s->g, s->y, in);
  const double *got = sample_run(arena, s, s->g, r, in);
  for (int64_t k = 0; k < n; k++)
    if (want[k] != got[k] && !(fabs(want[k] - got[k]) < 1e-12))
      fail_msg("%s: element %d of the body is %g, not %g", op_def(s->op)->name, (int)k, got[k],
               want[k]);
}

static void test_bodies(void **state) {
  (void)state;
  for (int op = OP_none + 1; op < OP_COUNT; op++) {
    Sample s[SAMPLES_MAX];
    if (!op_has((OpKind)op, OPF_decompose)) continue;
    int n = samples_of(arena, (OpKind)op, s);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) check_body(&s[i]);
  }
}

/* ---------- kinks, as PyTorch has them ---------- */
static void at_kink(OpKind op, int i, int n, const double *x0, const double *x1,
                    const double *want) {
  Sample s = {.g = graph_new(arena, "kink", true), .op = op, .inputs = op_def(op)->inputs};
  Type t = {.dtype = DT_f32, .rank = 1, .dim = {dim_of(n)}};
  double *in[IR_MAX_INPUTS] = {(double *)x0, (double *)x1};
  double got[8], one[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (int k = 0; k < s.inputs; k++) s.in[k] = ir_leaf(s.g, OP_input, k, t, (Span){0}, 0);
  s.y = ir_must(s.g, op, s.in, s.inputs, NULL, (Span){0}, 0);
  in[s.inputs] = one;
  by_rule(&s, i, op_def(op)->grad[i], in, got);
  for (int k = 0; k < n; k++)
    if (got[k] != want[k]) fail_msg("%s at a kink: %g, not %g", op_def(op)->name, got[k], want[k]);
}
#define V(...) ((double[]){__VA_ARGS__})

static void test_kinks(void **state) {
  (void)state;
  at_kink(OP_maximum, 0, 3, V(1, 2, 3), V(3, 2, 1), V(0, 0.5, 1));
  at_kink(OP_maximum, 1, 3, V(1, 2, 3), V(3, 2, 1), V(1, 0.5, 0));
  at_kink(OP_minimum, 0, 3, V(1, 2, 3), V(3, 2, 1), V(1, 0.5, 0));
  at_kink(OP_minimum, 1, 3, V(1, 2, 3), V(3, 2, 1), V(0, 0.5, 1));
  at_kink(OP_abs, 0, 3, V(-1, 0, 2), NULL, V(-1, 0, 1));
  at_kink(OP_amax, 0, 4, V(1, 3, 3, 2), NULL, V(0, 0.5, 0.5, 0));
  at_kink(OP_amin, 0, 4, V(1, 3, 1, 2), NULL, V(0.5, 0, 0.5, 0));
  at_kink(OP_pow, 0, 3, V(0, 0, 2), V(0, 2, 3), V(0, 0, 12));
  at_kink(OP_pow, 1, 2, V(0, 1), V(2, 3), V(0, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),
      cmocka_unit_test(test_bodies),
      cmocka_unit_test(test_kinks),
  };
  arena = arena_new();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  arena_free(arena);
  return failed;
}
