/* Loops of graphs that sema made: scan_test GRAPHS.ir, each with one number as its result.
   For each: the gradients of all float inputs against finite differences in the interpreter; the same
   numbers after the passes; and the emitted C against the interpreter. scan_test GRAPHS.ir cuda: what is
   emitted for GPUs instead, in the emulator. */
#include "diag.h"
#include "die.h"
#include "emitted.h"
#include "passes.h"
#include "scan.h"
#include "source.h"
#include <math.h>
#include <stdio.h>

enum { BATCH = 3, BATCH_MAX = 4, MOST = 64, FIELDS = 32 };

typedef struct Case {
  Job *job;
  Graph *grads, *last; /* with gradients; after the passes */
  double *value[FIELDS];
  int number;
} Case;

static Arena *arena;

/* ---------- numbers ---------- */
static void fill(Type t, int field, double *out) {
  int64_t n = type_elements_at(t, BATCH);
  for (int64_t i = 0; i < n; i++)
    out[i] = dtype_category(t.dtype) == 'f'
                 ? (double)(float)sin(1.3 * (double)i + 0.7 * field + 0.2)
                 : (double)((7 * i + field) % 5);
}

static void source(void *self, const Graph *g, Val v, double *out) {
  const Case *c = self;
  const Value *x = value_at(g, v);
  if (op_has(x->op, OPF_random)) {
    emitted_draw(g, v, BATCH, out);
    return;
  }
  check(x->op == OP_param || x->op == OP_input, "no numbers for %s", op_def(x->op)->name);
  memcpy(out, c->value[x->attr[0].as.i], sizeof *out * (size_t)type_elements_at(x->type, BATCH));
}

static double **run(Case *c, Arena *a, const Graph *g, bool round) {
  Interp how = {.batch = BATCH, .round_f32 = round, .source = source, .self = c};
  double **all = interp_run(a, g, &how), **out = ARENA_ARRAY(a, double *, g->outputs.len);
  for (uint32_t i = 0; i < g->outputs.len; i++) out[i] = all[g->outputs.at[i].value];
  return out;
}

/* ---------- a job of it ---------- */
static Graph *with_params(Case *c, const Graph *from) {
  Graph *g = graph_like(from);
  Val *map = ARENA_ARRAY(arena, Val, from->values.len);
  for (Val v = 1; v < from->values.len; v++) {
    const Value *x = value_at(from, v);
    if (x->op != OP_input) {
      map[v] = ir_copy(g, from, v, map);
      continue;
    }
    int64_t k = x->attr[0].as.i;
    check(k < FIELDS, "more inputs than the test has room for");
    if (!c->value[k]) {
      c->value[k] = ARENA_ARRAY(arena, double, type_elements_at(x->type, BATCH) + 1);
      fill(x->type, (int)k, c->value[k]);
    }
    bool number = dtype_category(x->type.dtype) == 'f';
    map[v] = ir_leaf(g, number ? OP_param : OP_input, k, x->type, x->at, x->scope);
    while (c->job->leaves.len <= (uint32_t)k) {
      Leaf l = {.name = "w", .type = type_scalar(DT_f32), .tied_to = -1};
      vec_push(arena, &c->job->leaves, l);
    }
    c->job->leaves.at[k].trained = number;
    c->job->leaves.at[k].type = x->type;
  }
  graph_output(g, OUT_loss, 0, map[from->outputs.at[0].value]);
  return g;
}

static Graph *after_passes(Graph *g) {
  g = pass_dce(pass_cse(pass_fold(g, NULL)));
  ir_verify(g, "fold, cse, dce");
  g = pass_decompose(g);
  ir_verify(g, "decompose");
  g = pass_dce(pass_cse(pass_fold(g, NULL)));
  ir_verify(g, "the passes");
  return g;
}

static void make(Case *c, Graph *from) {
  c->job = ARENA_NEW(arena, Job);
  c->job->arena = arena;
  JobSetting unscaled = {.key = "fp16", .value = "false"};
  JobSetting unused = {.key = "ddp_find_unused_parameters", .value = "true"}; /* of other cases */
  vec_push(arena, &c->job->settings, unscaled);
  vec_push(arena, &c->job->settings, unused);
  from->outputs.at[0] = from->outputs.at[from->outputs.len - 1]; /* sema_dump adds to one graph */
  from->outputs.len = 1;
  c->job->train = with_params(c, pass_dce(from));
  pass_grad(c->job);
  diag_flush(stderr, false);
  check(diag_errors() == 0, "no gradient");
  c->grads = c->job->train;
  c->last = after_passes(c->grads);
}

/* The text of a graph reads back as the same. */
static bool reads_back(const Graph *g) {
  Text one = {0}, two = {0};
  ir_print(&one, g);
  Graph *again = ir_parse(arena, source_add("again.ir", one.at, one.len));
  if (again) ir_print(&two, again);
  bool same = again && type_equal(value_at(again, again->outputs.at[0].value)->type,
                                  value_at(g, g->outputs.at[0].value)->type);
  same = same && again->values.len == g->values.len;
  text_free(&one);
  text_free(&two);
  return same;
}

/* ---------- comparisons ---------- */
static int faults;

