/* numpy's arrays, CIFAR's files and numbers by chance: what they give, and what is said about files that
   are wrong. */
#include "check.h"
#include "cifar.h"
#include "npy.h"
#include "synthetic.h"
#include <math.h>
#include <zlib.h>

static const DdpField fields[] = {
    {.name = "x",
     .dtype = DDP_f32,
     .rank = 1,
     .shape = {2},
     .elements = 2,
     .used = true,
     .place = "job.ddp:4"},
    {.name = "y",
     .dtype = DDP_u8,
     .elements = 1,
     .has_range = true,
     .low = 0,
     .high = 3,
     .used = true,
     .place = "job.ddp:5"},
};
static const char *const names[] = {"y", "x", NULL};

typedef struct Bytes {
  unsigned char at[4096];
  size_t n;
} Bytes;

static void put(Bytes *b, const void *p, size_t n) {
  memcpy(b->at + b->n, p, n);
  b->n += n;
}

static Bytes array(const char *header, const void *values, size_t n) {
  Bytes b = {{0}, 0};
  size_t length = strlen(header);
  put(&b, "\x93NUMPY\1\0", 8);
  put(&b, (unsigned char[]){(unsigned char)length, (unsigned char)(length >> 8)}, 2);
  put(&b, header, length);
  put(&b, values, n);
  return b;
}

#define X_HEADER "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }          \n"
#define Y_HEADER "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }\n"
static const double xs[] = {1, 2, 3, 4.5, -5, 6};
static const int64_t ys[] = {0, 2, 1};

static void expect_table(DdpTable *t) {
  static const float x[] = {1, 2, 3, 4.5f, -5, 6};
  static const uint8_t y[] = {0, 2, 1};
  assert_int_equal(t->rows, 3);
  assert_memory_equal(t->columns[0], x, sizeof x);
  assert_memory_equal(t->columns[1], y, sizeof y);
  ddp_table_free(t);
}

static DdpError *read_npy(DdpTable **t, Bytes x, Bytes y) {
  char *paths[] = {(char *)(uintptr_t)check_file("y.npy", y.at, y.n),
                   (char *)(uintptr_t)check_file("x.npy", x.at, x.n), NULL};
  CHECK_OK(ddp_table_open(t, fields, 2));
  return ddp_npy_read(*t, paths, names);
}

static void npy_reads(void **state) {
  (void)state;
  static const uint8_t big[] = {0x3f, 0x80, 0, 0, 0x40, 0,    0, 0, 0x40, 0x40, 0, 0,
                                0x40, 0x90, 0, 0, 0xc0, 0xa0, 0, 0, 0x40, 0xc0, 0, 0};
  static const uint16_t narrow[] = {0, 2, 1};
  DdpTable *t;
  CHECK_OK(read_npy(&t, array(X_HEADER, xs, sizeof xs), array(Y_HEADER, ys, sizeof ys)));
  expect_table(t);
  CHECK_OK(read_npy(&t, array("{'descr': '>f4', 'fortran_order': False, 'shape': (3, 2)}", big, 24),
                    array("{'shape': (3,), 'descr': '<u2', 'fortran_order': False}", narrow, 6)));
  expect_table(t);
}

#define REFUSE_NPY(x, y, says)                                                                     \
  do {                                                                                             \
    DdpTable *t_;                                                                                  \
    CHECK_ERROR(read_npy(&t_, x, y), DDP_DATA, says);                                              \
    ddp_table_free(t_);                                                                            \
  } while (0)

