/* What the tests of device kernels share: arrays on the device, and a digest of all results on the standard output,
   which must be the same in every order of threads and blocks (orders.sh). */
#ifndef TEST_KERNELS_CHECK_H
#define TEST_KERNELS_CHECK_H
#include "on_device.h"
#include <algorithm>
#include <cmath>

#define CHECK_CUDA(call) assert_int_equal(static_cast<int>(call), 0)
#define EXPECT(condition, ...)                                                                     \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      print_error("%s: ", #condition);                                                             \
      fail_msg(__VA_ARGS__);                                                                       \
    }                                                                                              \
  } while (0)

/* Kept until the program ends. */
template <class T> static T *device_array(size_t n) {
  return (new OnDevice<T>(n))->at;
}
template <class T> static T *to_device(const std::vector<T> &from) {
  return (new OnDevice<T>(from))->at;
}

/* The stream of the test: the default one is no part of what kernels may use. */
static inline void *stream(void) {
  static cudaStream_t s;
  if (!s) CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  return s;
}

template <class T> static std::vector<T> result(const T *device, size_t n) {
  std::vector<T> v(n);
  CHECK_CUDA(cudaStreamSynchronize(static_cast<cudaStream_t>(stream())));
  CHECK_CUDA(cudaMemcpy(v.data(), device, n * sizeof(T), cudaMemcpyDeviceToHost));
  const unsigned char *bytes = reinterpret_cast<const unsigned char *>(v.data());
  for (size_t i = 0; i < n * sizeof(T); i++) digest = (digest ^ bytes[i]) * 0x100000001b3u;
  return v;
}

/* Numbers in [-1, 1) that look random and are the same everywhere. */
static inline float noise(uint64_t i, uint64_t salt = 0) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + salt * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 31)) * 0x94d049bb133111ebu;
  return static_cast<float>(x >> 40) * 0x1p-23f - 1.0f;
}
static inline std::vector<float> noises(size_t n, uint64_t salt = 0) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; i++) v[i] = noise(i, salt);
  return v;
}
static inline bool same_bits(float a, float b) {
  return ddp_bits(a) == ddp_bits(b) || (std::isnan(a) && std::isnan(b));
}
/* Place of the first difference, or -1. */
static inline int64_t differ(const std::vector<float> &got, const std::vector<float> &want) {
  for (size_t i = 0; i < want.size(); i++)
    if (!same_bits(got[i], want[i])) return static_cast<int64_t>(i);
  return -1;
}
#define EXPECT_SAME(got, want, ...)                                                                \
  do {                                                                                             \
    const std::vector<float> &got_ = (got), &want_ = (want);                                       \
    const int64_t at_ = differ(got_, want_);                                                       \
    if (at_ >= 0) {                                                                                \
      print_error("element %lld is %a, should be %a\n", static_cast<long long>(at_),               \
                  static_cast<double>(got_[static_cast<size_t>(at_)]),                             \
                  static_cast<double>(want_[static_cast<size_t>(at_)]));                           \
      fail_msg(__VA_ARGS__);                                                                       \
    }                                                                                              \
  } while (0)
#endif
