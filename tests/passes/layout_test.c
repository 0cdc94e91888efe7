/* pass_layout changes no number, for CPUs and for GPUs: random convolutional graphs (channels of all kinds; maps that are added,
   scaled by channel or place, pooled, padded, cut, joined, reduced, flattened) before and after, in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "conv.h"
#include "ops.h"
#include "passes.h"
#include "pool.h"
#include <math.h>

enum { BATCH = 2, GRAPHS = 120, STEPS = 14, MOST = 64 };

typedef struct Maker {
  Graph *g;
  uint64_t seed;
  Val pool[MOST]; /* feature maps [B, C, H, W] */
  int n;
  int fields, outputs;
} Maker;

static int64_t draw(Maker *m, int64_t below) {
  m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)(m->seed >> 33) % below;
}

static Val input(Maker *m, int rank, const int64_t *size) {
  Type t = {.dtype = DT_f32, .rank = rank};
  for (int i = 0; i < rank; i++) t.dim[i] = size[i] < 0 ? (Dim){1, 0} : dim_of(size[i]);
  return ir_leaf(m->g, OP_input, m->fields++, t, (Span){0}, 0);
}

/* NO_VAL when it does not fit. */
static Val make(Maker *m, OpKind op, Val a, Val b, const Attr *attrs) {
  Attr own[IR_MAX_ATTRS] = {0};
  Val in[2] = {a, b};
  const char *error;
  int code;
  if (!attrs) ir_default_attrs(op, own);
  return ir_add(m->g, op, in, b ? 2 : 1, attrs ? attrs : own, (Span){0}, 0, &error, &code);
}

static Type type_of(const Maker *m, Val v) {
  return value_at(m->g, v)->type;
}

static void list(Attr *a, int n, int64_t x, int64_t y) {
  a->as.ints.len = n;
  a->as.ints.at[0] = x;
  a->as.ints.at[1] = y;
}

static Val convolve(Maker *m, Val x) {
  static const int64_t channels[] = {3, 16, 16, 20, 32, 48};
  OpKind op = draw(m, 3) ? OP_conv : OP_conv_transpose;
  int64_t in = type_of(m, x).dim[1].fixed, out = channels[draw(m, 6)];
  int64_t groups = in == out && draw(m, 4) == 0 ? in : in % 2 == 0 && out % 2 == 0 ? 2 : 1;
  if (draw(m, 2)) groups = 1;
  int64_t k = 1 + draw(m, 3);
  int64_t size[4] = {op == OP_conv ? out : in, (op == OP_conv ? in : out) / groups, k, k};
  Attr attrs[IR_MAX_ATTRS] = {0};
  ir_default_attrs(op, attrs);
  list(&attrs[op_attr(op, "stride")], 2, 1 + draw(m, 2), 1);
  list(&attrs[op_attr(op, "padding")], 2, draw(m, k), draw(m, k));
  attrs[op_attr(op, "groups")].as.i = groups;
  Val w = input(m, 4, size);
  return make(m, op, x, w, attrs);
}

static Val pool(Maker *m, Val x) {
  OpKind op = draw(m, 2) ? OP_pool_max : OP_pool_sum;
  Attr attrs[IR_MAX_ATTRS] = {0};
  ir_default_attrs(op, attrs);
  list(&attrs[op_attr(op, "window")], 2, 2, 1 + draw(m, 3));
  Val y = make(m, op, x, NO_VAL, attrs);
  if (!y || op != OP_pool_max || draw(m, 2)) return y;
  Type t = type_of(m, y);
  int64_t size[4] = {-1, t.dim[1].fixed, t.dim[2].fixed, t.dim[3].fixed};
  Val g = input(m, 4, size);
  return make(m, OP_pool_max_grad, x, g, attrs);
}

/* With another map, a factor for each channel, or one for each place. */
static Val combine(Maker *m, Val x) {
  Type t = type_of(m, x);
  int64_t channel[3] = {t.dim[1].fixed, 1, 1}, place[2] = {t.dim[2].fixed, t.dim[3].fixed};
  OpKind op = draw(m, 2) ? OP_add : OP_mul;
  if (draw(m, 3) == 0) return make(m, op, x, input(m, 3, channel), NULL);
  if (draw(m, 3) == 0) return make(m, op, x, input(m, 2, place), NULL);
  return make(m, op, x, m->pool[draw(m, m->n)], NULL);
}

static Val join(Maker *m, Val x) {
  Attr attrs[IR_MAX_ATTRS] = {0};
  attrs[0].as.ints.len = 1;
  attrs[0].as.ints.at[0] = draw(m, 4);
  return make(m, OP_concat, x, m->pool[draw(m, m->n)], attrs);
}

static Val cut(Maker *m, Val x) {
  Type t = type_of(m, x);
  Attr attrs[IR_MAX_ATTRS] = {0};
  bool pads = draw(m, 2);
  ir_default_attrs(pads ? OP_pad : OP_slice, attrs);
  for (int k = 0; k < 2; k++) attrs[k].as.dims.len = 4;
  for (int i = 0; i < 4; i++) {
    attrs[0].as.dims.at[i] = dim_of(0);
    attrs[1].as.dims.at[i] = pads ? dim_of(0) : t.dim[i];
  }
  int axis = 1 + (int)draw(m, 3);
  int64_t by = axis == 1 && draw(m, 2) ? 16 : 1;
  attrs[0].as.dims.at[axis] = dim_of(by);
  if (!pads && t.dim[axis].fixed <= by) return NO_VAL;
  if (pads) attrs[2].as.f = 0.5;
  return make(m, pads ? OP_pad : OP_slice, x, NO_VAL, attrs);
}