static void npy_errors(void **state) {
  (void)state;
  static const int64_t four[] = {0, 1, 2, 3};
  const Bytes x = array(X_HEADER, xs, sizeof xs), y = array(Y_HEADER, ys, sizeof ys);
  Bytes other = {"<html>..........", 16};
  REFUSE_NPY(other, y, "x.npy: no array of numpy: it starts with 3c 68 74 6d");
  other = array("{'descr': '<f8', 'fortran_order': True, 'shape': (3, 2)}", xs, sizeof xs);
  REFUSE_NPY(other, y,
             "x.npy: the array of field x (job.ddp:4) is in Fortran order; save "
             "`numpy.ascontiguousarray(x)`");
  other = array("{'descr': '|O', 'fortran_order': False, 'shape': (3, 2)}", xs, sizeof xs);
  REFUSE_NPY(other, y, "has no type that is known");
  other = array("{'descr': '|O8', 'fortran_order': False, 'shape': (3, 2)}", xs, sizeof xs);
  REFUSE_NPY(other, y, "holds objects of Python");
  other = array("{'descr': '<f2', 'fortran_order': False, 'shape': (3, 2)}", xs, 12);
  REFUSE_NPY(other, y, "is float16, which is not supported yet");
  other = array("{'descr': '<U3', 'fortran_order': False, 'shape': (3, 2)}", xs, 48);
  REFUSE_NPY(other, y, "holds texts");
  other = array("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", xs, 12);
  REFUSE_NPY(other, y, "has records of several values");
  other = array("{'descr': '<i8', 'fortran_order': False, 'shape': (3, 2)}", xs, sizeof xs);
  REFUSE_NPY(other, y, "holds whole numbers; the field is declared as float");
  other = array("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}", xs, sizeof xs);
  REFUSE_NPY(other, y, "has shape [2, 3]; expected [samples, 2]");
  other = array(X_HEADER, xs, sizeof xs - 1);
  REFUSE_NPY(other, y, "is cut off");
  other = array(X_HEADER, xs, sizeof xs);
  other.n++;
  REFUSE_NPY(other, y, "is longer than its header says");
  other = array("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 2)}", xs, 48);
  REFUSE_NPY(other, y, "its header promises more than the file can hold");
  other = array("{'descr': '<i8', 'fortran_order': False, 'shape': (4,)}", four, sizeof four);
  REFUSE_NPY(x, other, "has 3 samples, and that of field y has 4");
  other = array(Y_HEADER, four + 1, 24);
  REFUSE_NPY(x, other,
             "y.npy: sample 2 (from 0): y = 3 is not a whole number from 0 to 2 (do the values "
             "start at 1?) (job.ddp:5)");
}

/* ---------- npz ---------- */

static void put_number(Bytes *b, uint64_t v, int n) {
  for (int i = 0; i < n; i++) b->at[b->n++] = (unsigned char)(v >> 8 * i);
}

static size_t deflated(const Bytes *from, unsigned char *to, size_t room) {
  z_stream z = {0};
  if (deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) abort();
  z.next_in = (unsigned char *)(uintptr_t)from->at, z.avail_in = (unsigned)from->n;
  z.next_out = to, z.avail_out = (unsigned)room;
  if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
  deflateEnd(&z);
  return room - z.avail_out;
}

/* As numpy writes it: sizes in 64 bits in front of the members, in 32 in the list. */
static Bytes zip(const char *const *member, const Bytes *data, int n, bool pack) {
  Bytes file = {{0}, 0}, list = {{0}, 0};
  for (int i = 0; i < n; i++) {
    unsigned char packed[2048];
    size_t at = file.n, length = strlen(member[i]);
    size_t bytes = pack ? deflated(&data[i], packed, sizeof packed) : data[i].n;
    uint64_t crc = crc32(0, data[i].at, (unsigned)data[i].n);
    put(&file, "PK\3\4", 4);
    put_number(&file, 45, 2), put_number(&file, 0, 2), put_number(&file, pack ? 8 : 0, 2);
    put_number(&file, 0, 4), put_number(&file, crc, 4);
    put_number(&file, 0xffffffff, 4), put_number(&file, 0xffffffff, 4);
    put_number(&file, length, 2), put_number(&file, 20, 2);
    put(&file, member[i], length);
    put_number(&file, 1, 2), put_number(&file, 16, 2);
    put_number(&file, data[i].n, 8), put_number(&file, bytes, 8);
    put(&file, pack ? packed : data[i].at, bytes);
    put(&list, "PK\1\2", 4);
    put_number(&list, 45, 2), put_number(&list, 45, 2), put_number(&list, 0, 2);
    put_number(&list, pack ? 8 : 0, 2), put_number(&list, 0, 4), put_number(&list, crc, 4);
    put_number(&list, bytes, 4), put_number(&list, data[i].n, 4);
    put_number(&list, length, 2), put_number(&list, 0, 2), put_number(&list, 0, 2);
    put_number(&list, 0, 8), put_number(&list, at, 4);
    put(&list, member[i], length);
  }
  size_t at = file.n;
  put(&file, list.at, list.n);
  put(&file, "PK\5\6\0\0\0\0", 8);
  put_number(&file, (uint64_t)n, 2), put_number(&file, (uint64_t)n, 2);
  put_number(&file, list.n, 4), put_number(&file, at, 4), put_number(&file, 0, 2);
  return file;
}

