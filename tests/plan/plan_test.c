/* The plan of a whole job, made by hand: ready order, segments, arenas, buckets, names, hash,
 * report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>

#include "diag.h"
#include "fuse.h"

/* Two layers of equal width: bias + relu is the same kernel twice. The last leaf is frozen, then
   come a buffer and a tied name. */
static const char *const train_text = "graph train training {\n"
                                      "  %1 = input field=0 dtype=f32 shape=[B,8]\n"
                                      "  %2 = param leaf=0 dtype=f32 shape=[8,8]\n"
                                      "  %3 = param leaf=1 dtype=f32 shape=[8]\n"
                                      "  %4 = param leaf=2 dtype=f32 shape=[8,8]\n"
                                      "  %5 = param leaf=3 dtype=f32 shape=[8]\n"
                                      "  %6 = const value=0.0\n"
                                      "  %7 = matmul %1, %2 ta=false tb=true      ; net.fc1\n"
                                      "  %8 = add %7, %3                          ; net.fc1\n"
                                      "  %9 = le %8, %6                           ; net.relu\n"
                                      "  %10 = where %9, %6, %8                   ; net.relu\n"
                                      "  %11 = matmul %10, %4 ta=false tb=true    ; net.fc2\n"
                                      "  %12 = add %11, %5                        ; net.fc2\n"
                                      "  %13 = le %12, %6                         ; net.relu\n"
                                      "  %14 = where %13, %6, %12                 ; net.relu\n"
                                      "  %15 = param leaf=4 dtype=f32 shape=[8,3]\n"
                                      "  %16 = matmul %14, %15                    ; net.head\n"
                                      "  %17 = sum %16 dim=[0,1] keepdim=false\n"
                                      "  out loss 0 %17\n"
                                      "  %18 = const value=1.0\n"
                                      "  %19 = expand %18 shape=[B,3]\n"
                                      "  %20 = matmul %19, %15 ta=false tb=true   ; net.head\n"
                                      "  %21 = where %13, %6, %20                 ; net.relu\n"
                                      "  %22 = sum %21 dim=[0] keepdim=false      ; net.fc2\n"
                                      "  out grad 3 %22\n"
                                      "  %23 = matmul %21, %10 ta=true tb=false   ; net.fc2\n"
                                      "  out grad 2 %23\n"
                                      "  %24 = matmul %21, %4                     ; net.fc2\n"
                                      "  %25 = where %9, %6, %24                  ; net.relu\n"
                                      "  %26 = sum %25 dim=[0] keepdim=false      ; net.fc1\n"
                                      "  out grad 1 %26\n"
                                      "  %27 = matmul %25, %1 ta=true tb=false    ; net.fc1\n"
                                      "  out grad 0 %27\n"
                                      "  %28 = buffer leaf=5 dtype=i64 shape=[]\n"
                                      "  %29 = const value=1 dtype=i64\n"
                                      "  %30 = add %28, %29\n"
                                      "  out buffer 5 %30\n"
                                      "}\n";

static const char *const sgd_text = "graph optimizer.sgd {\n"
                                    "  %1 = input field=0 dtype=f32 shape=[B]\n"
                                    "  %2 = input field=1 dtype=f32 shape=[B]\n"
                                    "  %3 = input field=2 dtype=f32 shape=[B]\n"
                                    "  %4 = host name=\"lr\" dtype=f32\n"
                                    "  %5 = add %3, %2\n"
                                    "  out state 0 %5\n"
                                    "  %6 = mul %5, %4\n"
                                    "  %7 = sub %1, %6\n"
                                    "  out state -1 %7\n"
                                    "}\n";

static Graph *graph_from(Arena *a, const char *text) {
  Graph *g = ir_parse(a, source_add("text.ir", text, strlen(text)));
  if (!g) diag_flush(stderr, false);
  assert_non_null(g);
  return g;
}

static Leaf leaf_of(const char *name, DType t, int rank, int64_t d0, int64_t d1) {
  Leaf leaf = {.name = name, .type = {.dtype = t, .rank = rank, .dim = {dim_of(d0), dim_of(d1)}}};
  leaf.trained = true;
  leaf.tied_to = -1;
  return leaf;
}

