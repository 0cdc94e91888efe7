/* CSV and idx readers, splits: what they accept and what they say about what they do not. */
#include "check.h"
#include "csv.h"
#include "dataset.h"
#include "idx.h"
#include <zlib.h>

static const char *const sexes[] = {"Female", "Male", NULL};
static const DdpField fields[] = {
    {.name = "age",
     .dtype = DDP_f32,
     .elements = 1,
     .has_range = true,
     .low = 0,
     .high = 120,
     .used = true,
     .place = "job.ddp:7"},
    {.name = "sex", .dtype = DDP_u8, .elements = 1, .categories = sexes, .used = true},
    {.name = "label",
     .dtype = DDP_i64,
     .elements = 1,
     .has_range = true,
     .low = 0,
     .high = 3,
     .used = true,
     .place = "job.ddp:9"},
};

static DdpError *read_text(DdpTable **t, const char *text, size_t n, DdpSource source) {
  const char *path = check_file("data.csv", text, n);
  CHECK_OK(ddp_table_open(t, fields, 3));
  return ddp_csv_read(*t, path, &source);
}
#define READ(t, text, ...) read_text(t, text, sizeof(text) - 1, (DdpSource){__VA_ARGS__})

static void expect_rows(DdpTable *t) {
  static const float ages[] = {3, 40.5f, 0};
  static const uint8_t sex[] = {1, 0, 1};
  static const int64_t labels[] = {0, 2, 1};
  assert_int_equal(t->rows, 3);
  assert_memory_equal(t->columns[0], ages, sizeof ages);
  assert_memory_equal(t->columns[1], sex, sizeof sex);
  assert_memory_equal(t->columns[2], labels, sizeof labels);
  ddp_table_free(t);
}

/* Bug report 74: the same table saved in several ways. */
static void csv_ways_of_saving(void **state) {
  (void)state;
  DdpTable *t;
  CHECK_OK(READ(&t, "3,Male,0\n40.5,Female,2\n0,Male,1\n", .header = false));
  expect_rows(t);
  CHECK_OK(READ(&t, "3,Male,0\r\n40.5,Female,2\r\n0,Male,1\r\n\r\n", .header = false));
  expect_rows(t);
  CHECK_OK(READ(&t,
                "\xef\xbb\xbf"
                "3,Male,0\n 40.5 ,\"Female\", 2.0\n0,Male,1",
                .header = false));
  expect_rows(t);
  CHECK_OK(
      READ(&t, "# made by hand\nnames\n3,Male,0\n4.05e1,Female,2\n-0,Male,1\n\n\n", .skip = 2));
  expect_rows(t);
  CHECK_OK(READ(&t, "label,x,sex,\"age\"\n0,?,Male,3\n2,,Female,40.5\n1,\"a,\"\"b\n\",Male,0\n",
                .header = true));
  expect_rows(t);
  CHECK_OK(READ(&t, "3,Male,0\n40.5,Female,2\n?,Male,1\n0,Male,1\n1,?,0\n", .missing = "?"));
  assert_int_equal(t->dropped, 2);
  expect_rows(t);
}

#define REFUSE(text_, says, ...)                                                                   \
  do {                                                                                             \
    DdpTable *t_;                                                                                  \
    CHECK_ERROR(READ(&t_, text_, __VA_ARGS__), DDP_DATA, says);                                    \
    ddp_table_free(t_);                                                                            \
  } while (0)