static DdpError *read_npz(DdpTable **t, Bytes z) {
  CHECK_OK(ddp_table_open(t, fields, 2));
  return ddp_npz_read(*t, check_file("a.npz", z.at, z.n));
}

#define REFUSE_NPZ(z, says)                                                                        \
  do {                                                                                             \
    DdpTable *t_;                                                                                  \
    CHECK_ERROR(read_npz(&t_, z), DDP_DATA, says);                                                 \
    ddp_table_free(t_);                                                                            \
  } while (0)

static void npz(void **state) {
  (void)state;
  static const char *const members[] = {"x.npy", "other.npy", "y.npy"};
  const Bytes data[] = {array(X_HEADER, xs, sizeof xs), array(Y_HEADER, ys, sizeof ys),
                        array(Y_HEADER, ys, sizeof ys)};
  DdpTable *t;
  Bytes z = zip(members, data, 3, false);
  CHECK_OK(read_npz(&t, z));
  expect_table(t);
  CHECK_OK(read_npz(&t, zip(members, data, 3, true)));
  expect_table(t);
  REFUSE_NPZ(zip(members, data, 2, true),
             "a.npz: no array for field y (job.ddp:5); it has: x.npy, other.npy");
  z.at[150] ^= 1; /* a value */
  REFUSE_NPZ(z, "the checksum of a member is wrong");
  z = zip(members, data, 3, false);
  z.n -= 30;
  REFUSE_NPZ(z, "the end of its list of members is missing");
  z.n = 10;
  REFUSE_NPZ(z, "no zip file: too short");
}

/* ---------- CIFAR ---------- */

enum { PIXELS = 3072 };

static DdpField image = {.name = "image",
                         .dtype = DDP_u8,
                         .rank = 3,
                         .shape = {3, 32, 32},
                         .elements = PIXELS,
                         .used = true};
static DdpField label(const char *name, int classes) {
  return (DdpField){.name = name,
                    .dtype = DDP_u8,
                    .elements = 1,
                    .has_range = true,
                    .low = 0,
                    .high = classes,
                    .used = true,
                    .place = "job.ddp:7"};
}

static DdpError *read_cifar(DdpTable **t, const DdpField *f, int n, const char *const *labels,
                            int records, size_t cut) {
  static unsigned char file[4 * (2 + PIXELS)];
  int per = (labels[0] != NULL) + (labels[0] && labels[1]);
  size_t size = (size_t)(per ? per : 1) + PIXELS;
  for (size_t i = 0; i < size * (size_t)records; i++) {
    size_t at = i % size;
    file[i] = (unsigned char)(at < size - PIXELS ? i / size + 3 * at : at * 7 + i / size);
  }
  const DdpSource s = {.fields = labels};
  CHECK_OK(ddp_table_open(t, f, n));
  return ddp_cifar_read(*t, check_file("batch.bin", file, size * (size_t)records - cut), &s);
}

