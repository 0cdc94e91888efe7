/* The loop on a job whose numbers can be worked out on paper (probe_job.c): accumulation, counts,
   clipping, sharding, evaluation, log, saving, stopping. Bug reports in brackets. */
#include "check.h"
#include "safetensors.h"
#include <jansson.h>
#include <math.h>
#include <sys/wait.h>

static char output[200], text[1 << 16];
static int turn; /* of the next run */

static void put(const char *name, const char *rows) {
  check_file(name, rows, strlen(rows));
}

/* Runs the probe; returns its exit code, its messages are in `text`. */
static int run_code(const char *environment, int ranks, const char *flags) {
  char command[1000], ranks_flag[40] = "";
  if (ranks > 1) snprintf(ranks_flag, sizeof ranks_flag, "--nproc-per-node %d", ranks);
  snprintf(output, sizeof output, "%s/out%d", check_folder(), turn++);
  snprintf(command, sizeof command, "%s timeout 30 %s %s --data_root %s --output_dir %s %s 2>&1",
           environment, PROBE_JOB, ranks_flag, check_folder(), output, flags);
  FILE *f = popen(command, "r");
  assert_non_null(f);
  size_t n = fread(text, 1, sizeof text - 1, f);
  text[n] = 0;
  int status = pclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void run(const char *environment, int ranks, const char *flags) {
  int code = run_code(environment, ranks, flags);
  if (code != 0) fail_msg("exit %d: %s", code, text);
}

/* The k-th line of the log that has this member (from 0); NAN when there is none. */
static double logged(const char *name, int k) {
  char path[240], line[4096];
  double value = NAN;
  snprintf(path, sizeof path, "%s/log.jsonl", output);
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f)) {
    json_t *v = json_loads(line, 0, NULL);
    if (!v) fail_msg("no JSON: %s", line);
    if (json_object_get(v, name) && k-- == 0) value = json_number_value(json_object_get(v, name));
    json_decref(v);
  }
  if (f) fclose(f);
  return value;
}

static void weights_of(const char *folder, float *w) {
  static const int64_t shape[] = {2};
  char path[300];
  DdpSafeFile *f;
  snprintf(path, sizeof path, "%s%s/model.safetensors", output, folder);
  CHECK_OK(ddp_safetensors_open(&f, path));
  CHECK_OK(ddp_safetensors_read(f, "w", DDP_f32, 1, shape, w));
  ddp_safetensors_close(f);
}

static float weight(void) {
  float w[2];
  weights_of("", w);
  return w[0];
}

#define NEAR(a, b)                                                                                 \
  do {                                                                                             \
    double a_ = (a), b_ = (b);                                                                     \
    if (!(fabs(a_ - b_) <= 1e-6 * fmax(1, fabs(b_))))                                              \
      fail_msg("%s is %.9g, not %.9g", #a, a_, b_);                                                \
  } while (0)

static bool exists(const char *name) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s", output, name);
  return access(path, F_OK) == 0;
}

/* [1] The mean is over all counted items of the window, whatever ranks and micro-batches. */
static void items_are_counted_globally(void **state) {
  (void)state;
  static const struct {
    const char *batch;
    int ranks;
    const char *flags;
  } ways[] = {{"PROBE_BATCH=8", 1, ""},
              {"PROBE_BATCH=1", 2, "--gradient_accumulation_steps 4"},
              {"PROBE_BATCH=2", 4, ""},
              {"PROBE_BATCH=1", 1, "--gradient_accumulation_steps 8"}};
  put("train.csv", "1,1,0,1\n2,3,0,3\n4,-2,0,2\n1,5,0,5\n3,1,0,1\n2,2,0,1\n5,7,0,4\n1,1,0,2\n");
  for (int i = 0; i < 4; i++) {
    char flags[100];
    snprintf(flags, sizeof flags, "%s --num_train_epochs 3 --learning_rate 0.1", ways[i].flags);
    run(ways[i].batch, ways[i].ranks, flags);
    NEAR(logged("loss", 0), 47.0 / 19);
    NEAR(weight(), 3 * 0.1 * 64 / 19);
    NEAR(logged("step", 2), 3);
  }
  put("train.csv", "4,0,0,1\n1,0,0,3\n"); /* 1.75, never 2.5 */
  run("PROBE_BATCH=1", 2, "");
  NEAR(logged("loss", 0), 1.75);
  put("train.csv", "4,1,1,0\n1,1,1,0\n"); /* nothing counted: no division by zero */
  run("PROBE_BATCH=1", 2, "");
  NEAR(logged("loss", 0), 0);
  NEAR(weight(), 0);
}

