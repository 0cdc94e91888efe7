/* Every op of the table: what is emitted against the reference interpreter, on the samples of the table,
   under each compiler there is, on GPUs in the emulator with the kernels and libraries of a job. Rows that
   no sample can run alone are named, with the place where they are tested. */
#include "die.h"
#include "emitted.h"
#include "kernels/cpu/half.h"
#include "launch.h"
#include "passes.h"
#include "sample.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BATCH_MAX = 5, MOST = 1000 };

typedef struct Case {
  Sample s;
  int number; /* in the emitted file */
  DType type; /* of what the table has in f32 */
  double *in[IR_MAX_INPUTS];
} Case;

static Arena *arena;
static Case cases[MOST];
static int n_cases;
static int rows[OP_COUNT]; /* cases of each op */
static Emitted *emitted;
static int op_step = 1; /* every so many rows of the table */
#ifdef TEST_CUDA
static const Job job = {.target.cuda = true};
#else
static const Job job = {0};
#endif

static void sample_source(void *self, const Graph *g, Val v, double *out) {
  const Case *c = self;
  const Value *x = value_at(g, v);
  if (op_has(x->op, OPF_random)) {
    emitted_draw(g, v, SAMPLE_BATCH, out);
    return;
  }
  if (x->op != OP_input) {
    for (int64_t k = 0; k < sample_count(g, v); k++) out[k] = (double)(2 + k);
    return;
  }
  /* the plan's graph is a copy: fields are known by number */
  for (int i = 0; i < c->s.inputs; i++) {
    const Value *mine = value_at(c->s.g, c->s.in[i]);
    if (mine->attr[0].as.i != x->attr[0].as.i) continue;
    int64_t n = sample_count(c->s.g, c->s.in[i]);
    for (int64_t k = 0; k < n; k++) out[k] = c->in[i][k];
  }
}

/* Rows whose column of samples is empty, since other tests have nothing to put in their place. */
static const struct {
  OpKind op;
  const char *samples;
} more[] = {
    {OP_param, "; leaf=0 dtype=f32 shape=[2,3]"},
    {OP_host, "; name=\"loss_scale\""},
    {OP_count, "; k=1"},
    {OP_share, ";"},
    {OP_bernoulli, "; p=0.3 site=7 shape=[B,5]"},
    {OP_uniform, "; lo=-1 hi=2 site=7 shape=[B,5] | ; lo=0 hi=1 site=3 data=true shape=[B,2]"},
    {OP_normal, "; mean=1 std=2 site=7 shape=[B,5]"},
    {OP_randint, "; lo=2 hi=9 site=7 shape=[B,5]"},
};
/* What no graph of one op can be. */
static const struct {
  OpKind op;
  const char *where;
} elsewhere[] = {
    {OP_input, "what every sample reads"}, {OP_buffer, "what every sample writes"},
    {OP_scan, "has a body: scan.cases"},   {OP_arg, "in the body of scan"},
    {OP_turn, "in the body of scan"},      {OP_extern, "has a header: examples/custom_op"},
};

static bool is_elsewhere(OpKind op) {
  for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
    if (elsewhere[i].op == op) return true;
  return false;
}

static int samples(OpKind op, Sample *out) {
  for (size_t i = 0; i < sizeof more / sizeof *more; i++)
    if (more[i].op == op) return samples_from(arena, op, more[i].samples, out);
  return samples_of(arena, op, out);
}

/* The sample with inputs of another float type. */
static bool retype(Sample *s, DType t) {
  Graph *g = graph_like(s->g);
  Val map[64] = {NO_VAL};
  bool changed = false;
  check(s->g->values.len <= 64, "a sample of many values");
  for (Val v = 1; v < s->g->values.len; v++) {
    const Value *x = value_at(s->g, v);
    bool float_input = x->op == OP_input && x->type.dtype == DT_f32;
    Type type = x->type;
    type.dtype = t;
    map[v] = float_input ? ir_leaf(g, OP_input, x->attr[0].as.i, type, x->at, x->scope)
                         : ir_copy(g, s->g, v, map);
    changed = changed || float_input;
  }
  for (uint32_t i = 0; i < s->g->outputs.len; i++)
    graph_output(g, s->g->outputs.at[i].kind, s->g->outputs.at[i].index,
                 map[s->g->outputs.at[i].value]);
  s->y = map[s->y];
  for (int i = 0; i < s->inputs; i++) s->in[i] = map[s->in[i]];
  s->g = g;
  return changed;
}