static void cifar(void **state) {
  (void)state;
  static const char *const ten[] = {"label", NULL}, *const none[] = {NULL};
  static const char *const hundred[] = {"coarse_label", "fine_label", NULL};
  const DdpField of_ten[] = {label("label", 10), image}, few[] = {label("label", 2), image};
  const DdpField of_hundred[] = {image, label("fine_label", 100)};
  DdpTable *t;
  CHECK_OK(read_cifar(&t, of_ten, 2, ten, 3, 0));
  assert_int_equal(t->rows, 3);
  assert_memory_equal(t->columns[0], "\0\1\2", 3);
  assert_int_equal((unsigned char)t->columns[1][PIXELS + 4], (5 * 7 + 1) % 256);
  ddp_table_free(t);
  CHECK_OK(read_cifar(&t, of_hundred, 2, hundred, 3, 0));
  assert_memory_equal(t->columns[1], "\3\4\5", 3);
  assert_int_equal((unsigned char)t->columns[0][4], 6 * 7);
  ddp_table_free(t);
  CHECK_OK(read_cifar(&t, of_hundred, 1, none, 2, 0));
  assert_int_equal(t->rows, 2);
  ddp_table_free(t);
  CHECK_ERROR(read_cifar(&t, of_ten, 2, ten, 3, 1), DDP_DATA,
              "9218 bytes are no multiple of 3073, a record of 1 label and 3 x 32 x 32 pixels: the "
              "file is cut off");
  CHECK_ERROR(read_cifar(&t, of_ten, 2, hundred, 2, 2), DDP_DATA,
              "it looks like CIFAR-10, whose field is `label`");
  CHECK_ERROR(read_cifar(&t, few, 2, ten, 3, 0), DDP_DATA,
              "batch.bin: record 2 (from 0): label = 2 is not a whole number from 0 to 1");
}

/* ---------- numbers by chance ---------- */

static void synthetic(void **state) {
  (void)state;
  enum { N = 20000 };
  const DdpField f[] = {
      {.name = "n", .dtype = DDP_f32, .elements = 1, .used = true},
      {.name = "i",
       .dtype = DDP_i64,
       .elements = 1,
       .has_range = true,
       .low = -2,
       .high = 3,
       .used = true},
      {.name = "b", .dtype = DDP_u8, .rank = 1, .shape = {2}, .elements = 2, .used = true}};
  const DdpSource s = {.count = N, .seed = 1};
  double sum = 0, square = 0, counts[5] = {0}, bytes = 0;
  DdpTable *t, *again;
  CHECK_OK(ddp_table_open(&t, f, 3));
  CHECK_OK(ddp_synthetic_make(t, &s));
  CHECK_OK(ddp_table_open(&again, f, 3));
  CHECK_OK(ddp_synthetic_make(again, &s));
  assert_memory_equal(t->columns[0], again->columns[0], N * 4);
  for (int k = 0; k < N; k++) {
    double x = (double)((float *)(void *)t->columns[0])[k];
    sum += x, square += x * x;
    counts[((int64_t *)(void *)t->columns[1])[k] + 2]++;
    bytes += (double)(unsigned char)t->columns[2][2 * k + 1];
  }
  assert_true(fabs(sum / N) < 4 / sqrt(N)); /* four standard errors */
  assert_true(fabs(square / N - 1) < 4 * sqrt(2.0 / N));
  for (int k = 0; k < 5; k++) assert_true(fabs(counts[k] / N - 0.2) < 4 * sqrt(0.16 / N));
  assert_true(fabs(bytes / N - 127.5) < 4 * 74 / sqrt(N));
  ddp_table_free(t);
  ddp_table_free(again);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(npy_reads), cmocka_unit_test(npy_errors), cmocka_unit_test(npz),
      cmocka_unit_test(cifar),     cmocka_unit_test(synthetic),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  check_folder_remove();
  return failed;
}
