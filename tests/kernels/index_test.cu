/* rows_add and scatter_add: the CPU's bits where a place's rows lie in one chunk of the sorted rows, else a sum in
   another order; the same bits every time. */
#include "cuda/ddp_cuda.h"
/* What was refused, where a test waits for it. */
static const char **test_refused;
static void test_check(int error, const char *what, const char *file, int line) {
  if (error && test_refused)
    *test_refused = what;
  else
    ddp_cuda_check(error, what, file, line);
}
#define ddp_cuda_check test_check
#include "cuda/index.h"
#undef ddp_cuda_check
#include "check.h"
#include "oracle.h"

/* Numbers whose sums are exact in any order: multiples of 2^-10 below 2. */
static std::vector<float> exact(size_t n, uint64_t salt) {
  std::vector<float> v = noises(n, salt);
  for (float &e : v) e = std::floor(e * 1024) / 1024;
  return v;
}

/* How indices fall: evenly; most of them on a few; all on one; rising. */
enum Kind { EVEN, FEW, ONE, RISING, KINDS };
static int64_t index_of(Kind kind, size_t i, int64_t rows) {
  const double u = (static_cast<double>(noise(i, 77)) + 1) / 2;
  const int64_t even = static_cast<int64_t>(u * static_cast<double>(rows));
  switch (kind) {
  case EVEN:
    return even;
  case FEW:
    return i % 3 ? even % (rows < 3 ? rows : 3) : even;
  case ONE:
    return rows - 1;
  default:
    return static_cast<int64_t>(i) % rows;
  }
}

/* G, T: storage of what is added and of the sums. These are exact in float, so the CPU's, rounded once, are the same. */
template <class I, class G = float, class T = float>
static void rows_add(void (*add)(void *, T *, const I *, const G *, int64_t, int64_t, int64_t, bool,
                                 void *),
                     int64_t count, int64_t width, int64_t rows, Kind kind, bool accumulate) {
  std::vector<I> index(static_cast<size_t>(count));
  std::vector<int64_t> wide(index.size());
  for (size_t i = 0; i < index.size(); i++)
    index[i] = static_cast<I>(wide[i] = index_of(kind, i, rows));
  std::vector<float> g = exact(static_cast<size_t>(count * width), 1);
  std::vector<float> want = exact(static_cast<size_t>(rows * width), 2);
  T *const y = to_device(test_stored<T>(&want));
  G *const dg = to_device(test_stored<G>(&g));
  char *const scratch = device_array<char>(static_cast<size_t>(ddp_rows_add_scratch(count, width)));
  add(stream(), y, to_device(index), dg, count, width, rows, accumulate, scratch);
  oracle_rows_add(want.data(), wide.data(), g.data(), count, width, rows, accumulate);
  test_stored<T>(&want);
  EXPECT_SAME(test_loaded(result(y, want.size())), want,
              "rows_add of %lld rows of %lld to %lld, kind %d, storage of %zu and %zu bytes",
              static_cast<long long>(count), static_cast<long long>(width),
              static_cast<long long>(rows), kind, sizeof(G), sizeof(T));
}

static void rows(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++)
    for (const bool accumulate : {false, true}) {
      const Kind kind = static_cast<Kind>(k);
      rows_add<int64_t>(ddp_rows_add_i64, 1, 1, 1, kind, accumulate);
      rows_add<int64_t>(ddp_rows_add_i64, 300, 5, 7, kind, accumulate);
      rows_add<uint8_t>(ddp_rows_add_u8, 2049, 3, 256, kind, accumulate);
      rows_add<int32_t>(ddp_rows_add_i32, 4096, 2, 257, kind, accumulate);
      rows_add<int64_t>(ddp_rows_add_i64, 5000, 1, 50257, kind, accumulate);
    }
  rows_add<int32_t>(ddp_rows_add_i32, 70, 33, 70000, EVEN, true); /* three digits */
  /* more tiles than one turn of the scan adds up */
  rows_add<int32_t>(ddp_rows_add_i32, 70000, 1, 300, EVEN, true);
  rows_add<int64_t>(ddp_rows_add_i64, 0, 8, 16, EVEN, false); /* cleared all the same */
}

/* Numbers with all their digits: the order of additions is that of the input within a chunk. */
static void order(void **state) {
  (void)state;
  const int64_t count = 3000, width = 4,
                places = 60; /* 50 rows each: some cross the end of a chunk */
  std::vector<int64_t> index(static_cast<size_t>(count));
  for (size_t i = 0; i < index.size(); i++) index[i] = index_of(EVEN, i, places);
  const std::vector<float> g = noises(static_cast<size_t>(count * width), 3);
  std::vector<float> want(static_cast<size_t>(places * width));
  float *const y = to_device(want), *const dg = to_device(g);
  char *const scratch = device_array<char>(static_cast<size_t>(ddp_rows_add_scratch(count, width)));
  ddp_rows_add_i64(stream(), y, to_device(index), dg, count, width, places, false, scratch);
  oracle_rows_add(want.data(), index.data(), g.data(), count, width, places, false);
  const std::vector<float> got = result(y, want.size());
  std::vector<int64_t> before(static_cast<size_t>(places) + 1);
  for (const int64_t i : index) before[static_cast<size_t>(i) + 1]++;
  int whole = 0;
  for (size_t p = 0; p < static_cast<size_t>(places); p++) {
    before[p + 1] += before[p];
    const bool one_chunk = before[p] / DDP_SUM_CHUNK == (before[p + 1] - 1) / DDP_SUM_CHUNK;
    whole += one_chunk;
    for (size_t k = p * 4; k < p * 4 + 4; k++)
      EXPECT(one_chunk ? same_bits(got[k], want[k]) : std::fabs(got[k] - want[k]) < 2e-6f,
             "place %zu: %a, should be %a", p, static_cast<double>(got[k]),
             static_cast<double>(want[k]));
  }
  EXPECT(whole > 5 && whole < 55, "%d places in one chunk: the test sees one case only", whole);
}