static void put(Maker *m, Val v) {
  if (v) graph_output(m->g, OUT_value, m->outputs++, v);
}

/* A reduction or a flattened map: an output, and if it broadcasts back, a factor. */
static Val reduce(Maker *m, Val x) {
  static const OpKind ops[] = {OP_sum, OP_amax, OP_argmax};
  OpKind op = ops[draw(m, 3)];
  Attr attrs[IR_MAX_ATTRS] = {0};
  ir_default_attrs(op, attrs);
  Attr *dim = &attrs[op_attr(op, "dim")];
  int64_t mask = 1 + draw(m, 15);
  dim->as.ints.len = 0;
  for (int i = 0; i < 4; i++)
    if (mask >> i & 1) dim->as.ints.at[dim->as.ints.len++] = i;
  bool keep = draw(m, 2);
  attrs[op_attr(op, "keepdim")].as.i = keep;
  Val y = make(m, op, x, NO_VAL, attrs);
  put(m, y);
  return y && keep && op != OP_argmax ? make(m, OP_add, x, y, NULL) : NO_VAL;
}

static Val flatten(Maker *m, Val x) {
  Type t = type_of(m, x);
  Attr attrs[IR_MAX_ATTRS] = {0};
  attrs[0].as.dims.len = 3;
  attrs[0].as.dims.at[0] = t.dim[0];
  attrs[0].as.dims.at[1] = t.dim[1];
  attrs[0].as.dims.at[2] = dim_of(-1);
  Val y = make(m, OP_reshape, x, NO_VAL, attrs);
  put(m, make(m, OP_abs, y, NO_VAL, NULL));
  return NO_VAL;
}

static void step(Maker *m) {
  static Val (*const steps[])(Maker *, Val) = {
      convolve, convolve, convolve, pool, combine, combine, combine, join, cut, reduce, flatten};
  Val x = m->pool[draw(m, m->n)];
  Val y = steps[draw(m, sizeof steps / sizeof *steps)](m, x);
  if (y && type_elements_at(type_of(m, y), 1) < 20000) m->pool[m->n++] = y;
}

static void fill(void *self, const Graph *g, Val v, double *out) {
  (void)self;
  const Value *x = value_at(g, v);
  uint64_t h = (uint64_t)x->attr[0].as.i * 977 + 1;
  for (int64_t k = 0; k < type_elements_at(x->type, BATCH); k++) {
    h = text_hash(&k, sizeof k, h);
    out[k] = (double)(h >> 40) * 0x1p-23 - 1;
  }
}

static int in_blocks(const Graph *g) {
  int n = 0;
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (!conv_is(x->op)) continue;
    const Attr *blocks = &x->attr[op_attr(x->op, "blocks")];
    n += blocks->as.ints.at[0] > 1 || blocks->as.ints.at[1] > 1;
  }
  return n;
}

static void compare(Arena *a, const Graph *before, const Graph *after) {
  Interp how = {.batch = BATCH, .source = fill};
  double **x = interp_run(a, before, &how), **y = interp_run(a, after, &how);
  for (uint32_t i = 0; i < before->outputs.len; i++) {
    Val u = before->outputs.at[i].value, v = after->outputs.at[i].value;
    assert_true(type_equal(value_at(before, u)->type, value_at(after, v)->type));
    int64_t n = type_elements_at(value_at(before, u)->type, BATCH);
    double most = 1;
    for (int64_t k = 0; k < n; k++) most = fmax(most, fabs(x[u][k]));
    for (int64_t k = 0; k < n; k++)
      if (!(fabs(x[u][k] - y[v][k]) <= 1e-12 * most)) {
        Text t = {0};
        ir_print(&t, before);
        ir_print(&t, after);
        fail_msg("output %u: %g became %g\n%s", i, x[u][k], y[v][k], t.at);
      }
  }
}

/* Every convolution has all channels in one block. */
static bool channels_last(const Graph *g) {
  for (Val v = 1; v < g->values.len; v++) {
    const Value *x = value_at(g, v);
    if (!conv_is(x->op)) continue;
    const ConvShape c = conv_shape(g, x);
    if (c.big.block != c.big.channels || c.small.block != c.small.channels) return false;
  }
  return true;
}

static void numbers(const Job *job) {
  int blocks = 0;
  for (int seed = 1; seed <= GRAPHS; seed++) {
    Arena *a = arena_new();
    Maker m = {.g = graph_new(a, "t", true), .seed = (uint64_t)seed * 7919};
    static const int64_t size[4] = {-1, 16, 6, 5}, small[4] = {-1, 3, 6, 5};
    m.pool[m.n++] = input(&m, 4, draw(&m, 2) ? size : small);
    for (int i = 0; i < STEPS; i++) step(&m);
    for (int i = 0; i < m.n; i++) put(&m, m.pool[i]);
    ir_verify(m.g, "made");
    Graph *done = pass_layout(m.g, job);
    ir_verify(done, "layout");
    blocks += in_blocks(done);
    if (job->target.cuda) assert_true(channels_last(done));
    compare(a, m.g, done);
    arena_free(a);
  }
  assert_true(blocks > GRAPHS);
}

static void cpu(void **state) {
  (void)state;
  numbers(&(Job){0});
}
static void gpu(void **state) {
  (void)state;
  numbers(&(Job){.target = {.cuda = true}});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cpu), cmocka_unit_test(gpu)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