static Job *make_job(Arena *a, const char *cap) {
  Job *job = ARENA_NEW(a, Job);
  job->arena = a;
  job->path = "job.ddp";
  job->train = graph_from(a, train_text);
  job->train_batch = 16;
  vec_push(a, &job->leaves, leaf_of("fc1.weight", DT_f32, 2, 8, 8));
  vec_push(a, &job->leaves, leaf_of("fc1.bias", DT_f32, 1, 8, 0));
  vec_push(a, &job->leaves, leaf_of("fc2.weight", DT_f32, 2, 8, 8));
  vec_push(a, &job->leaves, leaf_of("fc2.bias", DT_f32, 1, 8, 0));
  Leaf frozen = leaf_of("head.weight", DT_f32, 2, 8, 3);
  frozen.trained = false;
  vec_push(a, &job->leaves, frozen);
  Leaf buffer = leaf_of("steps", DT_i64, 0, 0, 0);
  buffer.trained = false;
  buffer.buffer = true;
  buffer.group = -1;
  vec_push(a, &job->leaves, buffer);
  Leaf tied = leaf_of("again.weight", DT_f32, 2, 8, 8);
  tied.tied_to = 0;
  vec_push(a, &job->leaves, tied);
  vec_push(a, &job->groups, (Group){.name = "decay"});
  Optimizer sgd = {.name = "sgd", .update = graph_from(a, sgd_text)};
  vec_push(a, &sgd.states, "momentum_buffer");
  vec_push(a, &sgd.state_init, 0.0);
  vec_push(a, &job->optimizers, sgd);
  const JobSetting settings[] = {
      {.key = "ddp_bucket_cap_mb", .value = cap},
      {.key = "max_grad_norm", .value = "0"},
      {.key = "fp16", .value = "false"},
      {.key = "on_nan", .value = "stop"},
      {.key = "debug", .value = "[]"},
      {.key = "ema_decay", .value = "none"},
      {.key = "gradient_accumulation_steps", .value = "1"},
      {.key = "loss_chunk", .value = "none"},
  };
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
    vec_push(a, &job->settings, settings[i]);
  return job;
}

static void layout(void **state) {
  (void)state;
  Arena *a = arena_new();
  Plan *plan = plan_make(make_job(a, "none"));
  const int32_t ready[] = {3, 2, 1, 0};
  assert_int_equal(plan->ready.len, 4);
  for (int i = 0; i < 4; i++) assert_int_equal(plan->ready.at[i], ready[i]);
  /* bias 8 (padded to 16), weight 64, bias 8 (16), weight 64; frozen and buffers on their own */
  const int64_t leaf[] = {3, 2, 1, 0, 4, 5}, offset[] = {0, 16, 80, 96, 0, 0};
  assert_int_equal(plan->segments.len, 6);
  for (int i = 0; i < 6; i++) {
    assert_int_equal(plan->segments.at[i].leaf, leaf[i]);
    assert_int_equal(plan->segments.at[i].offset, offset[i]);
  }
  const int64_t role[] = {ARENA_param, ARENA_grad, ARENA_state, ARENA_frozen, ARENA_buffer};
  const int64_t elements[] = {160, 160, 160, 32, 64};
  assert_int_equal(plan->arenas.len, 5);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(plan->arenas.at[i].role, role[i]);
    assert_int_equal(plan->arenas.at[i].elements, elements[i]);
  }
  assert_int_equal(plan->buckets.len, 1);
  assert_int_equal(plan->buckets.at[0].end, 160);
  const Kernel *last = &plan->train.kernels.at[plan->buckets.at[0].ready_after];
  assert_int_equal(last->grads_ready.at[0], 0);
  assert_int_equal(plan->optimizers.at[0].kernels.len, 1);
  assert_int_equal(plan->optimizers.at[0].block_bytes, 0);
  arena_free(a);
}

/* A small cap: a bucket for each tensor or two, each starting where its last gradient is complete.
 */
static void small_buckets(void **state) {
  (void)state;
  Arena *a = arena_new();
  Plan *plan = plan_make(make_job(a, "0.0002")); /* 209 bytes */
  assert_int_equal(plan->buckets.len, 2);
  const Bucket *b = plan->buckets.at;
  assert_int_equal(b[0].count, 2);
  assert_int_equal(b[0].end, 80);
  assert_int_equal(b[1].begin, 80);
  assert_int_equal(b[1].end, 160);
  assert_true(b[0].ready_after < b[1].ready_after);
  const Kernel *k = &plan->train.kernels.at[b[0].ready_after];
  assert_int_equal(k->grads_ready.at[0], 2);
  arena_free(a);
}

static bool is_identifier(const char *s) {
  if (!isalpha((unsigned char)*s)) return false;
  for (; *s; s++)
    if (!isalnum((unsigned char)*s) && *s != '_') return false;
  return true;
}

static void names(void **state) {
  (void)state;
  Arena *a = arena_new();
  Plan *plan = plan_make(make_job(a, "none"));
  const Program *p = &plan->train;
  for (Val v = 1; v < p->places.len; v++) {
    assert_true(is_identifier(p->places.at[v].name));
    for (Val w = 1; w < v; w++) assert_string_not_equal(p->places.at[v].name, p->places.at[w].name);
  }
  int relu = 0;
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    assert_true(is_identifier(k->name));
    for (uint32_t j = 0; j < i; j++) {
      const Kernel *l = &p->kernels.at[j];
      if (!k->nest || !l->nest) continue;
      bool same_key = k->key == l->key, same_name = !strcmp(k->name, l->name);
      assert_int_equal(same_key, same_name);
      relu += same_key;
      if (!same_key) continue;
      assert_int_equal(k->reads.len, l->reads.len);
      assert_int_equal(k->writes.len, l->writes.len);
    }
  }
  assert_int_equal(relu, 2); /* bias_relu forward, and its mask with the bias gradient */
  arena_free(a);
}

