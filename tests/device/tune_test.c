/* Products that are measured (DDP_CUDA_TUNE): what is found is kept in a file and taken from it the next time;
   times in the emulator mean nothing, so the choice itself is not looked at, only that it stays. */
#include "on_gpu.h"
#include "cuda/gemm_choice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 8 };
static char path[128];
static float *a, *b, *y, *bias, *aux;

static DdpGemm plain(const char *name) {
  return (DdpGemm){
      .name = name, .in = DDP_f32, .out = DDP_f32, .m = {0, N}, .n = {N, 0}, .k = {N, 0}};
}
static DdpGemm with_gelu(void) {
  DdpGemm g = plain("fc");
  g.epilogue = DDP_EPILOGUE_gelu_aux_bias;
  return g;
}

static int reset(void **state) {
  (void)state;
  GPU->close();
  CHECK_OK(GPU->open(&gpu_job, 0, 1));
  float ones[N * N];
  for (int i = 0; i < N * N; i++) ones[i] = 1;
  a = gpu_upload(ones, sizeof ones);
  b = gpu_upload(ones, sizeof ones);
  y = gpu_upload(ones, sizeof ones);
  bias = gpu_upload(ones, sizeof ones);
  aux = gpu_upload(ones, sizeof ones);
  snprintf(path, sizeof path, "%s/tuned", check_folder());
  unlink(path);
  setenv("DDP_CUDA_TUNE", path, 1);
  return 0;
}
static DdpStep step_now(void) {
  return (DdpStep){.batch = 1, .stream = GPU->stream(DDP_STREAM_compute)};
}
static void check_y(float expected) {
  float got[N * N];
  gpu_download(got, y, sizeof got);
  for (int i = 0; i < N; i++) assert_true(got[i] == expected);
}
static int lines(void) {
  FILE *f = fopen(path, "r");
  int n = 0;
  for (int c; f && (c = getc(f)) != EOF;) n += c == '\n';
  if (f) fclose(f);
  return n;
}
/* What the n-th line says of a time. */
static double ms_of_line(int n) {
  char line[1024] = "";
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  while (n-- >= 0) assert_non_null(fgets(line, sizeof line, f));
  fclose(f);
  char *ms = strstr(line, " ms\n");
  assert_non_null(ms);
  while (ms > line && ms[-1] != ' ') ms--;
  return strtod(ms, NULL);
}
static void multiply(DdpGemm *g, bool add) {
  DdpStep step = step_now();
  ddp_cuda_gemm(g, &step, a, b, y, NULL, NULL, add);
  CHECK_OK(GPU->failure());
}
/* As an emitted program does it. true: in one. */
static bool multiply_gelu(DdpGemm *g, DdpGemm *apart) {
  DdpStep step = step_now();
  bool one = ddp_cuda_gemm_fused(g, &step, a, b, y, bias, aux, false);
  if (!one) {
    ddp_cuda_gemm(apart, &step, a, b, y, NULL, NULL, false);
    CHECK_OK(GPU->copy(aux, y, N * sizeof *y, step.stream)); /* in the place of a kernel */
    ddp_cuda_gemm_apart(g, &step);
  }
  CHECK_OK(GPU->failure());
  return one;
}

/* What is added to is not multiplied more than once, whatever is measured. */
static void test_kept(void **state) {
  (void)state;
  static DdpGemm g, other, again;
  g = plain("fc1");
  multiply(&g, true);
  check_y(1 + N);
  assert_int_equal(lines(), 0);
  multiply(&g, false);
  check_y(N);
  assert_int_equal(lines(), 1);
  multiply(&g, true);
  check_y(2 * N);
  other = plain("fc2"); /* the same sizes: known */
  multiply(&other, false);
  assert_int_equal(lines(), 1);
  GPU->close();
  CHECK_OK(GPU->open(&gpu_job, 0, 1));
  again = plain("fc1"); /* another run */
  multiply(&again, false);
  check_y(N);
  assert_int_equal(lines(), 1);
}