template <class I, class G = float, class T = float>
static void scatter_add(void (*add)(void *, T *, const T *, const I *, const G *, int64_t, int64_t,
                                    int64_t, int64_t, bool, void *),
                        int64_t outer, int64_t size, int64_t count, int64_t inner,
                        bool accumulate) {
  std::vector<I> index(static_cast<size_t>(outer * count * inner));
  std::vector<int64_t> wide(index.size());
  for (size_t i = 0; i < index.size(); i++)
    index[i] = static_cast<I>(wide[i] = index_of(FEW, i, size));
  std::vector<float> src = exact(index.size(), 4);
  std::vector<float> x = exact(static_cast<size_t>(outer * size * inner), 5);
  std::vector<float> want = exact(x.size(), 6);
  T *const y = to_device(test_stored<T>(&want)), *const dx = to_device(test_stored<T>(&x));
  G *const ds = to_device(test_stored<G>(&src));
  char *const scratch =
      device_array<char>(static_cast<size_t>(ddp_scatter_add_scratch(outer, count, inner)));
  add(stream(), y, dx, to_device(index), ds, outer, size, count, inner, accumulate, scratch);
  oracle_scatter_add(want.data(), x.data(), wide.data(), src.data(), outer, size, count, inner,
                     accumulate);
  test_stored<T>(&want);
  EXPECT_SAME(test_loaded(result(y, want.size())), want,
              "scatter_add of [%lld, %lld, %lld], storage of %zu and %zu bytes",
              static_cast<long long>(outer), static_cast<long long>(count),
              static_cast<long long>(inner), sizeof(G), sizeof(T));
}

static void scatter(void **state) {
  (void)state;
  for (const bool accumulate : {false, true}) {
    scatter_add<int64_t>(ddp_scatter_add_i64, 1, 1, 1, 1, accumulate);
    scatter_add<int64_t>(ddp_scatter_add_i64, 3, 50, 40, 7, accumulate);
    scatter_add<int32_t>(ddp_scatter_add_i32, 20, 4, 90, 1, accumulate);
    scatter_add<uint8_t>(ddp_scatter_add_u8, 2, 250, 200, 2, accumulate);
    scatter_add<int64_t>(ddp_scatter_add_i64, 2, 5, 0, 3, accumulate);
  }
}

/* In 16 bits: sums are made in float over all chunks and rounded once. */
static void sixteen_bits(void **state) {
  (void)state;
  for (const Kind kind : {EVEN, FEW, ONE}) {
    rows_add<int64_t, __nv_bfloat16, __nv_bfloat16>(ddp_rows_add_i64, 300, 5, 7, kind, false);
    rows_add<int64_t, __half, __half>(ddp_rows_add_i64, 300, 5, 7, kind, false);
    rows_add<int32_t, __nv_bfloat16>(ddp_rows_add_i32, 700, 3, 20, kind, true);
    rows_add<uint8_t, __half>(ddp_rows_add_u8, 700, 3, 20, kind, true);
  }
  scatter_add<int64_t, __nv_bfloat16, __nv_bfloat16>(ddp_scatter_add_i64, 3, 50, 40, 7, false);
  scatter_add<int32_t, __half, __half>(ddp_scatter_add_i32, 20, 4, 90, 1, false);
  scatter_add<int64_t, __nv_bfloat16>(ddp_scatter_add_i64, 3, 5, 80, 2, true);
}

/* Places and rows are numbered in 32 bits: more are refused by name, and nothing is read or written. */
static void limits(void **state) {
  (void)state;
  const int64_t most = INT64_C(1) << 32;
  float *const y = to_device(std::vector<float>{1, 2, 3});
  const char *refused = nullptr;
  test_refused = &refused;
  ddp_rows_add_i64(stream(), y, static_cast<const int64_t *>(nullptr), y, most, 1, 3, true,
                   nullptr);
  EXPECT(refused && strstr(refused, "2^32 rows"), "2^32 rows were taken");
  refused = nullptr;
  ddp_scatter_add_i64(stream(), y, y, static_cast<const int64_t *>(nullptr), y, most / 4, 4, 1, 1,
                      true, nullptr);
  EXPECT(refused && strstr(refused, "places"), "2^32 places were taken");
  test_refused = nullptr;
  EXPECT_SAME(result(y, 3), (std::vector<float>{1, 2, 3}), "a refused sum");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows),         cmocka_unit_test(order),  cmocka_unit_test(scatter),
      cmocka_unit_test(sixteen_bits), cmocka_unit_test(limits),
  };
  return verdict(cmocka_run_group_tests(tests, NULL, NULL));
}