/* `part`: by-product that is looked at; 0: the value. */
static void add_case(Sample s, DType type, int part) {
  bool changed = (type != DT_f32 || part) && retype(&s, type); /* a graph of its own */
  if (type != DT_f32 && !changed) return;
  if (part) {
    Attr attr[IR_MAX_ATTRS] = {{.as.i = part}};
    s.y = ir_must(s.g, OP_part, &s.y, 1, attr, (Span){0}, 0);
    s.g->outputs.at[0].value = s.y;
  }
  Case *c = &cases[n_cases++];
  c->s = s;
  c->type = type;
  for (int k = 0; k < s.inputs; k++)
    c->in[k] = ARENA_ARRAY(arena, double, sample_count(s.g, s.in[k]) + 1);
  sample_fill(&c->s, (uint64_t)n_cases, c->in);
  c->number = emitted_add(emitted, pass_widen(pass_decompose(c->s.g), &job), BATCH_MAX, 0);
  rows[s.op]++;
  if (part) rows[OP_part]++;
}

static bool has_part(const Sample *s, int index) {
  const OpDef *def = op_def(s->op);
  Type t;
  return def->part_type && def->part_type(s->g, value_at(s->g, s->y), index, &t);
}

static void add_types(Sample s, int part) {
  static const DType types[] = {DT_f32, DT_bf16, DT_f16};
  for (int i = 0; i < 3 && n_cases < MOST; i++) add_case(s, types[i], part);
}

static int set_up(void **state) {
  (void)state;
  arena = arena_new();
  emitted = emitted_new(arena, &TEST_TARGET);
  for (int op = 1; op < OP_COUNT; op += op_step) {
    Sample s[SAMPLES_MAX];
    int n = samples((OpKind)op, s);
    for (int i = 0; i < n; i++) {
      add_types(s[i], 0);
      for (int part = 1; has_part(&s[i], part); part++) add_types(s[i], part);
    }
  }
  return 0;
}

static const double *wanted(Case *c) {
  Interp how = {.batch = SAMPLE_BATCH, .round_f32 = true, .source = sample_source, .self = c};
  return interp_run(arena, c->s.g, &how)[c->s.y];
}

static double tolerance_of(const Case *c, double want) {
  /* 16 bits: what lies between two numbers may be rounded to either */
  double step = c->type == DT_bf16 ? 0x1p-7 : c->type == DT_f16 ? 0x1p-10 : 4e-6;
  /* and composite ops keep what they compute on the way, numbers about 1 */
  double size = op_has(c->s.op, OPF_decompose) && c->type != DT_f32 ? 1 : 0;
  return 1e-6 + step * (size + fabs(want));
}

static void compare(Case *c) {
  const double *want = wanted(c);
  int64_t n = sample_count(c->s.g, c->s.y);
  double *got = ARENA_ARRAY(arena, double, n + 1);
  emitted_run(emitted, c->number, SAMPLE_BATCH, sample_source, c, &got);
  for (int64_t i = 0; i < n; i++) {
    bool same = isnan(want[i]) ? isnan(got[i]) != 0 : got[i] == want[i];
    if (same || fabs(got[i] - want[i]) <= tolerance_of(c, want[i])) continue;
    print_error("%s in %s, element %lld: emitted C gives %.9g, the interpreter %.9g\n",
                op_def(c->s.op)->name, dtype_name(c->type), (long long)i, got[i], want[i]);
    fail();
  }
}

static void ops_agree(const char *cc, const char *flags) {
  emitted_build(emitted, cc, flags);
  for (int i = 0; i < n_cases; i++) compare(&cases[i]);
}
#ifdef TEST_CUDA
/* The kernels of all rows are spread over threads; none is left to one. */
static void no_row_is_serial(void **state) {
  (void)state;
  for (int i = 0; i < n_cases; i++) {
    const Program *p = emitted_program(emitted, cases[i].number);
    for (uint32_t k = 0; k < p->kernels.len; k++) {
      if (p->kernels.at[k].kind != KERNEL_nest) continue;
      const Pieces pieces = launch_pieces(arena, p, p->kernels.at[k].nest);
      for (uint32_t n = 0; n < pieces.len; n++)
        if (pieces.at[n].shape == SHAPE_serial)
          fail_msg("%s in %s: kernel %u is one thread's", op_def(cases[i].s.op)->name,
                   dtype_name(cases[i].type), k);
    }
  }
}