static void csv_errors(void **state) {
  (void)state;
  REFUSE("3,Male,0\n4,Male,3\n",
         "data.csv:2:8: column 3 (label): '3' is not a whole number from 0 to 2 "
         "(do the values start at 1?) (job.ddp:9)",
         .skip = 0);
  REFUSE("3,Male,2.5\n", "data.csv:1:8: column 3 (label): '2.5' is not a whole number from 0 to 2",
         .skip = 0);
  REFUSE("3,Male,1e20\n", "is not a whole number", .skip = 0);
  REFUSE("3,Male,-1\n", "'-1' is not a whole number from 0 to 2", .skip = 0);
  REFUSE("3,male,0\n", "data.csv:1:3: column 2 (sex): 'male' is not one of \"Female\", \"Male\"",
         .skip = 0);
  REFUSE("121,Male,0\n", "'121' is not a number from 0 to 120 (job.ddp:7)", .skip = 0);
  REFUSE("age,sex,label\n3,Male,0\n", "if this line is a header, say `header = true` or `skip = 1`",
         .skip = 0);
  REFUSE("3,Male,0\n\n4,Male,1\n", "data.csv:2: an empty line inside the data", .skip = 0);
  REFUSE("3,Male,0\n4,Male\n",
         "data.csv:2 (record 2): 2 columns, expected 3 (age: 1, sex: 1, label: 1)", .skip = 0);
  REFUSE("\"3\",\"Ma\nle\",0\n", "column 2 (sex)", .skip = 0);
  REFUSE("3,\"Male,0\n4,Male,1\n", "data.csv:1: the quote that opens here is never closed",
         .skip = 0);
  REFUSE("3,\"Male\"x,0\n", "text between a closing quote and the next comma", .skip = 0);
  REFUSE("3,Male,0\r4,Male,1\r", "a carriage return without a line feed", .skip = 0);
  REFUSE("3,Male,0\n4,M\0le,1\n", "data.csv:2: a NUL byte", .skip = 0);
  REFUSE("\xff\xfe"
         "3\0",
         "UTF-16", .skip = 0);
  REFUSE("<html><head>\n", "looks like an HTML page", .skip = 0);
  REFUSE("a,sex,label\n3,Male,0\n",
         "data.csv:1: the header has no column 'age'; it has: a, sex, label", .header = true);
  REFUSE("age,age,sex,label\n3,3,Male,0\n", "2 columns 'age'", .header = true);
  REFUSE("", "no header: the file is empty", .header = true);
}

/* Bug report 49: what is no number is no number. */
static void csv_not_numbers(void **state) {
  (void)state;
  static const char *const wrong[] = {"",      "NA",  "?",   "nan", "inf", "1e999", "0x1A",
                                      "12abc", "1 2", "--1", ".",   "e5",  "1e",    "+"};
  int64_t at = 0;
  DdpWhy why;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    if (ddp_csv_store(&fields[0], &at, wrong[i], strlen(wrong[i]), &why))
      fail_msg("'%s' is accepted", wrong[i]);
    if (ddp_csv_store(&fields[2], &at, wrong[i], strlen(wrong[i]), &why))
      fail_msg("'%s' is accepted", wrong[i]);
  }
  REFUSE("3,Male,0\nNA,Male,0\n,Male,0\nnan,Male,0\n",
         "data.csv:4:1: column 1 (age): 'nan' is not a number", .skip = 0);
}

/* Correct rounding, whichever path a number takes. */
static void csv_numbers_are_rounded_correctly(void **state) {
  (void)state;
  static const char *const texts[] = {"0.1",
                                      "1.0000000596046448",
                                      "3.4028234663852886e38",
                                      "17.99",
                                      "123456789012345678",
                                      "0.000000000000001",
                                      "1.17549435e-38",
                                      "1e-45",
                                      "-0.0",
                                      "9007199254740993",
                                      "0.30000000000000004441",
                                      "2.5"};
  const DdpField wide = {.name = "d", .dtype = DDP_f64, .elements = 1};
  const DdpField narrow = {.name = "f", .dtype = DDP_f32, .elements = 1};
  DdpWhy why;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    double d = 0, expected = strtod(texts[i], NULL);
    float f = 0, rounded = (float)expected;
    assert_true(ddp_csv_store(&wide, &d, texts[i], strlen(texts[i]), &why));
    assert_memory_equal(&d, &expected, sizeof d);
    assert_true(ddp_csv_store(&narrow, &f, texts[i], strlen(texts[i]), &why));
    assert_memory_equal(&f, &rounded, sizeof f);
  }
}

static void csv_gzip(void **state) {
  (void)state;
  static const char text[] = "3,Male,0\n40.5,Female,2\n0,Male,1\n";
  const DdpSource source = {.kind = DDP_SOURCE_csv};
  char path[160];
  DdpTable *t;
  snprintf(path, sizeof path, "%s/plain-name.csv", check_folder());
  gzFile z = gzopen(path, "wb");
  gzwrite(z, text, sizeof text - 1);
  gzclose(z);
  CHECK_OK(ddp_table_open(&t, fields, 3));
  CHECK_OK(ddp_csv_read(t, path, &source));
  expect_rows(t);
  assert_int_equal(truncate(path, 25), 0);
  CHECK_OK(ddp_table_open(&t, fields, 3));
  CHECK_ERROR(ddp_csv_read(t, path, &source), DDP_DATA, "is damaged");
  CHECK_ERROR(ddp_csv_read(t, "/nonexistent/x.csv", &source), DDP_DATA,
              "'/nonexistent/x.csv' does not exist");
  CHECK_ERROR(ddp_csv_read(t, "/tmp", &source), DDP_DATA, "Is a directory");
  ddp_table_free(t);
}