/* What a run has measured counts for it as for those that read it, to the last digit: else two times that are
   nearly the same would be decided in one way now and in another way later. */
static void test_form(void **state) {
  (void)state;
  static DdpGemm g, apart, again;
  g = with_gelu();
  apart = plain("fc apart");
  for (int i = 0; i < 4; i++) assert_false(multiply_gelu(&g, &apart)); /* is measured */
  assert_int_equal(lines(), 3); /* two algorithms, and how long both take apart */
  assert_true(g.choice[0]->ms == ms_of_line(0));
  bool one = multiply_gelu(&g, &apart);
  assert_true(one == (ms_of_line(2) >= ms_of_line(0)));
  assert_true(multiply_gelu(&g, &apart) == one);
  GPU->close();
  CHECK_OK(GPU->open(&gpu_job, 0, 1));
  again = with_gelu();
  assert_true(multiply_gelu(&again, &apart) == one);
  assert_int_equal(lines(), 3);
}

/* Without a file: one call from sm_90 on, two before. */
static void test_rule(void **state) {
  (void)state;
  static DdpGemm g, apart;
  g = with_gelu();
  apart = plain("fc apart");
  unsetenv("DDP_CUDA_TUNE");
  const char *sm = getenv("CUDASIM_SM");
  assert_true(multiply_gelu(&g, &apart) == (!sm || atoi(sm) >= 90));
  assert_int_equal(lines(), 0);
}

static void write_file(const char *text) {
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}
/* A line of this product that says nothing: measured in every run. Others that are cut off or of another GPU
   do not matter. */
static void test_damaged(void **state) {
  (void)state;
  static DdpGemm g, again;
  char line[1024], text[3 * sizeof line];
  g = plain("fc1");
  multiply(&g, false);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_non_null(fgets(line, sizeof line, f));
  fclose(f);
  char *equals = strstr(line, " = ");
  assert_non_null(equals);
  *equals = 0;
  snprintf(text, sizeof text, "Another GPU = 00 1.0 ms\nno value\n%s = nonsense\n%s", line, line);
  write_file(text);
  GPU->close();
  CHECK_OK(GPU->open(&gpu_job, 0, 1));
  again = plain("fc1");
  multiply(&again, false);
  check_y(N);
}

static void test_unreadable(void **state) {
  (void)state;
  static DdpGemm g;
  g = plain("fc1");
  DdpStep step = step_now();
  setenv("DDP_CUDA_TUNE", check_folder(), 1);
  ddp_cuda_gemm(&g, &step, a, b, y, NULL, NULL, false);
  CHECK_ERROR(GPU->failure(), DDP_USAGE, "cannot read DDP_CUDA_TUNE=");
}

static DdpGemm in_pass, in_pass_apart;
static int runs;
static void pass(DdpStep *step) {
  (void)step;
  runs++;
  multiply_gelu(&in_pass, &in_pass_apart);
}
/* A pass is captured when it has been measured to the end, not before. */
static void test_pass(void **state) {
  (void)state;
  in_pass = with_gelu();
  in_pass_apart = plain("fc apart");
  for (int i = 0; i < 8; i++) {
    DdpStep step = step_now();
    CHECK_OK(GPU->replay(1, pass, &step));
  }
  assert_int_equal(runs, 4 + 1 + 1); /* measured, run once as it will be, captured */
  assert_int_equal(lines(), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_kept, reset),       cmocka_unit_test_setup(test_form, reset),
      cmocka_unit_test_setup(test_rule, reset),       cmocka_unit_test_setup(test_damaged, reset),
      cmocka_unit_test_setup(test_unreadable, reset), cmocka_unit_test_setup(test_pass, reset),
  };
  int failed = cmocka_run_group_tests(tests, gpu_open, gpu_close);
  check_folder_remove();
  return failed;
}