/* [2] The short window at the end is divided by what it holds, and is an update. */
static void tail_window(void **state) {
  (void)state;
  put("train.csv", "0,1,0,1\n0,1,0,1\n0,1,0,1\n0,1,0,1\n0,1,0,1\n");
  run("PROBE_BATCH=1", 1, "--gradient_accumulation_steps 2 --save_strategy steps --save_steps 1");
  float w[2];
  for (int k = 1; k <= 3; k++) {
    char folder[32];
    snprintf(folder, sizeof folder, "/checkpoint-%d", k);
    weights_of(folder, w);
    NEAR(w[0], k);
  }
  assert_false(exists("checkpoint-4"));
  run("PROBE_BATCH=1", 2, "--gradient_accumulation_steps 2");
  NEAR(weight(), 2);
  put("train.csv", "0,1,0,1\n");
  run("PROBE_BATCH=1", 1, "--gradient_accumulation_steps 4");
  NEAR(weight(), 1);
  NEAR(logged("step", 0), 1);
}

/* [3] One count feeds loop and schedule. */
static void planned_updates(void **state) {
  (void)state;
  char rows[91 * 8 + 1] = "";
  for (int i = 0; i < 91; i++) strcat(rows, "0,1,0,1\n");
  put("train.csv", rows);
  for (int ranks = 1; ranks <= 2; ranks++) {
    int total = 40 / ranks;
    run("PROBE_BATCH=10 PROBE_LINEAR=1", ranks,
        "--gradient_accumulation_steps 3 --num_train_epochs 10");
    for (int k = 0; k < total; k++) NEAR(logged("learning_rate", k), 1 - (double)k / total);
    NEAR(logged("step", total - 1), total);
    NEAR(logged("epoch", total - 1), 10);
    assert_true(isnan(logged("loss", total)));
  }
}

/* [16] Clipping acts on the averaged gradient of the whole update; the norm is the one before it. */
static void clipping(void **state) {
  (void)state;
  float w[2];
  put("train.csv", "0,3,0,1\n0,0,4,1\n");
  for (int ranks = 1; ranks <= 2; ranks++) {
    run("PROBE_BATCH=1", ranks,
        ranks == 1 ? "--gradient_accumulation_steps 2 --max_grad_norm 1" : "--max_grad_norm 1");
    NEAR(logged("grad_norm", 0), 2.5);
    weights_of("", w);
    NEAR(w[0], 0.6);
    NEAR(w[1], 0.8);
  }
  run("PROBE_BATCH=1", 2, "--max_grad_norm 0");
  NEAR(logged("grad_norm", 0), 2.5);
  NEAR(weight(), 1.5);
}

/* [58, 81] Every sample once, gradients of all micro-batches reduced once. */
static void sharding(void **state) {
  (void)state;
  put("train.csv", "0,1,0,1\n0,2,0,1\n0,4,0,1\n0,8,0,1\n0,16,0,1\n0,32,0,1\n0,64,0,1\n0,128,0,1\n");
  run("PROBE_BATCH=1", 2, "");
  NEAR(weight(), 255.0 / 2);
  run("PROBE_BATCH=1", 4, "");
  NEAR(weight(), 255.0 / 4);
  put("train.csv", "0,1,0,2\n0,2,0,2\n0,10,0,2\n0,20,0,2\n");
  run("PROBE_BATCH=1", 2, "--gradient_accumulation_steps 2");
  NEAR(weight(), 33.0 / 4);
}

/* [22, 26] Each sample of the evaluation once, for any batch and number of ranks: the same bits. */
static void evaluation_is_exact(void **state) {
  (void)state;
  double first = NAN;
  put("train.csv", "0,0,0,1\n0,0,0,1\n");
  put("eval.csv", "1,0,0,1\n1,0,0,1\n1,0,0,1\n1,0,0,1\n6,0,0,1\n");
  for (int batch = 1; batch <= 5; batch++) {
    char environment[60];
    snprintf(environment, sizeof environment, "PROBE_EVAL_BATCH=%d", batch);
    run(environment, 1 + batch % 2, "--eval_strategy epoch");
    NEAR(logged("eval_loss", 0), 2);
  }
  put("eval.csv", "7,0,0,1\n.1,0,0,1\n.7,0,0,1\n.3,0,0,1\n.9,0,0,1\n.11,0,0,1\n.13,0,0,1\n.17,0,0,"
                  "1\n.19,0,0,1\n.23,0,0,1\n");
  for (int ranks = 1; ranks <= 4; ranks++) {
    run("PROBE_EVAL_BATCH=2", ranks, "--eval_strategy epoch");
    NEAR(logged("eval_sevens", 0), 0.1);
    if (ranks == 1) first = logged("eval_loss", 0);
    assert_true(logged("eval_loss", 0) == first);
  }
}

