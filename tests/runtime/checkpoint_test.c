/* Folders of checkpoints: which one is complete, which is the newest, what is removed, and that
   a folder takes its name only when it is whole. */
#include "check.h"
#include "manifest.h"
#include <sys/stat.h>

static char output[100];

static const char *at(const char *name) {
  static char paths[4][300];
  static int turn;
  char *path = paths[turn++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", output, name);
  return path;
}

static void put(const char *name, const char *text) {
  FILE *f = fopen(at(name), "wb");
  if (!f || fputs(text, f) < 0 || fclose(f) != 0) abort();
}

static bool exists(const char *name) {
  return access(at(name), F_OK) == 0;
}

static int fresh(void **state) {
  (void)state;
  static int turn;
  snprintf(output, sizeof output, "%s/out%d", check_folder(), turn++);
  return mkdir(output, 0777);
}

static void save(int64_t update, const char *weights) {
  DdpManifestSetting settings[] = {{"seed", "42"}};
  DdpManifest m = {.format = DDP_CHECKPOINT_FORMAT,
                   .update = update,
                   .world = 2,
                   .complete_state = strcmp(weights, "only") != 0,
                   .data_hash = 0xfedcba9876543210,
                   .job = "a \"job\".ddp",
                   .settings = settings,
                   .n_settings = 1};
  char *partial;
  CHECK_OK(ddp_checkpoint_begin(&partial, output, update));
  char name[200];
  snprintf(name, sizeof name, "%s/model.safetensors", strrchr(partial, '/') + 1);
  put(name, weights);
  CHECK_OK(ddp_manifest_add(&m, partial, "model.safetensors"));
  CHECK_OK(ddp_manifest_write(&m, partial));
  CHECK_OK(ddp_checkpoint_publish(partial, output, update));
  free(partial);
}

static void there_and_back(void **state) {
  (void)state;
  DdpManifest m;
  save(12, "weights");
  CHECK_OK(ddp_checkpoint_verify(at("checkpoint-12"), true, &m));
  assert_int_equal(m.update, 12);
  assert_int_equal(m.world, 2);
  assert_true(m.data_hash == 0xfedcba9876543210);
  assert_string_equal(m.job, "a \"job\".ddp");
  assert_int_equal(m.n_settings, 1);
  assert_string_equal(m.settings[0].value, "42");
  assert_int_equal(m.n_files, 1);
  assert_int_equal(m.files[0].bytes, 7);
  /* what `xxhsum -H2` prints for these bytes */
  assert_string_equal(m.files[0].xxh128, "bdbda1eb6e05adc4800d98e5524fefbc");
  ddp_manifest_free(&m);
  assert_false(exists(".checkpoint-12.partial"));
}

static void faults_are_named(void **state) {
  (void)state;
  save(1, "weights");
  const char *folder = at("checkpoint-1");
  char path[300];
  snprintf(path, sizeof path, "%s", folder);
  put("checkpoint-1/model.safetensors", "weighty"); /* as long as before */
  CHECK_OK(ddp_checkpoint_verify(path, false, NULL));
  CHECK_ERROR(ddp_checkpoint_verify(path, true, NULL), DDP_DATA,
              "checkpoint-1/model.safetensors' is damaged: other bytes");
  put("checkpoint-1/model.safetensors", "weight");
  CHECK_ERROR(ddp_checkpoint_verify(path, false, NULL), DDP_DATA, "it has 6 bytes, 7 were written");
  unlink(at("checkpoint-1/model.safetensors"));
  CHECK_ERROR(ddp_checkpoint_verify(path, false, NULL), DDP_DATA, "model.safetensors' is missing");
  put("checkpoint-1/manifest.json", "{");
  CHECK_ERROR(ddp_checkpoint_verify(path, false, NULL), DDP_DATA, "manifest.json' is damaged");
  put("checkpoint-1/manifest.json", "{\"format\": 99}");
  CHECK_ERROR(ddp_checkpoint_verify(path, false, NULL), DDP_DATA, "a newer ddpc wrote it");
  unlink(at("checkpoint-1/manifest.json"));
  CHECK_ERROR(ddp_checkpoint_verify(path, false, NULL), DDP_DATA, "not written to its end");
  put("file", "");
  CHECK_ERROR(ddp_checkpoint_verify(at("file"), false, NULL), DDP_DATA, "is a file");
  CHECK_ERROR(ddp_checkpoint_verify(at("nothing"), false, NULL), DDP_DATA,
              "there is no checkpoint");
}

static void newest(const char *expected, const char *expected_skips) {
  char *folder, *skipped;
  CHECK_OK(ddp_checkpoint_newest(output, true, &folder, &skipped));
  if (expected) assert_string_equal(folder, at(expected));
  if (!expected) assert_null(folder);
  if (!expected_skips)
    assert_null(skipped);
  else if (!skipped || !strstr(skipped, expected_skips))
    fail_msg("\"%s\" lacks \"%s\"", skipped ? skipped : "", expected_skips);
  free(folder);
  free(skipped);
}

/* By number, not by name or time; other names are none of ours. */
static void newest_is_found(void **state) {
  (void)state;
  newest(NULL, NULL);
  save(10, "ten");
  save(9, "nine");
  for (const char *const *n = (const char *const[]){"checkpoint-011", "checkpoint-x", "checkpoint-",
                                                    "checkpoint-12.bak", NULL};
       *n; n++)
    assert_int_equal(mkdir(at(*n), 0777), 0);
  newest("checkpoint-10", NULL);
  save(11, "only");
  newest("checkpoint-10", "\n  checkpoint-11: it holds weights only");
  put("checkpoint-10/model.safetensors", "ten!");
  newest("checkpoint-9", "\n  checkpoint-10: ");
  unlink(at("checkpoint-9/manifest.json"));
  newest(NULL, "\n  checkpoint-9: ");
  newest(NULL, "\n  checkpoint-10: ");
}

static void one_takes_the_place_of_another(void **state) {
  (void)state;
  save(3, "first");
  put("checkpoint-3/notes.txt", "somebody's");
  mkdir(at("checkpoint-3/more"), 0777);
  put("checkpoint-3/more/notes.txt", "somebody's");
  save(3, "second");
  CHECK_OK(ddp_checkpoint_verify(at("checkpoint-3"), true, NULL));
  assert_false(exists("checkpoint-3/notes.txt"));
  assert_false(exists(".checkpoint-3.partial"));
  assert_false(exists(".checkpoint-3.old"));
}

/* What is left of a run that was killed; a folder that was moved away and has no successor comes
   back. */
static void sweep(void **state) {
  (void)state;
  save(4, "four");
  save(5, "five");
  assert_int_equal(rename(at("checkpoint-4"), at(".checkpoint-4.old")), 0);
  mkdir(at(".checkpoint-5.old"), 0777);
  put(".checkpoint-5.old/model.safetensors", "");
  mkdir(at(".checkpoint-6.partial"), 0777);
  put(".checkpoint-6.partial/model.safetensors.tmp", "half");
  mkdir(at(".checkpoint-x.partial"), 0777);
  put(".hidden", "");
  CHECK_OK(ddp_checkpoint_sweep(output));
  CHECK_OK(ddp_checkpoint_verify(at("checkpoint-4"), true, NULL));
  CHECK_OK(ddp_checkpoint_verify(at("checkpoint-5"), true, NULL));
  assert_false(exists(".checkpoint-4.old") || exists(".checkpoint-5.old") ||
               exists(".checkpoint-6.partial"));
  assert_true(exists(".checkpoint-x.partial") && exists(".hidden"));
}

/* Names there and back; a slash at the end of the folder makes no other name. */
static void names(void **state) {
  (void)state;
  for (int slash = 0; slash < 2; slash++) {
    const char *folder = slash ? "runs/a/" : "runs/a";
    char *path = ddp_checkpoint_path(folder, 12);
    assert_string_equal(path, "runs/a/checkpoint-12");
    assert_int_equal(ddp_checkpoint_number(folder, path), 12);
    free(path);
  }
  assert_int_equal(ddp_checkpoint_number("runs/a", "runs/b/checkpoint-12"), -1);
  assert_int_equal(ddp_checkpoint_number("runs/a", "runs/a/checkpoint-012"), -1);
  assert_int_equal(ddp_checkpoint_number("runs/a", "runs/a/checkpoint-12/"), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names),
      cmocka_unit_test_setup(there_and_back, fresh),
      cmocka_unit_test_setup(faults_are_named, fresh),
      cmocka_unit_test_setup(newest_is_found, fresh),
      cmocka_unit_test_setup(one_takes_the_place_of_another, fresh),
      cmocka_unit_test_setup(sweep, fresh),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  check_folder_remove();
  return failed;
}
