/* Texts and token files as rows of tokens, and the windows cut out of them: what is read, to the last
   token, and what is said about files that are wrong or change. */
#include "check.h"
#include "dataset.h"
#include "tokens.h"

/* ---------- texts ---------- */

static void vocabulary(void **state) {
  (void)state;
  static const uint32_t expected[] = {'\n', 'a', 'b', 0xe9, 0x20ac, 0x1f600};
  char a[160], b[160];
  snprintf(a, sizeof a, "%s", check_file("a.txt", "ba\n\xc3\xa9", 5));
  snprintf(b, sizeof b, "%s",
           check_file("b.txt",
                      "\xef\xbb\xbf\xe2\x82\xac\xf0\x9f\x98\x80"
                      "a",
                      11));
  const char *const paths[] = {a, b};
  uint32_t *found;
  int32_t n;
  CHECK_OK(ddp_text_vocabulary(paths, 2, &found, &n));
  assert_int_equal(n, 6);
  assert_memory_equal(found, expected, sizeof expected);
  free(found);
}

#define REFUSE_TEXT(bytes, says)                                                                   \
  do {                                                                                             \
    const char *path_ = check_file("wrong.txt", bytes, sizeof(bytes) - 1);                         \
    uint32_t *found_;                                                                              \
    int32_t n_;                                                                                    \
    CHECK_ERROR(ddp_text_vocabulary(&path_, 1, &found_, &n_), DDP_DATA, says);                     \
  } while (0)

static void text_errors(void **state) {
  (void)state;
  REFUSE_TEXT("ab\nc\xff", "wrong.txt:2:2: byte ff is not UTF-8");
  REFUSE_TEXT("\xc3\xa9\xc3", "wrong.txt:1:2: byte c3 is not UTF-8");
  REFUSE_TEXT("\xc0\xaf", "byte c0 is not UTF-8"); /* longer than needed */
  REFUSE_TEXT("\xe0\x80\x80", "byte e0 is not UTF-8");
  REFUSE_TEXT("\xed\xa0\x80", "byte ed is not UTF-8");     /* half of a pair */
  REFUSE_TEXT("\xf4\x90\x80\x80", "byte f4 is not UTF-8"); /* beyond the last one */
  REFUSE_TEXT("a\n\0b", "wrong.txt:2:1: a NUL byte: this is no text");
  REFUSE_TEXT("", "the text is empty");
  REFUSE_TEXT("\xff\xfe"
              "a\0",
              "the text is UTF-16; save it as UTF-8");
  REFUSE_TEXT("\x1f\x8b\x08\0\0", "is damaged");
}

static const char *const letters[] = {"\n", "a", "b", "c", NULL};
static const DdpField chars = {.name = "chars",
                               .dtype = DDP_u8,
                               .rank = 1,
                               .shape = {3},
                               .elements = 3,
                               .has_range = true,
                               .low = 0,
                               .high = 4,
                               .categories = letters,
                               .used = true,
                               .place = "job.ddp:5"};

static void text_changed(void **state) {
  (void)state;
  DdpTokenFile f;
  CHECK_ERROR(ddp_text_open(&f, check_file("new.txt", "ab\ncd", 5), &chars), DDP_DATA,
              "new.txt:2:2: the character 'd' is not one of those that the file had when the "
              "program was compiled");
  ddp_token_file_close(&f);
}

/* ---------- windows ---------- */

typedef struct Cut { /* windows(SOURCE[start:stop], stride) as the one split */
  DdpSource of;
  DdpBound bound;
  double start, stop;
  int64_t stride;
} Cut;

static DdpDataset *cut(const DdpField *f, Cut c, DdpError **error) {
  static DdpSource sources[3];
  static DdpJob job;
  static const DdpSplit splits[] = {{"train", 2}};
  sources[0] = c.of;
  sources[1] = (DdpSource){.kind = DDP_SOURCE_slice,
                           .start_kind = c.bound,
                           .start = c.start,
                           .stop_kind = c.bound,
                           .stop = c.stop,
                           .children = {0},
                           .n_children = 1};
  sources[2] =
      (DdpSource){.kind = DDP_SOURCE_windows, .stride = c.stride, .children = {1}, .n_children = 1};
  job = (DdpJob){.directory = check_folder(),
                 .fields = f,
                 .n_fields = 1,
                 .sources = sources,
                 .n_sources = 3,
                 .splits = splits,
                 .n_splits = 1};
  DdpDataset *d;
  *error = ddp_dataset_load(&d, &job, NULL);
  return d;
}