/* A text: its bytes, cut between characters, then zeros. */
static void csv_texts(void **state) {
  (void)state;
  static const DdpField of[] = {{.name = "line",
                                 .dtype = DDP_u8,
                                 .rank = 1,
                                 .shape = {6},
                                 .elements = 6,
                                 .text = true,
                                 .used = true},
                                {.name = "label", .dtype = DDP_u8, .elements = 1, .used = true}};
  static const char text[] = "\"a, \"\"b\",1\nab cd efg,2\nabcd\xe2\x82\xac,3\n,4\n";
  static const char header[] = "label,line\n1,abc\n";
  const DdpSource plain = {.kind = DDP_SOURCE_csv}, named = {.header = true};
  DdpTable *t;
  CHECK_OK(ddp_table_open(&t, of, 2));
  CHECK_OK(ddp_csv_read(t, check_file("texts.csv", text, sizeof text - 1), &plain));
  assert_int_equal(t->rows, 4);
  assert_memory_equal(t->columns[0], "a, \"b\0ab cd abcd\0\0\0\0\0\0\0\0", 24);
  assert_memory_equal(t->columns[1], "\1\2\3\4", 4);
  CHECK_OK(ddp_csv_read(t, check_file("named.csv", header, sizeof header - 1), &named));
  assert_memory_equal(t->columns[0] + 24, "abc\0\0\0", 6);
  ddp_table_free(t);
}

/* More rows than any first guess of the columns' size, more bytes than the first buffer. */
static void csv_large(void **state) {
  (void)state;
  enum { ROWS = 50000 };
  char *text = malloc(ROWS * 24), *w = text;
  for (int i = 0; i < ROWS; i++) w += sprintf(w, "%d.5,%s,%d\n", i % 100, sexes[i % 2], i % 3);
  DdpTable *t;
  CHECK_OK(read_text(&t, text, (size_t)(w - text), (DdpSource){.skip = 0}));
  assert_int_equal(t->rows, ROWS);
  for (int i = 0; i < ROWS; i++) {
    assert_true(((float *)(void *)t->columns[0])[i] == (float)(i % 100) + 0.5f);
    assert_int_equal(((int64_t *)(void *)t->columns[2])[i], i % 3);
  }
  ddp_table_free(t);
  free(text);
}

static const DdpField idx_fields[] = {
    {.name = "image", .dtype = DDP_u8, .rank = 2, .shape = {2, 2}, .elements = 4, .used = true},
    {.name = "label",
     .dtype = DDP_u8,
     .elements = 1,
     .has_range = true,
     .low = 0,
     .high = 3,
     .used = true},
};
static const char *const idx_names[] = {"label", "image", NULL};
static const char images[] =
    "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02\x01\x02\x03\x04\x05\x06\x07\x08";
static const char labels[] = "\0\0\x08\x01\0\0\0\x02\x02\x01";

static DdpError *read_idx(DdpTable **t, const char *image, size_t image_bytes, const char *label,
                          size_t label_bytes) {
  char *paths[] = {(char *)(uintptr_t)check_file("labels", label, label_bytes),
                   (char *)(uintptr_t)check_file("images", image, image_bytes), NULL};
  CHECK_OK(ddp_table_open(t, idx_fields, 2));
  return ddp_idx_read(*t, paths, idx_names);
}

static void idx_reads(void **state) {
  (void)state;
  DdpTable *t;
  CHECK_OK(read_idx(&t, images, 24, labels, 10));
  assert_int_equal(t->rows, 2);
  assert_memory_equal(t->columns[0], images + 16, 8);
  assert_memory_equal(t->columns[1], "\x02\x01", 2);
  ddp_table_free(t);
}

#define REFUSE_IDX(image, n, label, m, says)                                                       \
  do {                                                                                             \
    DdpTable *t_;                                                                                  \
    CHECK_ERROR(read_idx(&t_, image, n, label, m), DDP_DATA, says);                                \
    ddp_table_free(t_);                                                                            \
  } while (0)