static void compare(int n, const char *what, double got, double want, double tolerance) {
  if (fabs(got - want) <= tolerance * (1 + fabs(want))) return;
  if (faults++ < 20) printf("graph %d: %s is %.9g, not %.9g\n", n, what, got, want);
}

static double loss_at(Case *c, const Graph *g) {
  Arena *a = arena_new();
  double loss = run(c, a, g, false)[0][0];
  arena_free(a);
  return loss;
}

static void differences(Case *c, int n) {
  double **out = run(c, arena, c->grads, false);
  for (uint32_t o = 1; o < c->grads->outputs.len; o++) {
    int k = c->grads->outputs.at[o].index;
    int64_t count = type_elements_at(c->job->leaves.at[k].type, BATCH);
    for (int64_t i = 0; i < count; i += 1 + count / 40) {
      const double h = 1e-5, x = c->value[k][i];
      c->value[k][i] = x + h;
      double above = loss_at(c, c->grads);
      c->value[k][i] = x - h;
      double below = loss_at(c, c->grads);
      c->value[k][i] = x;
      compare(n, arena_printf(arena, "gradient of input %d, element %lld", k, (long long)i),
              out[o][i], (above - below) / (2 * h), 2e-6);
    }
  }
}

static void same_after_passes(Case *c, int n) {
  double **before = run(c, arena, c->grads, false), **after = run(c, arena, c->last, false);
  check(c->grads->outputs.len == c->last->outputs.len, "graph %d: outputs are gone", n);
  for (uint32_t o = 0; o < c->last->outputs.len; o++) {
    Type t = value_at(c->last, c->last->outputs.at[o].value)->type;
    for (int64_t i = 0; i < type_elements_at(t, BATCH); i++)
      compare(n, arena_printf(arena, "output %u after the passes", o), after[o][i], before[o][i],
              1e-6); /* folding rounds constants to f32 */
  }
}

static void emitted_agrees(Emitted *e, Case *c, int n) {
  double **want = run(c, arena, c->last, true);
  double **got = ARENA_ARRAY(arena, double *, c->last->outputs.len);
  for (uint32_t o = 0; o < c->last->outputs.len; o++) {
    Type t = value_at(c->last, c->last->outputs.at[o].value)->type;
    got[o] = ARENA_ARRAY(arena, double, type_elements_at(t, BATCH) + 1);
  }
  emitted_run(e, c->number, BATCH, source, c, got);
  for (uint32_t o = 0; o < c->last->outputs.len; o++) {
    Type t = value_at(c->last, c->last->outputs.at[o].value)->type;
    for (int64_t i = 0; i < type_elements_at(t, BATCH); i++)
      compare(n, arena_printf(arena, "output %u of the emitted program", o), got[o][i], want[o][i],
              3e-5);
  }
}

/* Loops that run backwards multiply once a turn: products for weights are taken after them. */
static void products_are_hoisted(const Graph *g, int n) {
  for (Val v = 1; v < g->values.len; v++) {
    if (value_at(g, v)->op != OP_scan || !scan_of(value_at(g, v)).reverse) continue;
    Scan s = scan_of(value_at(g, v));
    int products = 0;
    for (Val b = 1; b < s.body->values.len; b++) products += value_at(s.body, b)->op == OP_matmul;
    compare(n, "products in a backward turn", products, 1, 0);
    compare(n, "names carried backwards", s.carried, n == 0 ? 1 : 2, 0);
  }
}

static uint32_t loops_of(const Graph *g) {
  uint32_t n = 0;
  for (Val v = 1; v < g->values.len; v++) n += value_at(g, v)->op == OP_scan;
  return n;
}

int main(int argc, char **argv) {
  arena = arena_new();
  bool cuda = argc == 3 && !strcmp(argv[2], "cuda");
  uint32_t file = argc == 2 || cuda ? source_read(argv[1]) : 0;
  check(file, "usage: scan_test GRAPHS.ir [cuda]");
  Graph *graphs[MOST];
  static Case cases[MOST];
  int n = ir_parse_all(arena, file, graphs, MOST);
  diag_flush(stderr, false);
  check(n > 0, "no graphs");
  Emitted *e = emitted_new(arena, cuda ? &target_cuda : &target_cpu);
  for (int i = 0; i < n; i++) {
    check(loops_of(graphs[i]), "graph %d has no loop", i);
    check(reads_back(graphs[i]), "graph %d does not read back", i);
    make(&cases[i], graphs[i]);
    check(loops_of(cases[i].last) >= 2, "graph %d: no loop goes back", i);
    differences(&cases[i], i);
    same_after_passes(&cases[i], i);
    if (i < 3) products_are_hoisted(cases[i].last, i); /* rnn and lstm */
  }
  for (int i = 0; i < n; i++) {
    Graph *copy = pass_dce(cases[i].last); /* its outputs become others */
    cases[i].number = emitted_add(e, copy, BATCH_MAX, i % 3);
  }
  emitted_build(e, cuda ? "g++" : "gcc", cuda ? "-O1" : "-O2 -march=native");
  for (int i = 0; i < n; i++) emitted_agrees(e, &cases[i], i);
  printf("%d graphs, %d faults\n", n, faults);
  return faults ? 1 : 0;
}
