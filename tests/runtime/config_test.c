/* Settings: precedence, types, ranges, what may not change at run time, and the texts that say so. */
#include "check.h"
#include "config.h"
#include <math.h>

static const DdpSettingText spec[] = {
    {"per_device_train_batch_size", "128", "job.ddp:31", true, NULL},
    {"learning_rate", "0.1", "job.ddp:32", false, NULL},
    {"max_steps", "50", "-D", false, NULL},
    {"adam_beta1", "0.8", "job.ddp:33", true, "`if beta1 != 0` in std/optim"},
};
static const DdpJob job = {.settings = spec, .n_settings = 4};

static DdpError *read_args(DdpConfig *c, int n, char **argv) {
  return ddp_config_read(c, &job, n, argv);
}
#define READ(c, ...)                                                                               \
  read_args(c, (int)(sizeof((char *[]){"train", __VA_ARGS__}) / sizeof(char *)),                   \
            (char *[]){"train", __VA_ARGS__})

static void precedence(void **state) {
  (void)state;
  DdpConfig c;
  static const char json[] = "{\"learning_rate\": 0.25, \"seed\": 7, \"logging_first_step\": true, "
                             "\"data_seed\": null}";
  char *file = (char *)(uintptr_t)check_file("run.json", json, sizeof json - 1);
  CHECK_OK(READ(&c, "--learning_rate", "3e-4", "--config", file, "--num_train_epochs=1.5"));
  assert_true(c.settings.learning_rate == 3e-4);
  assert_string_equal(c.source[DDP_KEY_learning_rate], "--learning_rate");
  assert_int_equal(c.settings.seed, 7);
  assert_string_equal(c.source[DDP_KEY_seed], file);
  assert_int_equal(c.settings.logging_first_step, 1);
  assert_int_equal(c.settings.data_seed, DDP_NONE_INT);
  assert_int_equal(c.settings.max_steps, 50);
  assert_string_equal(c.source[DDP_KEY_max_steps], "-D");
  assert_true(c.settings.num_train_epochs == 1.5);
  assert_true(c.settings.max_grad_norm == 1.0);
  assert_string_equal(c.source[DDP_KEY_max_grad_norm], "default");
  assert_null(c.settings.ddp_backend);
  assert_true(isnan(c.settings.eval_steps));
  ddp_config_free(&c);
}

static void spellings(void **state) {
  (void)state;
  static const char *const floats[] = {"1e-4", "1E-4", ".0001", "0.0001"};
  for (int i = 0; i < 4; i++) {
    DdpConfig c;
    CHECK_OK(READ(&c, "--learning_rate", (char *)(uintptr_t)floats[i], "--init-only", "--max-steps",
                  "1_000", "--logging_first_step", "--data-root", "/d"));
    assert_true(c.settings.learning_rate == 1e-4);
    assert_true(c.init_only);
    assert_int_equal(c.settings.max_steps, 1000);
    assert_int_equal(c.settings.logging_first_step, 1);
    assert_string_equal(c.settings.data_root, "/d");
    ddp_config_free(&c);
  }
}

static void refuse(const char *flag, const char *value, const char *text) {
  DdpConfig c;
  DdpError *e = READ(&c, (char *)(uintptr_t)flag, (char *)(uintptr_t)value);
  if (!e) fail_msg("%s %s is accepted", flag, value);
  if (!strstr(e->message, text))
    fail_msg("%s %s: \"%s\" lacks \"%s\"", flag, value, e->message, text);
  assert_int_equal(e->klass, DDP_USAGE);
  ddp_error_free(e);
  ddp_config_free(&c);
}