/* Bug report 82. */
static void idx_errors(void **state) {
  (void)state;
  REFUSE_IDX(images, 23, labels, 10, "images: ends too early: 7 of 8 bytes");
  REFUSE_IDX(images, 25, labels, 10, "images: more bytes than the 2 samples");
  REFUSE_IDX(labels, 10, labels, 10,
             "images: one sample has shape [], field image declares [2, 2]");
  REFUSE_IDX(images, 24, "\0\0\x08\x01\0\0\0\x01\x02", 9, "images has 2 samples");
  REFUSE_IDX(images, 24, "\0\0\x08\x01\0\0\0\x02\x02\x03", 10,
             "labels: sample 1 (from 0): label = 3 is not a whole number from 0 to 2");
  REFUSE_IDX("<html>", 6, labels, 10,
             "images: not an idx file: it starts with 3c 68 74 6d; it looks like an HTML page");
  REFUSE_IDX("\0\0", 2, labels, 10, "2 bytes: too short");
  REFUSE_IDX(images, 24, "\0\0\x0d\x01\0\0\0\x02\0\0\0\0\0\0\0\0", 16, "labels: holds float32");
  REFUSE_IDX(images, 24, "\0\0\x08\x01\xff\xff\xff\xff\x02", 9,
             "labels: truncated: the header promises 4294967295 samples");
}

/* Bug report 68: splits are a function of the seed; all of PyTorch's randperm. */
static void splits(void **state) {
  (void)state;
  char text[400] = "", *w = text;
  for (int i = 0; i < 10; i++) w += sprintf(w, "%d,Male,%d\n", i, i % 3);
  check_file("ten.csv", text, strlen(text));
  static const char *const paths[] = {"ten.csv", NULL};
  const DdpSource sources[] = {
      {.kind = DDP_SOURCE_csv, .paths = paths},
      {.kind = DDP_SOURCE_shuffle, .seed = 42, .children = {0}, .n_children = 1},
      {.kind = DDP_SOURCE_slice,
       .stop_kind = DDP_BOUND_percent,
       .stop = 55,
       .children = {1},
       .n_children = 1},
      {.kind = DDP_SOURCE_slice,
       .start_kind = DDP_BOUND_count,
       .start = -3,
       .children = {1},
       .n_children = 1},
      {.kind = DDP_SOURCE_csv, .paths = paths}, /* the same file: read once */
      {.kind = DDP_SOURCE_concat, .children = {2, 4}, .n_children = 2},
      {.kind = DDP_SOURCE_slice,
       .stop_kind = DDP_BOUND_count,
       .stop = 11,
       .children = {0},
       .n_children = 1},
  };
  const DdpSplit named[] = {{"train", 2}, {"test", 3}, {"all", 5}};
  DdpJob job = {.directory = "/nowhere",
                .fields = fields,
                .n_fields = 3,
                .sources = sources,
                .n_sources = 6,
                .splits = named,
                .n_splits = 3};
  DdpDataset *d;
  CHECK_OK(ddp_dataset_load(&d, &job, check_folder()));
  assert_int_equal(ddp_dataset_rows(d, "train"), 5);
  assert_int_equal(ddp_dataset_rows(d, "test"), 3);
  assert_int_equal(ddp_dataset_rows(d, "all"), 15);
  assert_int_equal(ddp_dataset_rows(d, "other"), -1);
  static const int64_t index[] = {0, 1, 2, 3, 4};
  static const float perm[] = {2, 6, 1, 8, 4}; /* torch.randperm(10) with seed 42 */
  float age[5];
  void *into[3] = {age};
  CHECK_OK(ddp_dataset_gather(d, "train", index, 5, into));
  assert_memory_equal(age, perm, sizeof perm);
  uint64_t hash = ddp_dataset_hash(d);
  ddp_dataset_free(d);
  CHECK_OK(ddp_dataset_load(&d, &job, check_folder()));
  assert_true(ddp_dataset_hash(d) == hash);
  ddp_dataset_free(d);
  CHECK_ERROR(ddp_dataset_load(&d, &job, NULL), DDP_DATA, "'/nowhere/ten.csv' does not exist");
  const DdpSplit beyond[] = {{"train", 6}};
  job.n_sources = 7, job.splits = beyond, job.n_splits = 1;
  CHECK_ERROR(ddp_dataset_load(&d, &job, check_folder()), DDP_DATA,
              "bound 11 lies outside the 10 rows");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(csv_ways_of_saving), cmocka_unit_test(csv_errors),
      cmocka_unit_test(csv_not_numbers),    cmocka_unit_test(csv_numbers_are_rounded_correctly),
      cmocka_unit_test(csv_gzip),           cmocka_unit_test(csv_large),
      cmocka_unit_test(csv_texts),          cmocka_unit_test(idx_reads),
      cmocka_unit_test(idx_errors),         cmocka_unit_test(splits),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  check_folder_remove();
  return failed;
}
