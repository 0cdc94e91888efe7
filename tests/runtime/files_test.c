/* Files that are whole or not there, and safetensors files there and back. */
#include "check.h"
#include "file.h"
#include "memory.h"
#include "safetensors.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <signal.h>

static int files_in_folder(void) {
  int n = 0;
  DIR *d = opendir(check_folder());
  for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

static size_t read_back(const char *path, char *into, size_t n) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  size_t got = fread(into, 1, n, f);
  fclose(f);
  return got;
}

static void writing_is_atomic(void **state) {
  (void)state;
  char *path = ddp_file_join(check_folder(), "a"), text[16] = "";
  DdpFile *f;
  int before = files_in_folder();
  CHECK_OK(ddp_file_create(&f, path));
  CHECK_OK(ddp_file_write(f, "old", 3));
  CHECK_OK(ddp_file_commit(f));
  CHECK_OK(ddp_file_create(&f, path));
  CHECK_OK(ddp_file_write(f, "newer", 5));
  assert_int_equal(read_back(path, text, sizeof text), 3); /* nothing is seen before the commit */
  ddp_file_discard(f);
  assert_int_equal(read_back(path, text, sizeof text), 3);
  assert_int_equal(files_in_folder(), before + 1);
  CHECK_OK(ddp_file_create(&f, path));
  CHECK_OK(ddp_file_write(f, "newer", 5));
  CHECK_OK(ddp_file_commit(f));
  assert_int_equal(read_back(path, text, sizeof text), 5);
  free(path);
}

/* A file that may not grow stands for a full disk: the old file stays, nothing is left behind. */
static void no_room(void **state) {
  (void)state;
  static char block[1 << 16];
  char *path = ddp_file_join(check_folder(), "full"), text[16];
  struct rlimit old, small = {1 << 15, RLIM_INFINITY};
  DdpFile *f;
  CHECK_OK(ddp_file_create(&f, path));
  CHECK_OK(ddp_file_write(f, "old", 3));
  CHECK_OK(ddp_file_commit(f));
  int before = files_in_folder();
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &old);
  small.rlim_max = old.rlim_max;
  setrlimit(RLIMIT_FSIZE, &small);
  CHECK_OK(ddp_file_create(&f, path));
  CHECK_OK(ddp_file_write(f, block, sizeof block));
  CHECK_ERROR(ddp_file_commit(f), DDP_IO, "File too large");
  setrlimit(RLIMIT_FSIZE, &old);
  assert_int_equal(read_back(path, text, sizeof text), 3);
  assert_int_equal(files_in_folder(), before);
  free(path);
  if (access("/dev/full", W_OK) == 0) {
    int fd = open("/dev/full", O_WRONLY);
    assert_true(write(fd, "x", 1) < 0);
    close(fd);
    CHECK_ERROR(ddp_file_error("write", "x", 28), DDP_IO,
                "No space left on device; free some space or point --output_dir");
  }
}

static void folders(void **state) {
  (void)state;
  char *deep = ddp_file_join(check_folder(), "b/c/d");
  CHECK_OK(ddp_file_make_folder(deep));
  CHECK_OK(ddp_file_make_folder(deep));
  const char *plain = check_file("plain", "x", 1);
  char *below = ddp_file_join(plain, "e");
  CHECK_ERROR(ddp_file_make_folder(below), DDP_IO, "cannot create folder");
  CHECK_ERROR(ddp_file_make_folder(plain), DDP_IO, "Not a directory");
  free(below);
  free(deep);
}

static const int64_t shape_w[] = {2, 3}, shape_b[] = {3};
static const float w[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9};
static const int64_t counter = 5;

static const char *write_model(void) {
  static const char *const aliases[] = {"head.weight", "fc.weight", NULL};
  DdpSafeTensor tensors[] = {
      {"fc.weight", DDP_f32, 2, shape_w, w, sizeof w},
      {"fc.bias", DDP_f32, 1, shape_b, b, sizeof b},
      {"count", DDP_i64, 0, NULL, &counter, sizeof counter},
  };
  static char path[160];
  snprintf(path, sizeof path, "%s/model.safetensors", check_folder());
  CHECK_OK(ddp_safetensors_write(path, tensors, 3, aliases));
  return path;
}