/* [28] The loss in the log is the global mean, however often it is written. */
static void logged_loss(void **state) {
  (void)state;
  static const char *const flags[] = {"--logging_steps 1", "--logging_steps 3", "--logging_steps 7",
                                      "--gradient_accumulation_steps 4",
                                      "--logging_strategy epoch"};
  put("train.csv", "2,0,0,1\n2,0,0,1\n2,0,0,1\n2,0,0,1\n2,0,0,1\n2,0,0,1\n2,0,0,1\n2,0,0,1\n");
  for (int i = 0; i < 5; i++) {
    run("PROBE_BATCH=1", 1 + i % 2, flags[i]);
    if (i != 2) NEAR(logged("loss", 0), 2);
    NEAR(logged("train_loss", 0), 2);
  }
  put("train.csv", "1,0,0,1\n3,0,0,1\n");
  run("PROBE_BATCH=1", 2, "");
  NEAR(logged("loss", 0), 2);
}

/* [54] A save at the end, once; eval at the end with steps. */
static void final_save(void **state) {
  (void)state;
  put("train.csv", "0,1,0,1\n0,1,0,1\n0,1,0,1\n0,1,0,1\n");
  put("eval.csv", "1,0,0,1\n");
  run("PROBE_BATCH=1", 1,
      "--max_steps 7 --save_strategy steps --save_steps 3 --eval_strategy steps --eval_steps 3 "
      "--eval_on_start");
  assert_true(exists("checkpoint-3/model.safetensors") && exists("checkpoint-6/model.safetensors"));
  assert_true(exists("checkpoint-7/model.safetensors") && exists("model.safetensors"));
  NEAR(logged("eval_loss", 0), 1);
  assert_true(!isnan(logged("eval_loss", 3)));
  assert_true(isnan(logged("eval_loss", 4)));
  run("PROBE_BATCH=1", 2, "--max_steps 6 --save_strategy steps --save_steps 3");
  assert_true(exists("checkpoint-3") && exists("checkpoint-6") && !exists("checkpoint-7"));
  run("PROBE_BATCH=1", 1, "--max_steps 7 --save_strategy epoch");
  assert_true(exists("checkpoint-4") && exists("checkpoint-7"));
}

static void expect_failure(const char *environment, int ranks, const char *flags, int code,
                           const char *says) {
  int got = run_code(environment, ranks, flags);
  if (got != code) fail_msg("exit %d, not %d: %s", got, code, text);
  if (!strstr(text, says)) fail_msg("\"%s\" lacks \"%s\"", text, says);
  const char *twice = strstr(text, says);
  if (strstr(twice + 1, says)) fail_msg("said twice: %s", text);
}

/* [20] NaN on one rank: all stop at that update, the rank is named, nothing is saved. */
static void not_a_number(void **state) {
  (void)state;
  put("train.csv", "0,1,0,1\n0,1,0,1\n3e38,3e38,0,1e3\n0,1,0,1\n0,0,0,1\n0,0,0,1\n");
  expect_failure("PROBE_BATCH=1", 2, "", DDP_NUMERIC, "update 2: the loss is");
  put("train.csv", "0,1,0,1\n0,1,0,1\n0,1,0,1\n3e38,0,0,2\n0,0,0,1\n0,0,0,1\n");
  expect_failure("PROBE_BATCH=1", 2, "--train_sampling_strategy random", DDP_NUMERIC,
                 "from data row 4 (counted from 1)");
  assert_false(exists("model.safetensors"));
  run("PROBE_BATCH=1", 2, "--on_nan ignore");
}

/* [58] A rank whose parameters drift apart is found at the next comparison, and by nothing else. */
static void ranks_are_compared(void **state) {
  (void)state;
  put("train.csv", "0,1,0,1\n0,1,0,1\n0,1,0,1\n0,1,0,1\n0,1,0,1\n0,1,0,1\n");
  run("PROBE_BATCH=1", 2, "--check_ranks 1");
  run("PROBE_BATCH=1 PROBE_DRIFT=1", 2, "");
  expect_failure("PROBE_BATCH=1 PROBE_DRIFT=1", 2, "--check_ranks 1", DDP_PEER,
                 "update 2: rank 1 no longer holds what rank 0 does: w differs");
  expect_failure("PROBE_BATCH=1 PROBE_DRIFT=1", 2, "--check_ranks 3", DDP_PEER, "update 3: rank 1");
}