static void cuda_compiled(void **state) {
  (void)state;
  emitted_compiles(emitted, TEST_NVCC);
}
/* graphs.cu and cases.bin for tools/gpu-check. */
static int record(const char *folder, const char *step) {
  if (step) op_step = atoi(step);
  check(op_step > 0, "usage: record FOLDER [STEP]");
  set_up(NULL);
  emitted_write(emitted, arena_printf(arena, "%s/graphs.cu", folder));
  FILE *to = fopen(arena_printf(arena, "%s/cases.bin", folder), "wb");
  check(to, "cannot write into %s", folder);
  for (int i = 0; i < n_cases; i++) {
    Case *c = &cases[i];
    int64_t n = sample_count(c->s.g, c->s.y);
    double *tolerance = ARENA_ARRAY(arena, double, n + 1);
    EmittedWant want = {.value = wanted(c), .tolerance = tolerance};
    want.name = arena_printf(arena, "%s in %s", op_def(c->s.op)->name, dtype_name(c->type));
    for (int64_t k = 0; k < n; k++) tolerance[k] = tolerance_of(c, want.value[k]);
    emitted_record(emitted, c->number, SAMPLE_BATCH, sample_source, c, &want, to);
  }
  check(!fclose(to), "cannot write into %s", folder);
  printf("%d cases\n", n_cases);
  return 0;
}

static void cuda_emulated(void **state) {
  (void)state;
  ops_agree("g++", "-O1");
}
#else
static void gcc_vectors(void **state) {
  (void)state;
  ops_agree("gcc", "-O2 -ftree-vectorize -march=native");
}
static void gcc_plain(void **state) {
  (void)state;
  ops_agree("gcc", "-O1 -fsanitize=undefined,float-cast-overflow -fno-sanitize-recover=all");
}
static void clang_vectors(void **state) {
  (void)state;
  if (system("clang --version > /dev/null 2>&1")) skip();
  ops_agree("clang", "-O2 -march=native");
}

#endif

/* What the interpreter rounds and what emitted code stores: the same 16 bits, for floats of every
   exponent. */
static void rounding(void **state) {
  (void)state;
  uint64_t seed = 7;
  for (int i = 0; i < 2000000; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    float x = ddp_from_bits((uint32_t)(seed >> 32));
    if (isnan(x)) continue;
    assert_true(dtype_round(DT_bf16, (double)x) == (double)ddp_round_bf16(x));
    assert_true(dtype_round(DT_f16, (double)x) == (double)ddp_round_f16(x));
  }
}

/* A row without a case is one of those that are named, and the other way round. */
static void no_row_is_left_out(void **state) {
  (void)state;
  for (int op = 1; op < OP_COUNT; op++) {
    if ((rows[op] > 0) != is_elsewhere((OpKind)op)) continue;
    fail_msg("%s: %d cases", op_def((OpKind)op)->name, rows[op]);
  }
  assert_true(n_cases + 3 <= MOST);
}

int main(int argc, char **argv) {
#ifdef TEST_CUDA
  const struct CMUnitTest compiled[] = {cmocka_unit_test(cuda_compiled)};
  if (argc > 1 && !strcmp(argv[1], "nvcc")) return cmocka_run_group_tests(compiled, set_up, NULL);
  if (argc > 2 && !strcmp(argv[1], "record")) return record(argv[2], argv[3]);
#endif
  (void)argc, (void)argv;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_row_is_left_out),
      cmocka_unit_test(rounding),
#ifdef TEST_CUDA
      cmocka_unit_test(no_row_is_serial),
      cmocka_unit_test(cuda_emulated),
#else
      cmocka_unit_test(gcc_vectors),        cmocka_unit_test(gcc_plain),
      cmocka_unit_test(clang_vectors),
#endif
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