static void safetensors_bytes(void **state) {
  (void)state;
  static const char header[] =
      "{\"__metadata__\":{\"format\":\"pt\",\"head.weight\":\"fc.weight\"},"
      "\"count\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
      "\"fc.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[8,20]},"
      "\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[20,44]}}";
  char file[1024];
  size_t n = read_back(write_model(), file, sizeof file),
         length = (unsigned char)file[0] + 256u * (unsigned char)file[1];
  assert_int_equal(length % 8, 0);
  assert_memory_equal(file + 8, header, sizeof header - 1);
  assert_int_equal(n, 8 + length + 44);
  assert_memory_equal(file + 8 + length, &counter, sizeof counter);
  assert_memory_equal(file + 8 + length + 8, b, sizeof b);
}

static void safetensors_there_and_back(void **state) {
  (void)state;
  DdpSafeFile *f;
  float x[6];
  CHECK_OK(ddp_safetensors_open(&f, write_model()));
  assert_int_equal(ddp_safetensors_count(f), 3);
  CHECK_OK(ddp_safetensors_read(f, "fc.weight", DDP_f32, 2, shape_w, x));
  assert_memory_equal(x, w, sizeof w);
  CHECK_ERROR(ddp_safetensors_read(f, "fc.bias", DDP_f32, 2, shape_w, x), DDP_DATA,
              "fc.bias is F32 [3], the model has F32 [2, 3]");
  CHECK_ERROR(ddp_safetensors_read(f, "other", DDP_f32, 2, shape_w, x), DDP_DATA,
              "has no tensor other");
  ddp_safetensors_close(f);
}

static void safetensors_damage(void **state) {
  (void)state;
  char file[1024], copy[1024];
  size_t n = read_back(write_model(), file, sizeof file);
  DdpSafeFile *f;
  const char *path = check_file("cut", file, n - 1);
  CHECK_ERROR(ddp_safetensors_open(&f, path), DDP_DATA, "data range of fc.weight");
  path = check_file("longer", file, n + 1);
  CHECK_ERROR(ddp_safetensors_open(&f, path), DDP_DATA, "its length and its header disagree");
  path = check_file("short", file, 7);
  CHECK_ERROR(ddp_safetensors_open(&f, path), DDP_DATA, "shorter than 8 bytes");
  path = check_file("zeros", "\0\0\0\0\0\0\0\0", 8);
  CHECK_ERROR(ddp_safetensors_open(&f, path), DDP_DATA, "no JSON object");
  memcpy(copy, file, n);
  memset(copy, 0xff, 8);
  path = check_file("huge", copy, n);
  CHECK_ERROR(ddp_safetensors_open(&f, path), DDP_DATA, "the header's length");
  CHECK_ERROR(ddp_safetensors_open(&f, "/nonexistent"), DDP_DATA,
              "cannot read weights '/nonexistent'");
  /* Every single flipped byte of the header: refused or read, never a fault. */
  for (size_t i = 0; i < n - 44; i++) {
    memcpy(copy, file, n);
    copy[i] ^= 0x11;
    DdpError *e = ddp_safetensors_open(&f, check_file("flip", copy, n));
    if (!e) ddp_safetensors_close(f);
    ddp_error_free(e);
  }
}

static void memory_is_counted(void **state) {
  (void)state;
  void *p, *q;
  int64_t before = ddp_memory_used(DDP_MEMORY_params);
  CHECK_OK(ddp_memory_alloc(DDP_MEMORY_params, 100, &p));
  CHECK_OK(ddp_memory_alloc(DDP_MEMORY_params, 0, &q));
  assert_int_equal((uintptr_t)p % 64, 0);
  assert_int_equal(ddp_memory_used(DDP_MEMORY_params), before + 128);
  for (int i = 0; i < 100; i++) assert_int_equal(((char *)p)[i], 0);
  ddp_memory_free(DDP_MEMORY_params, p, 100);
  ddp_memory_free(DDP_MEMORY_params, q, 0);
  assert_int_equal(ddp_memory_used(DDP_MEMORY_params), before);
  CHECK_ERROR(ddp_memory_alloc(DDP_MEMORY_block, SIZE_MAX - 1, &p), DDP_MEMORY,
              "activations: size overflows");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writing_is_atomic),
      cmocka_unit_test(no_room),
      cmocka_unit_test(folders),
      cmocka_unit_test(safetensors_bytes),
      cmocka_unit_test(safetensors_there_and_back),
      cmocka_unit_test(safetensors_damage),
      cmocka_unit_test(memory_is_counted),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  check_folder_remove();
  return failed;
}