/* debug = underflow_overflow: what every tensor holds, told once. */
static void what_overflows(void **state) {
  (void)state;
  put("train.csv", "0,1,0,1\n0,1,0,1\n3e38,3e38,0,1e3\n0,1,0,1\n0,0,0,1\n0,0,0,1\n");
  expect_failure("PROBE_BATCH=1", 2, "--debug underflow_overflow --logging_steps 100", DDP_NUMERIC,
                 "weights and gradients of update 2");
  if (!strstr(text, "  0.00e+00  1.00e+00  w weight\n")) fail_msg("%s", text);
  if (!strstr(text, "3.00e+38  w gradient")) fail_msg("%s", text);
  run("PROBE_BATCH=1", 2, "--debug underflow_overflow --on_nan ignore");
  const char *told = strstr(text, "weights and gradients of update 2");
  if (!told || strstr(told, "weights and gradients of update 3")) fail_msg("%s", text);
  expect_failure("", 1, "--debug underflow", DDP_USAGE, "expected one of underflow_overflow");
  expect_failure("", 1, "--debug underflow_overflow,tpu_metrics_debug", DDP_USAGE,
                 "debug = tpu_metrics_debug is not supported yet");
}

/* [40] Nothing to train on is an error with counts. */
static void empty_data(void **state) {
  (void)state;
  put("train.csv", "");
  expect_failure("", 2, "", DDP_DATA, "split train is empty: 0 rows were read");
  put("train.csv", "0,1,0,1\n0,1,0,1\n0,1,0,1\n");
  expect_failure("PROBE_BATCH=4", 2, "--dataloader_drop_last", DDP_DATA,
                 "nothing to train on: 3 samples over 2 ranks");
  put("train.csv", "0,1,0,1\nx,1,0,1\n");
  expect_failure("", 2, "", DDP_DATA, "train.csv:2:1: column 1 (c): 'x' is not a finite number");
  put("train.csv", "0,1,0,1\n0,1,0,1\n");
  expect_failure("", 2, "--learning_rte 3", DDP_USAGE, "did you mean 'learning_rate'?");
  expect_failure("", 2, "--init_from /nonexistent", DDP_DATA, "cannot read weights '/nonexistent'");
}

/* A signal ends the run after an update, with a code of its own and a whole log. */
static void stopping(void **state) {
  (void)state;
  put("train.csv", "0,1,0,1\n0,1,0,1\n0,1,0,1\n0,1,0,1\n");
  for (int ranks = 1; ranks <= 2; ranks++) {
    int code = run_code("PROBE_SIGNAL=15", ranks,
                        "--max_steps 1000000 --save_strategy steps --save_steps 3");
    if (code != DDP_STOPPED) fail_msg("exit %d: %s", code, text);
    double at = NAN; /* after update 3, or whenever the signal arrived */
    for (int k = 0; !isnan(logged("loss", k)); k++) at = logged("step", k);
    assert_true(at >= 3 && at < 1000000);
    assert_true(!isnan(logged("train_loss", 0)));
    assert_true(exists("checkpoint-3/model.safetensors") && !exists("model.safetensors"));
  }
}

/* Weights go in where they came out, buffers of rank 0 included. */
static void weights_there_and_back(void **state) {
  (void)state;
  char flags[300];
  put("train.csv", "0,1,2,1\n0,1,2,1\n");
  run("PROBE_BATCH=1", 2, "");
  NEAR(weight(), 1);
  snprintf(flags, sizeof flags, "--init-only --init_from %s/model.safetensors", output);
  run("PROBE_BATCH=1", 2, flags);
  NEAR(weight(), 1);
  assert_false(exists("log.jsonl"));
  DdpSafeFile *f;
  char path[300];
  int64_t seen = 0;
  snprintf(path, sizeof path, "%s/model.safetensors", output);
  CHECK_OK(ddp_safetensors_open(&f, path));
  CHECK_OK(ddp_safetensors_read(f, "seen", DDP_i64, 0, NULL, &seen));
  ddp_safetensors_close(f);
  assert_int_equal(seen, 1); /* of rank 0 alone */
}

/* A folder that cannot be written: an error with class and place, no hang of the others. */
static void cannot_write(void **state) {
  (void)state;
  put("train.csv", "0,1,0,1\n0,1,0,1\n");
  char next[32];
  snprintf(next, sizeof next, "out%d", turn);
  put(next, "x");
  expect_failure("", 2, "", DDP_IO, "cannot create folder");
}

int main(void) {
  put("eval.csv", "1,0,0,1\n");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(items_are_counted_globally),
      cmocka_unit_test(tail_window),
      cmocka_unit_test(planned_updates),
      cmocka_unit_test(clipping),
      cmocka_unit_test(sharding),
      cmocka_unit_test(ranks_are_compared),
      cmocka_unit_test(what_overflows),
      cmocka_unit_test(evaluation_is_exact),
      cmocka_unit_test(logged_loss),
      cmocka_unit_test(final_save),
      cmocka_unit_test(not_a_number),
      cmocka_unit_test(empty_data),
      cmocka_unit_test(stopping),
      cmocka_unit_test(weights_there_and_back),
      cmocka_unit_test(cannot_write),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  check_folder_remove();
  return failed;
}
