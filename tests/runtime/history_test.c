/* trainer_state.json and which checkpoints go: in the Trainer's schema and by its rule. */
#include "check.h"
#include "history.h"
#include "keep.h"
#include "real.h"
#include <math.h>

static void reals(void **state) {
  (void)state;
  static const struct {
    double v;
    const char *repr; /* Python's */
  } rows[] = {{0, "0.0"},
              {-0.0, "-0.0"},
              {1, "1.0"},
              {5e-05, "5e-05"},
              {0.0001, "0.0001"},
              {0.1 + 0.2, "0.30000000000000004"},
              {100, "100.0"},
              {-123456.75, "-123456.75"},
              {1e15, "1000000000000000.0"},
              {9007199254740993.0, "9007199254740992.0"},
              {1e16, "1e+16"},
              {1.5e300, "1.5e+300"},
              {5e-324, "5e-324"},
              {1.7976931348623157e308, "1.7976931348623157e+308"},
              {2.5e-10, "2.5e-10"},
              {0.001234, "0.001234"}};
  char text[DDP_REAL_TEXT];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_string_equal(ddp_real_text(rows[i].v, text), rows[i].repr);
    assert_true(strtod(text, NULL) == rows[i].v);
  }
  uint64_t bits = 1;
  for (int i = 0; i < 20000; i++) { /* any double reads back */
    double v;
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    memcpy(&v, &bits, sizeof v);
    if (!isfinite(v)) continue;
    assert_true(strtod(ddp_real_text(v, text), NULL) == v);
    assert_true(strpbrk(text, ".e") != NULL);
  }
}

static const DdpTrainerState at = {.epoch = 1.5,
                                   .global_step = 3,
                                   .max_steps = 4,
                                   .num_train_epochs = 2,
                                   .logging_steps = 1,
                                   .eval_steps = 500,
                                   .save_steps = 500,
                                   .saved_at = 3,
                                   .train_batch_size = 8,
                                   .best_metric = NAN,
                                   .best_global_step = -1};

static char *text_of(DdpHistory *h, const DdpTrainerState *s) {
  char *text = NULL;
  CHECK_OK(ddp_history_text(h, s, &text));
  return text;
}

/* As json.dumps(dataclasses.asdict(state), indent=2, sort_keys=True) + "\n" writes it. */
static void schema(void **state) {
  (void)state;
  DdpHistory *h;
  CHECK_OK(ddp_history_open(&h));
  CHECK_OK(ddp_history_add(h, "{\"loss\": 2.0, \"grad_norm\": null, \"epoch\": 1.5, \"step\": 3}"));
  char *text = text_of(h, &at);
  assert_string_equal(text, "{\n"
                            "  \"best_global_step\": null,\n"
                            "  \"best_metric\": null,\n"
                            "  \"best_model_checkpoint\": null,\n"
                            "  \"epoch\": 1.5,\n"
                            "  \"eval_steps\": 500,\n"
                            "  \"global_step\": 3,\n"
                            "  \"is_hyper_param_search\": false,\n"
                            "  \"is_local_process_zero\": true,\n"
                            "  \"is_world_process_zero\": true,\n"
                            "  \"log_history\": [\n"
                            "    {\n"
                            "      \"epoch\": 1.5,\n"
                            "      \"grad_norm\": null,\n"
                            "      \"loss\": 2.0,\n"
                            "      \"step\": 3\n"
                            "    }\n"
                            "  ],\n"
                            "  \"logging_steps\": 1,\n"
                            "  \"max_steps\": 4,\n"
                            "  \"num_input_tokens_seen\": 0,\n"
                            "  \"num_train_epochs\": 2,\n"
                            "  \"save_steps\": 500,\n"
                            "  \"stateful_callbacks\": {\n"
                            "    \"TrainerControl\": {\n"
                            "      \"args\": {\n"
                            "        \"should_epoch_stop\": false,\n"
                            "        \"should_evaluate\": false,\n"
                            "        \"should_log\": false,\n"
                            "        \"should_save\": true,\n"
                            "        \"should_training_stop\": false\n"
                            "      },\n"
                            "      \"attributes\": {}\n"
                            "    }\n"
                            "  },\n"
                            "  \"total_flos\": 0.0,\n"
                            "  \"train_batch_size\": 8,\n"
                            "  \"trial_name\": null,\n"
                            "  \"trial_params\": null\n"
                            "}\n");
  free(text);
  ddp_history_close(h);
}

/* What was read and is written again is the same text; what follows is appended. */
static void there_and_back(void **state) {
  (void)state;
  DdpHistory *h, *again;
  DdpTrainerState s = at;
  s.best_metric = 0.1;
  s.best_global_step = 2;
  CHECK_OK(ddp_history_open(&h));
  CHECK_OK(ddp_history_open(&again));
  CHECK_OK(ddp_history_add(h, "{\"loss\": 0.30000000000000004, \"step\": 1}"));
  CHECK_OK(ddp_history_add(h, "{\"eval_loss\": 1e-05, \"epoch\": 1.0, \"step\": 2}"));
  CHECK_OK(ddp_history_set_best(h, "runs/\xc3\xa4\n\"x\"/checkpoint-2"));
  char *first = text_of(h, &s);
  CHECK_OK(ddp_history_read(again, check_file("trainer_state.json", first, strlen(first))));
  char *second = text_of(again, &s);
  assert_string_equal(first, second);
  assert_int_equal(ddp_history_lines(again), 2);
  assert_string_equal(ddp_history_best(again), ddp_history_best(h));
  CHECK_OK(ddp_history_add(again, "{\"loss\": 1.0, \"step\": 3}"));
  assert_int_equal(ddp_history_lines(again), 3);
  free(first);
  free(second);
  ddp_history_close(h);
  ddp_history_close(again);
}

