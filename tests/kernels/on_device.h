/* What tests of device kernels share: numbers in the memory of the device and back, in each type of storage. */
#ifndef TESTS_ON_DEVICE_H
#define TESTS_ON_DEVICE_H
#include "cuda/ddp_cuda.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

typedef std::vector<double> Numbers;

static inline float test_load(float x) {
  return x;
}
static inline float test_load(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
static inline float test_load(__half x) {
  return __half2float(x);
}
static inline void test_store(float *to, double x) {
  *to = static_cast<float>(x);
}
static inline void test_store(__nv_bfloat16 *to, double x) {
  *to = __float2bfloat16_rn(static_cast<float>(x));
}
static inline void test_store(__half *to, double x) {
  *to = __float2half_rn(static_cast<float>(x));
}

/* Of all results that were read (FNV-1a); the last line of what a test prints. */
static uint64_t digest = 0xcbf29ce484222325u;

/* For the end of main: prints the digest. */
static inline int verdict(int failed) {
  printf("%016llx\n", static_cast<unsigned long long>(digest));
  return failed;
}

/* n things of the device; NaN (or 0xff) before they are written. */
template <class T> struct OnDevice {
  T *at = nullptr;
  size_t n;
  explicit OnDevice(size_t size) : n(size > 0 ? size : 1) {
    /* A kernel that leaves its memory ends the test: cmocka would go on amid the launch, and wait for ever. */
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    assert_int_equal(cudaMalloc(reinterpret_cast<void **>(&at), n * sizeof(T)), cudaSuccess);
    const std::vector<unsigned char> bytes(n * sizeof(T), 0xff);
    assert_int_equal(cudaMemcpy(at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                     cudaSuccess);
  }
  explicit OnDevice(const std::vector<T> &x) : OnDevice(x.size()) {
    if (!x.empty()) write(x);
  }
  OnDevice(const OnDevice &) = delete;
  OnDevice &operator=(const OnDevice &) = delete;
  ~OnDevice() { cudaFree(at); }
  void write(const std::vector<T> &x) {
    assert_int_equal(cudaMemcpy(at, x.data(), n * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  std::vector<T> read() const {
    std::vector<T> x(n);
    assert_int_equal(cudaMemcpy(x.data(), at, n * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(x.data());
    for (size_t i = 0; i < n * sizeof(T); i++) digest = (digest ^ bytes[i]) * 0x100000001b3u;
    return x;
  }
};

template <class T> static std::vector<float> test_loaded(const std::vector<T> &x) {
  std::vector<float> y;
  for (const T &e : x) y.push_back(test_load(e));
  return y;
}
/* Rounds x to the type of storage, so that a test begins with what the device has. */
template <class T, class X> static std::vector<T> test_stored(std::vector<X> *x) {
  std::vector<T> y(x->size());
  for (size_t i = 0; i < y.size(); i++) {
    test_store(&y[i], static_cast<double>((*x)[i]));
    (*x)[i] = static_cast<X>(test_load(y[i]));
  }
  return y;
}

/* Every number within `tolerance` times the largest one. */
template <class T>
static void test_close(const char *what, const std::vector<T> &got, const Numbers &want,
                       double tolerance) {
  double most = 0.1, worst = 0; /* what is all zeros has rounding errors too */
  size_t where = 0;
  for (double x : want) most = fmax(most, fabs(x));
  for (size_t i = 0; i < want.size(); i++) {
    const double off = fabs(static_cast<double>(test_load(got[i])) - want[i]);
    if (off <= worst) continue;
    worst = off != off ? INFINITY : off;
    where = i;
    if (off != off) break;
  }
  if (getenv("TEST_SHOW")) printf("%-28s %.2e\n", what, worst / most);
  if (worst <= tolerance * most) return;
  fail_msg("%s: element %zu is %.9g, not %.9g; off by %.2e of the largest", what, where,
           static_cast<double>(test_load(got[where])), want[where], worst / most);
}

#if !DDP_ASKS_CUDNN /* else libddp_cuda.a has it */
/* The emitted program's: an error ends the test. */
extern "C" void ddp_cuda_check(int error, const char *what, const char *file, int line) {
  if (error) fail_msg("%s:%d: %s: error %d", file, line, what, error);
}
#endif

#endif