static void expect_windows(const DdpField *f, Cut c, const char *all) {
  DdpError *error;
  DdpDataset *d = cut(f, c, &error);
  if (error) fail_msg("%s", error->message);
  int64_t n = ddp_dataset_rows(d, "train");
  char text[256] = "";
  for (int64_t i = 0; i < n; i++) {
    uint8_t values[8];
    void *into[] = {values};
    CHECK_OK(ddp_dataset_gather(d, "train", &i, 1, into));
    for (int k = 0; k < 3; k++) sprintf(text + strlen(text), "%s", letters[values[k]]);
    strcat(text, "|");
  }
  assert_string_equal(text, all);
  ddp_dataset_free(d);
}

static void windows_of_text(void **state) {
  (void)state;
  static const char *const one[] = {"one.txt", NULL}, *const two[] = {"one.txt", "two.txt", NULL};
  const DdpSource of_one = {.kind = DDP_SOURCE_text, .paths = one};
  const DdpSource of_two = {.kind = DDP_SOURCE_text, .paths = two};
  check_file("one.txt", "abcabca", 7);
  check_file("two.txt", "ccb", 3);
  expect_windows(&chars, (Cut){of_one, .stride = 3}, "abc|abc|");
  expect_windows(&chars, (Cut){of_one, .stride = 2}, "abc|cab|bca|"); /* ends with the last token */
  expect_windows(&chars, (Cut){of_one, .stride = 4}, "abc|bca|");
  expect_windows(&chars, (Cut){of_one, .stride = 5}, "abc|");
  expect_windows(&chars, (Cut){of_one, .stride = 1}, "abc|bca|cab|abc|bca|");
  expect_windows(&chars, (Cut){of_one, DDP_BOUND_count, 1, 4, 1}, "bca|");
  expect_windows(&chars, (Cut){of_one, DDP_BOUND_percent, 0, 80, 1}, "abc|bca|cab|"); /* of 5.6 */
  /* files stand one behind the other */
  expect_windows(&chars, (Cut){of_two, .stride = 3}, "abc|abc|acc|");
  expect_windows(&chars, (Cut){of_two, DDP_BOUND_count, 6, 10, 1}, "acc|ccb|");
}

static void windows_too_short(void **state) {
  (void)state;
  static const char *const paths[] = {"short.txt", NULL};
  DdpError *error;
  check_file("short.txt", "ab", 2);
  cut(&chars, (Cut){{.kind = DDP_SOURCE_text, .paths = paths}, .stride = 1}, &error);
  CHECK_ERROR(error, DDP_DATA,
              "split train is empty: there are 2 tokens, and one sample of field chars takes 3");
}

/* ---------- token files: bug report 44 ---------- */

static const DdpField ids = {.name = "ids",
                             .dtype = DDP_i32,
                             .rank = 1,
                             .shape = {3},
                             .elements = 3,
                             .has_range = true,
                             .low = 0,
                             .high = 50257,
                             .used = true,
                             .place = "job.ddp:9"};
static const char *const bin[] = {"t.bin", NULL};

static DdpDataset *tokens(const void *bytes, size_t n, int width, bool header, DdpError **error) {
  check_file("t.bin", bytes, n);
  Cut c = {{.kind = DDP_SOURCE_token_bin, .paths = bin, .width = width, .header = header},
           .stride = 2};
  return cut(&ids, c, error);
}

static void expect_tokens(DdpDataset *d, DdpError *error) {
  static const int32_t expected[] = {1, 50256, 300, 300, 0, 7};
  if (error) fail_msg("%s", error->message);
  int32_t got[6];
  const int64_t index[] = {0, 1};
  void *into[] = {got};
  assert_int_equal(ddp_dataset_rows(d, "train"), 2);
  CHECK_OK(ddp_dataset_gather(d, "train", index, 2, into));
  assert_memory_equal(got, expected, sizeof got);
  ddp_dataset_free(d);
}

static const uint16_t narrow[] = {1, 50256, 300, 0, 7};
static const uint32_t wide[] = {1, 50256, 300, 0, 7};

typedef struct Headed {
  uint32_t head[256], tokens[5];
} Headed;

static void tokens_of_all_widths(void **state) {
  (void)state;
  DdpError *error;
  DdpDataset *d = tokens(narrow, sizeof narrow, 2, false, &error);
  expect_tokens(d, error);
  d = tokens(wide, sizeof wide, 4, false, &error);
  expect_tokens(d, error);
  Headed llama = {{20240801, 7, 5}, {1, 50256, 300, 0, 7}};
  d = tokens(&llama, sizeof llama, 4, true, &error);
  expect_tokens(d, error);
  Headed gpt2 = {{20240520, 1, 5}, {0}};
  memcpy(gpt2.tokens, narrow, sizeof narrow);
  d = tokens(&gpt2, sizeof gpt2.head + sizeof narrow, 2, true, &error);
  expect_tokens(d, error);
}

#define REFUSE_TOKENS(bytes, n, width, header, says)                                               \
  do {                                                                                             \
    DdpError *error_;                                                                              \
    tokens(bytes, n, width, header, &error_);                                                      \
    CHECK_ERROR(error_, DDP_DATA, says);                                                           \
  } while (0)

