/* spec_hash depends on what a job says, not on how it is laid out. */
#include "sema.h"
#include "diag.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above */
#include <cmocka.h>

static char folder[] = "/tmp/ddpc-spec-XXXXXX";

static const char *put(const char *name, const char *text) {
  static char path[256];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
  return path;
}

#define DATA "dataset d {\n  field x: float[2]\n  split train = csv(\"x.csv\")\n}\n"
#define REST                                                                                       \
  "model net = Linear(2, width)\nobjective { loss = mean(net(d.x)) }\n"                            \
  "train { output_dir = \"o\" seed = 1 }\n"

static uint64_t hash(const char *text, const char *width, char **spec) {
  Arena *a = arena_new();
  SemaDefine define = {"width", width};
  SemaOptions options = {.defines = &define, .n_defines = width ? 1 : 0};
  Job *job = sema_analyse(a, put("job.ddp", text), &options);
  if (!job) diag_flush(stderr, false);
  assert_non_null(job);
  uint64_t h = job->spec_hash;
  if (spec) *spec = strdup(job->spec);
  arena_free(a);
  return h;
}

static void test_hash(void **state) {
  (void)state;
  put("x.csv", "1,2\n3,4\n");
  const char *plain = "edition 1\nparam width: int = 3\n" DATA REST;
  uint64_t h = hash(plain, NULL, NULL);
  assert_true(h == hash(plain, NULL, NULL));
  assert_true(h == hash("edition 1\n\n# about\nparam   width: int = 3 # here\n" DATA "\n\n" REST,
                        NULL, NULL));
  assert_true(h != hash("edition 1\nparam width: int = 4\n" DATA REST, NULL, NULL));
  assert_true(h != hash(plain, "4", NULL));
  assert_true(hash(plain, "4", NULL) == hash(plain, "4", NULL));
  assert_true(hash(plain, "4", NULL) != hash(plain, "5", NULL));
}

static void test_text(void **state) {
  (void)state;
  char *spec = NULL;
  hash("edition 1\nparam width: int = 3\n" DATA REST, "5", &spec);
  assert_non_null(strstr(spec, "param width = 5  # -D\n"));
  assert_non_null(strstr(spec, "  learning_rate = 5e-05  # default\n"));
  assert_non_null(strstr(spec, "job.ddp:9\n"));
  assert_non_null(strstr(spec, "split train = csv(\"x.csv\")"));
  free(spec);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_hash), cmocka_unit_test(test_text)};
  if (!mkdtemp(folder)) return 1;
  int rc = cmocka_run_group_tests(tests, NULL, NULL);
  remove(put("x.csv", ""));
  remove(put("job.ddp", ""));
  remove(folder);
  return rc;
}