static void seeking(void **state) {
  (void)state;
  static const char *const lines[] = {
      "{\"eval_loss\": 0.1, \"step\": 0}", "{\"eval_loss\": 3, \"eval_f1\": null, \"step\": 1}",
      "{\"loss\": 0.01, \"step\": 2}", "{\"eval_loss\": 2.5, \"step\": 2}",
      "{\"eval_loss\": 2.5, \"step\": 3}"};
  DdpHistory *h;
  double value = 0;
  int64_t step = 0;
  CHECK_OK(ddp_history_open(&h));
  CHECK_OK(ddp_history_seek(h, "eval_loss", false, &value, &step));
  assert_int_equal(step, -1);
  for (int i = 0; i < 5; i++) CHECK_OK(ddp_history_add(h, lines[i]));
  CHECK_OK(ddp_history_seek(h, "eval_loss", false, &value, &step));
  assert_true(step == 2 && value == 2.5);
  CHECK_OK(ddp_history_seek(h, "eval_loss", true, &value, &step));
  assert_true(step == 1 && value == 3);
  CHECK_OK(ddp_history_seek(h, "eval_f1", true, &value, &step));
  assert_int_equal(step, -1);
  ddp_history_close(h);
}

static void broken(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"", ""},
      {"[]", "log_history: expected a list"},
      {"{}", "log_history: expected a list"},
      {"{\"log_history\": {}}", "log_history: expected a list"},
      {"{\"log_history\": [1], \"best_model_checkpoint\": null}", "a list of objects"},
      {"{\"log_history\": []}", "best_model_checkpoint: expected a text or null"},
      {"{\"log_history\": [], \"best_model_checkpoint\": 3}", "a text or null"},
      {"{\"log_history\": [], \"log_history\": []}", "trainer_state.json:1:"},
      {"{\"log_history\": [NaN]}", "trainer_state.json:1:"},
      {"{\"log_history\": [{\"loss\": 1.0}", "trainer_state.json:1:"},
  };
  DdpHistory *h;
  CHECK_OK(ddp_history_open(&h));
  CHECK_OK(ddp_history_add(h, "{\"step\": 1}"));
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *path = check_file("trainer_state.json", rows[i][0], strlen(rows[i][0]));
    CHECK_ERROR(ddp_history_read(h, path), DDP_DATA, rows[i][1]);
    assert_int_equal(ddp_history_lines(h), 1); /* an error changes nothing */
  }
  CHECK_ERROR(ddp_history_read(h, "/nonexistent/trainer_state.json"), DDP_DATA, "/nonexistent");
  ddp_history_close(h);
}

static void keeps(int64_t limit, int64_t newest, int64_t best, const char *have, const char *gone) {
  int64_t updates[16];
  int n = 0;
  char got[128] = "";
  for (const char *p = have; *p; n++) {
    char *end;
    updates[n] = strtoll(p, &end, 10);
    p = end + (*end == ' ');
  }
  int k = ddp_keep_select(updates, n, &(DdpKeep){.limit = limit, .newest = newest, .best = best});
  for (int i = 0; i < k; i++) {
    size_t used = strlen(got);
    snprintf(got + used, sizeof got - used, "%s%lld", i ? " " : "", (long long)updates[i]);
  }
  assert_string_equal(got, gone);
}

static void rotation(void **state) {
  (void)state;
  keeps(0, 30, -1, "10 20 30", "");
  keeps(3, 30, -1, "10 20 30", "");
  keeps(2, 30, -1, "10 20 30", "10");
  keeps(2, 100, -1, "9 100 20", "9");       /* numbers, not texts */
  keeps(1, 30, -1, "10 20 30", "10 20");    /* */
  keeps(2, 40, 10, "10 20 30 40", "20 30"); /* the best and the newest */
  keeps(3, 40, 10, "10 20 30 40", "20");
  keeps(1, 30, 10, "10 20 30", "20"); /* both stay, although the limit is 1 */
  keeps(1, 30, 30, "10 20 30", "10 20");
  keeps(1, 30, 25, "10 30", ""); /* a best one that is not here still counts as one to keep */
  keeps(2, 10, -1, "900 10 800", "800"); /* of an earlier run */
  keeps(1, 10, 900, "900 10 800", "800");
  keeps(2, 10, -1, "", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reals),          cmocka_unit_test(schema),
                                     cmocka_unit_test(there_and_back), cmocka_unit_test(broken),
                                     cmocka_unit_test(seeking),        cmocka_unit_test(rotation)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  check_folder_remove();
  return failed;
}