static void tokens_errors(void **state) {
  (void)state;
  Headed h = {{20240520, 1, 5}, {0}};
  const size_t whole = sizeof h.head + 10;
  REFUSE_TOKENS(narrow, 9, 2, false, "t.bin: 9 bytes of tokens are not a multiple of 2");
  REFUSE_TOKENS(narrow, 4, 2, false, "there are 2 tokens, and one sample of field ids takes 3");
  REFUSE_TOKENS(narrow, 10, 2, true, "t.bin: 10 bytes: shorter than the header of llm.c");
  REFUSE_TOKENS(&h, whole - 2, 2, true,
                "t.bin: truncated: the header promises 5 tokens, and 4 follow");
  REFUSE_TOKENS(&h, whole + 2, 2, true, "too long: the header promises 5 tokens, and 6 follow");
  REFUSE_TOKENS(&h, whole, 4, true,
                "t.bin: holds uint16 tokens; field ids (job.ddp:9) declares uint32");
  h.head[1] = 2;
  REFUSE_TOKENS(&h, whole, 2, true, "version 2 of the header; version 1 is known");
  h.head[0] = __builtin_bswap32(20240520);
  REFUSE_TOKENS(&h, whole, 2, true, "it is one in big-endian order; convert it");
  h.head[0] = 7;
  REFUSE_TOKENS(&h, whole, 2, true, "it starts with the number 7; expected 20240520 (uint16)");
  REFUSE_TOKENS("<html>", 6, 2, true, "shorter than the header");
}

/* Ids beyond the vocabulary, and files of the other byte order, are found when they are read. */
static void tokens_out_of_range(void **state) {
  (void)state;
  static const uint16_t beyond[] = {1, 2, 3, 50257, 4}, big[] = {0, 0, 0, 0xfe00, 0xc500};
  DdpError *error;
  int32_t got[3];
  const int64_t index[] = {0, 1};
  void *into[] = {got};
  DdpDataset *d = tokens(beyond, sizeof beyond, 2, false, &error);
  CHECK_OK(error);
  CHECK_OK(ddp_dataset_gather(d, "train", index, 1, into));
  CHECK_ERROR(ddp_dataset_gather(d, "train", index + 1, 1, into), DDP_DATA,
              "t.bin: token 3 (from 0): 50257 is not a whole number from 0 to 50256 "
              "(do the values start at 1?) (job.ddp:9)");
  ddp_dataset_free(d);
  d = tokens(big, sizeof big, 2, false, &error);
  CHECK_OK(error);
  CHECK_ERROR(ddp_dataset_gather(d, "train", index + 1, 1, into), DDP_DATA,
              "65024 is not a whole number from 0 to 50256 (is the file big-endian?)");
  ddp_dataset_free(d);
}

/* Bug report 57: a file that gets shorter is an error, no fault. */
static void tokens_truncated_later(void **state) {
  (void)state;
  DdpError *error;
  int32_t got[3];
  const int64_t index[] = {0, 1};
  void *into[] = {got};
  char path[160];
  DdpDataset *d = tokens(narrow, sizeof narrow, 2, false, &error);
  CHECK_OK(error);
  snprintf(path, sizeof path, "%s/t.bin", check_folder());
  assert_int_equal(truncate(path, 6), 0);
  CHECK_OK(ddp_dataset_gather(d, "train", index, 1, into));
  CHECK_ERROR(ddp_dataset_gather(d, "train", index + 1, 1, into), DDP_DATA,
              "t.bin' has become shorter since the start: it ends at byte 6 of 10");
  ddp_dataset_free(d);
}

/* The hash sees every file, its contents and its end. */
static void tokens_hash(void **state) {
  (void)state;
  static uint16_t many[1 << 16];
  DdpError *error;
  DdpDataset *d = tokens(many, sizeof many, 2, false, &error);
  CHECK_OK(error);
  uint64_t before = ddp_dataset_hash(d);
  ddp_dataset_free(d);
  many[(1 << 16) - 1] = 1;
  d = tokens(many, sizeof many, 2, false, &error);
  CHECK_OK(error);
  assert_true(ddp_dataset_hash(d) != before);
  ddp_dataset_free(d);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vocabulary),
      cmocka_unit_test(text_errors),
      cmocka_unit_test(text_changed),
      cmocka_unit_test(windows_of_text),
      cmocka_unit_test(windows_too_short),
      cmocka_unit_test(tokens_of_all_widths),
      cmocka_unit_test(tokens_errors),
      cmocka_unit_test(tokens_out_of_range),
      cmocka_unit_test(tokens_truncated_later),
      cmocka_unit_test(tokens_hash),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  check_folder_remove();
  return failed;
}