static void hash(void **state) {
  (void)state;
  Arena *a = arena_new();
  uint64_t one = plan_make(make_job(a, "none"))->hash;
  assert_int_equal(one, plan_make(make_job(a, "none"))->hash);
  Job *other = make_job(a, "none");
  other->leaves.at[0].name = "fc0.weight";
  assert_int_not_equal(one, plan_make(other)->hash);
  Job *wider = make_job(a, "none");
  wider->train_batch = 17;
  assert_int_not_equal(one, plan_make(wider)->hash);
  arena_free(a);
}

static void report(void **state) {
  (void)state;
  Arena *a = arena_new();
  Plan *plan = plan_make(make_job(a, "none"));
  Text t = {0};
  plan_print(&t, plan);
  static const char *const wanted[] = {
      "parameters: 168, of which 144 are trained", "momentum_buffer", "frozen",
      "buckets: 1; 640 bytes all-reduced per update", "fc2.weight"};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    if (!strstr(t.at, wanted[i])) print_error("missing: %s in\n%s", wanted[i], t.at);
    assert_non_null(strstr(t.at, wanted[i]));
  }
  assert_null(strstr(t.at, " \n"));
  text_free(&t);
  plan_dump_nests(&t, plan);
  assert_non_null(strstr(t.at, "program optimizer.sgd"));
  text_free(&t);
  arena_free(a);
}

/* An optimizer that looks at a whole tensor: its states lie one behind the other in arenas of their own
   sizes, a number that all elements need lies in the block, and what others read is not overwritten early. */
static void whole_tensor_optimizer(void **state) {
  (void)state;
  Arena *a = arena_new();
  Job *job = make_job(a, "none");
  Optimizer rows = {.name = "rows", .whole = true};
  rows.update = graph_from(a, "graph optimizer.rows {\n"
                              "  %1 = input field=0 dtype=f32 shape=[8,8]\n"
                              "  %2 = input field=1 dtype=f32 shape=[8,8]\n"
                              "  %3 = input field=2 dtype=f32 shape=[8]\n"
                              "  %4 = sum %2 dim=[1]\n"
                              "  %5 = add %3, %4\n"
                              "  %6 = mul %1, %2\n"
                              "  %7 = sum %6\n"
                              "  %8 = sub %1, %7\n"
                              "  out state -1 %8\n"
                              "  out state 0 %5\n"
                              "}\n");
  vec_push(a, &rows.states, "row");
  vec_push(a, &rows.state_init, 0.0);
  vec_push(a, &rows.state_type, ((Type){.dtype = DT_f32, .rank = 1, .dim = {dim_of(8)}}));
  vec_push(a, &job->optimizers, rows);
  job->leaves.at[0].optimizer = job->leaves.at[2].optimizer = 1; /* the matrices */
  Plan *plan = plan_make(job);
  const int64_t at[] = {0, 16, 32, 48}; /* bias, row of a matrix, bias, row of a matrix */
  for (int i = 0; i < 4; i++) assert_int_equal(plan->segments.at[i].state[0], at[i]);
  assert_int_equal(plan->arenas.at[2].role, ARENA_state);
  assert_int_equal(plan->arenas.at[2].elements, 64);
  const Program *p = &plan->optimizers.at[1];
  assert_true(plan_step_block(plan) >= 4);
  int32_t read = -1, written = -1; /* p is written where nobody reads it any more */
  for (uint32_t k = 0; k < p->kernels.len; k++) {
    const Kernel *kernel = &p->kernels.at[k];
    for (uint32_t i = 0; i < kernel->reads.len; i++) {
      const ValuePlace *place = &p->places.at[kernel->reads.at[i]];
      if (place->home == HOME_state && place->index < 0) read = (int32_t)k;
    }
    for (uint32_t i = 0; i < kernel->writes.len; i++) {
      const ValuePlace *place = &p->places.at[kernel->writes.at[i]];
      if (place->home == HOME_state && place->index < 0) written = (int32_t)k;
    }
  }
  assert_true(read >= 0 && written > 0 && written >= read);
  arena_free(a);
}

/* The loss in up to 8 chunks, of at least 1024 rows; or as asked for. */
static void chunks(void **state) {
  (void)state;
  static const struct {
    int64_t batch, rows, wanted, samples;
  } cases[] = {{12, 1024, CHUNK_by_size, 2},
               {64, 1024, CHUNK_by_size, 8},
               {4, 1024, CHUNK_by_size, 1},
               {4, 256, CHUNK_by_size, 0},
               {5, 256, CHUNK_by_size, 4},
               {1, 1 << 20, CHUNK_by_size, 0},
               {4096, 1, CHUNK_by_size, 1024},
               {12, 1024, 0, 0},
               {12, 1, 5, 5},
               {12, 1024, 12, 0},
               {12, 1024, 100, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(plan_chunk_samples(cases[i].batch, cases[i].rows, cases[i].wanted),
                     cases[i].samples);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(chunks),
                                     cmocka_unit_test(layout),
                                     cmocka_unit_test(small_buckets),
                                     cmocka_unit_test(names),
                                     cmocka_unit_test(hash),
                                     cmocka_unit_test(report),
                                     cmocka_unit_test(whole_tensor_optimizer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
