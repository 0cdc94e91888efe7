/* The table of settings: all fields of TrainingArguments 5.24, each in one class, with defaults that
   their own checks accept. */
#include "settings.h"
#include "diag.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above */
#include <cmocka.h>

static int count(char class) {
  int n = 0;
  for (int i = 0; i < setting_rows(); i++) {
    n += !strcmp(setting_row(i)->block, "train") && (!class || setting_row(i)->class == class);
  }
  return n;
}

static void test_classes(void **state) {
  (void)state;
  assert_int_equal(count(0), 114);
  assert_int_equal(count('C'), 18);
  assert_int_equal(count('R'), 53);
  assert_int_equal(count('A'), 16);
  assert_int_equal(count('X'), 27);
}

static void test_names_are_unique(void **state) {
  (void)state;
  for (int i = 0; i < setting_rows(); i++) {
    assert_int_equal(setting_find(setting_row(i)->block, setting_row(i)->key), i);
    assert_int_equal(setting_find(NULL, setting_row(i)->key), i);
  }
}

static void test_defaults_have_their_type(void **state) {
  (void)state;
  Arena *a = arena_new();
  Settings *s = settings_new(a, NULL);
  for (int i = 0; i < setting_rows(); i++) {
    const SettingRow *row = setting_row(i);
    const SettingValue *v = settings_get(s, i);
    if (v->kind == VALUE_none) {
      assert_true(row->nullable);
      continue;
    }
    static const int kinds[] = {VALUE_int,  VALUE_float, VALUE_bool, VALUE_text,
                                VALUE_text, VALUE_list,  VALUE_map};
    if ((int)v->kind != kinds[row->type]) fail_msg("%s: default %s", row->key, row->initial);
    if (row->type == SETTING_word && row->values[0] != '*') {
      const char *at = strstr(row->values, v->text);
      if (!at || (at > row->values && at[-1] == '~')) fail_msg("%s: default %s", row->key, v->text);
    }
  }
  assert_int_equal(diag_errors(), 0);
  arena_free(a);
}

static void test_texts(void **state) {
  (void)state;
  Arena *a = arena_new();
  Settings *s = settings_new(a, NULL);
  SettingValue v;
  assert_true(setting_parse_args(a, "momentum=0.9, nesterov = true,k=3,t=cosine", (Span){0}, &v));
  assert_int_equal(v.items.len, 4);
  assert_string_equal(setting_show(a, &v),
                      "{ momentum = 0.9, nesterov = true, k = 3, t = \"cosine\" }");
  assert_string_equal(setting_text(a, settings_slot(s, "optim_args")->row, &v),
                      "momentum=0.9,nesterov=true,k=3,t=cosine");
  assert_false(setting_parse_args(a, "momentum", (Span){0}, &v));
  assert_false(setting_parse_args(a, "=1", (Span){0}, &v));
  assert_true(setting_parse_args(a, "", (Span){0}, &v));
  assert_int_equal(v.items.len, 0);
  arena_free(a);
}

static void test_export(void **state) {
  (void)state;
  Arena *a = arena_new();
  Settings *s = settings_new(a, NULL);
  settings_define(s, "train.learning_rate", "3e-4");
  settings_define(s, "train.output_dir", "runs/x y");
  settings_define(s, "train.optim", "sgd");
  settings_define(s, "train.optim_args", "{ momentum = 0.9 }");
  settings_define(s, "runtime.on_nan", "ignore");
  settings_check(s);
  settings_rules(s);
  Job job = {.arena = a};
  settings_export(s, &job);
  assert_int_equal(diag_errors(), 0);
  assert_int_equal(job.settings.len, setting_rows());
  assert_string_equal(job_setting(&job, "learning_rate"), "0.0003");
  assert_string_equal(job_setting(&job, "output_dir"), "runs/x y");
  assert_string_equal(job_setting(&job, "optim"), "sgd");
  assert_string_equal(job_setting(&job, "optim_args"), "momentum=0.9");
  assert_true(job_setting_is(&job, "on_nan", "ignore"));
  assert_string_equal(job_setting(&job, "run_name"), "none");
  assert_string_equal(job_setting(&job, "eval_strategy"), "no");
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_classes),
                                     cmocka_unit_test(test_names_are_unique),
                                     cmocka_unit_test(test_defaults_have_their_type),
                                     cmocka_unit_test(test_texts), cmocka_unit_test(test_export)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