static void refusals(void **state) {
  (void)state;
  refuse("--per_device_train_batch_size", "64",
         "is fixed at 128 in this binary; recompile with `ddpc -D "
         "train.per_device_train_batch_size=64`");
  refuse("--adam_beta1", "0.9",
         "is fixed at 0.8 in this binary (`if beta1 != 0` in std/optim); recompile "
         "with `ddpc -D train.adam_beta1=0.9`");
  refuse("--fsdp", "full_shard", "not accepted: ddpc trains data-parallel");
  refuse("--resume_changes", "x", "expected one of refuse allow");
  refuse("--rng", "torch", "rng = torch is not supported yet");
  refuse("--save_total_limit", "-1", "expected a whole number >=0");
  refuse("--save_strategy", "best", "save_strategy = best needs metric_for_best_model");
  refuse("--load_best_model_at_end=true", "--save_strategy=no",
         "load_best_model_at_end needs evaluations, and eval_strategy is no");
  refuse("--load_best_model_at_end=true", "--eval_strategy=epoch",
         "needs equal strategies: eval_strategy is epoch, save_strategy is steps");
  refuse("--ddp_backend", "glo", "expected one of gloo");
  refuse("--learning_rat", "3e-4", "did you mean 'learning_rate'?");
  refuse("--warmup_ratio", "0.1", "use --warmup_steps");
  refuse("--learning_rate", "fast", "expected a number >=0");
  refuse("--learning_rate", "1e400", "fits in a double");
  refuse("--learning_rate", "nan", "expected a number");
  refuse("--learning_rate", "-1", "expected a number >=0");
  refuse("--gradient_accumulation_steps", "0", "expected a whole number from 1 to 1000000000");
  refuse("--gradient_accumulation_steps", "2.5", "expected a whole number from 1 to 1000000000");
  refuse("--seed", "9223372036854775808", "64 bits");
  refuse("--ddp_timeout", "30m", "expected a whole number from 1 to 31536000");
  refuse("--adam_beta2", "1.5", "from 0 to 1");
  refuse("--dataloader_drop_last", "no", "unexpected argument 'no'");
  refuse("--dataloader_drop_last=no", "--seed=1", "expected true or false");
  refuse("--logging_steps", "2.5", "above 1 it must be a whole number of updates");
  refuse("--seed=1", "--seed=2", "--seed is given twice: '1' and '2'");
  refuse("--per_device_train_batch_size", "0", "from 1 to 1000000000");
  refuse("--ddp_timeout", "1000000000000", "from 1 to 31536000");
  refuse("--seed", "--init-only", "--seed: a value is missing");
  refuse("--config", "/nonexistent.json", "/nonexistent.json");
}

/* TrainingArguments takes a bool or a word. */
static void bool_or_word(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"true", "all"}, {"False", "no"}, {"non_padding", "non_padding"}};
  for (int i = 0; i < 3; i++) {
    DdpConfig c;
    CHECK_OK(READ(&c, "--include_num_input_tokens_seen", (char *)(uintptr_t)rows[i][0]));
    assert_string_equal(c.settings.include_num_input_tokens_seen, rows[i][1]);
    ddp_config_free(&c);
  }
  refuse("--include_num_input_tokens_seen", "some", "expected one of no all non_padding");
}

/* Lists: as flags, and in a file. */
static void lists(void **state) {
  (void)state;
  static const char *const files[] = {"{\"report_to\": []}", "{\"report_to\": null}",
                                      "{\"report_to\": \"none\", \"debug\": []}"};
  for (int i = 0; i < 3; i++) {
    DdpConfig c;
    char *file = (char *)(uintptr_t)check_file("run.json", files[i], strlen(files[i]));
    CHECK_OK(READ(&c, "--config", file));
    assert_null(c.settings.report_to);
    assert_string_equal(c.settings.debug, "");
    ddp_config_free(&c);
  }
  refuse("--report_to", "wandb", "report_to = wandb is not supported yet");
  refuse("--report_to", "none,wandb", "report_to = wandb is not supported yet");
  refuse("--report_to", "tensorbord", "expected one of none");
  static const char two[] = "{\"report_to\": [\"none\", \"mlflow\"]}";
  refuse("--config", check_file("run.json", two, sizeof two - 1),
         "report_to = mlflow is not supported yet");
}

/* The value that is compiled in may be said again. */
static void repeating_is_no_change(void **state) {
  (void)state;
  DdpConfig c;
  CHECK_OK(READ(&c, "--per_device_train_batch_size", "128", "--adam_beta1=0.80"));
  ddp_config_free(&c);
}

static void json_is_checked(void **state) {
  (void)state;
  static const char *const texts[][2] = {
      {"{\"seed\": [1]}", "seed: expected a number, text, true, false or null"},
      {"{\"sed\": 1}", "sed: unknown; did you mean 'seed'?"},
      {"{\"seed\": 1, \"seed\": 2}", "duplicate"},
      {"[1]", "expected one JSON object"},
      {"{\"seed\": ", "run.json:1:"},
      {"{\"seed\": 1.5}", "seed = '1.5': expected a whole number"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    const char *file = check_file("run.json", texts[i][0], strlen(texts[i][0]));
    refuse("--config", file, texts[i][1]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(precedence),      cmocka_unit_test(spellings),
      cmocka_unit_test(refusals),        cmocka_unit_test(bool_or_word),
      cmocka_unit_test(lists),           cmocka_unit_test(repeating_is_no_change),
      cmocka_unit_test(json_is_checked),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  check_folder_remove();
  return failed;
}
