/* Barriers, votes, collectives of a warp and conversions mean what the programming guide says. */
#include "check.cuh"

enum { N = 96, RESULTS = 16 };
#define ALL 0xffffffffu

static __global__ void collectives(int *out) {
  int t = static_cast<int>(threadIdx.x), lane = t % 32;
  int *mine = out + t * RESULTS;
  mine[0] = __shfl_sync(ALL, t, 5);
  mine[1] = __shfl_sync(ALL, t, 3, 8);
  mine[2] = __shfl_xor_sync(ALL, t, 17);
  mine[3] = __shfl_down_sync(ALL, t, 3);
  mine[4] = __shfl_down_sync(ALL, t, 3, 8);
  mine[5] = __shfl_up_sync(ALL, t, 3);
  mine[6] = __shfl_up_sync(ALL, t, 3, 8);
  mine[7] = static_cast<int>(__ballot_sync(ALL, lane % 3 == 0));
  mine[8] = __any_sync(ALL, lane == 40) * 2 + __any_sync(ALL, lane == 4);
  mine[9] = __all_sync(ALL, lane < 32) * 2 + __all_sync(ALL, lane != 4);
  mine[10] = __syncthreads_count(t % 5 == 0);
  mine[11] = __syncthreads_or(t == 95) * 2 + __syncthreads_or(t == 96);
  mine[12] = __syncthreads_and(t < 96) * 2 + __syncthreads_and(t < 95);
  mine[13] = static_cast<int>(__popc(__ballot_sync(ALL, 1)));
  mine[14] = __shfl_xor_sync(ALL, t, 9,
                             8); /* out of the segment and above: the own value, or a lower one */
  mine[15] = static_cast<int>(__shfl_sync(ALL, static_cast<double>(t) + 0.5, 31) * 2);
}

static void test_collectives() {
  int *d = device_array<int>(N * RESULTS);
  LAUNCH(collectives, 1, N, 0, 0, d);
  std::vector<int> all = to_host(d, N * RESULTS);
  for (int t = 0; t < N; t++) {
    const int *r = &all[static_cast<size_t>(t * RESULTS)], lane = t % 32, warp = t - lane,
              seg = t - t % 8;
    int want[RESULTS] = {warp + 5,
                         seg + 3,
                         warp + (lane ^ 17),
                         lane + 3 < 32 ? t + 3 : t,
                         t % 8 + 3 < 8 ? t + 3 : t,
                         lane >= 3 ? t - 3 : t,
                         t % 8 >= 3 ? t - 3 : t,
                         0x49249249,
                         1,
                         2,
                         20,
                         2,
                         2,
                         32,
                         (lane ^ 9) / 8 <= lane / 8 ? warp + (lane ^ 9) : t,
                         warp * 2 + 63};
    for (int i = 0; i < RESULTS; i++)
      EXPECT(r[i] == want[i], "thread %d, result %d: %d, not %d", t, i, r[i], want[i]);
  }
}

/* Each thread writes, the others read after the barrier; twice in the same memory. */
static __global__ void rotate(const int *in, int *out, int n) {
  __shared__ int buffer[128];
  DYNAMIC_SHARED(int, more);
  int t = static_cast<int>(threadIdx.x);
  for (int block = static_cast<int>(blockIdx.x); block * 128 < n;
       block += static_cast<int>(gridDim.x)) {
    buffer[t] = in[block * 128 + t];
    __syncthreads();
    more[t] = buffer[(t + 1) % 128];
    __syncthreads();
    out[block * 128 + t] = more[(t + 1) % 128];
    __syncthreads();
  }
}
static void test_barriers() {
  enum { COUNT = 128 * 7 };
  std::vector<int> in(COUNT);
  for (int i = 0; i < COUNT; i++) in[static_cast<size_t>(i)] = i * i;
  int *d = to_device(in), *o = device_array<int>(COUNT);
  LAUNCH(rotate, 3, 128, 128 * sizeof(int), 0, d, o, static_cast<int>(COUNT));
  std::vector<int> out = to_host(o, COUNT);
  for (int i = 0; i < COUNT; i++) {
    int from = i / 128 * 128 + (i + 2) % 128;
    EXPECT(out[static_cast<size_t>(i)] == from * from, "element %d", i);
  }
}

static __global__ void count_up(unsigned *sum, unsigned long long *most) {
  atomicAdd(sum, threadIdx.x + 1);
  atomicMax(most, static_cast<unsigned long long>(blockIdx.x * 1000 + threadIdx.x));
}
static void test_atomics() {
  unsigned *sum = to_device(std::vector<unsigned>{0});
  unsigned long long *most = to_device(std::vector<unsigned long long>{5});
  LAUNCH(count_up, 4, dim3(100), 0, 0, sum, most);
  EXPECT(to_host(sum, 1)[0] == 4 * 5050, "%u", to_host(sum, 1)[0]);
  EXPECT(to_host(most, 1)[0] == 3099, "%llu", to_host(most, 1)[0]);
}

static __global__ void indices(int *out) {
  unsigned i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[b * blockDim.x * blockDim.y * blockDim.z + i] =
      static_cast<int>(threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z + 1000 * blockIdx.x +
                       10000 * blockIdx.y + 100000 * blockIdx.z);
}
static void test_indices() {
  int *d = device_array<int>(2 * 3 * 4 * 5 * 2 * 3), want, at = 0;
  LAUNCH(indices, dim3(2, 3, 4), dim3(5, 2, 3), 0, 0, d);
  std::vector<int> out = to_host(d, 2 * 3 * 4 * 5 * 2 * 3);
  for (int b = 0; b < 24; b++)
    for (int t = 0; t < 30; t++, at++) {
      want = t % 5 + 10 * (t / 5 % 2) + 100 * (t / 10) + 1000 * (b % 2) + 10000 * (b / 2 % 3) +
             100000 * (b / 6);
      EXPECT(out[static_cast<size_t>(at)] == want, "block %d, thread %d: %d", b, t,
             out[static_cast<size_t>(at)]);
    }
}

/* All 16-bit values there and back, and every float whose low bits matter for rounding. */
static void test_half() {
#if !defined(__CUDACC__) && defined(__FLT16_MANT_DIG__) /* a compiler that knows the type */
  for (unsigned i = 0; i < 65536; i++) {
    _Float16 h;
    uint16_t bits = static_cast<uint16_t>(i);
    memcpy(&h, &bits, 2);
    float want = static_cast<float>(h), got = __half2float(__ushort_as_half(bits));
    EXPECT(memcmp(&want, &got, 4) == 0 || (want != want && got != got), "half %04x: %a, not %a", i,
           static_cast<double>(got), static_cast<double>(want));
  }
  for (uint64_t u = 0; u < 0x100000000ull; u += 4093) {
    float f = __uint_as_float(static_cast<unsigned>(u));
    _Float16 h = static_cast<_Float16>(f);
    uint16_t want, got = __half_as_ushort(__float2half_rn(f));
    memcpy(&want, &h, 2);
    EXPECT(want == got || (f != f && (got & 0x7fff) > 0x7c00), "float %08x: %04x, not %04x",
           static_cast<unsigned>(u), got, want);
  }
#endif
  EXPECT(__bfloat16_as_ushort(__float2bfloat16_rn(1.00390625f)) == 0x3f80,
         "a tie goes to the even one");
  EXPECT(__bfloat16_as_ushort(__float2bfloat16_rn(1.01171875f)) == 0x3f82,
         "a tie goes to the even one");
  EXPECT(__bfloat16_as_ushort(__float2bfloat16_rn(NAN)) == 0x7fff, "NaN as the vendor's");
}

int main() {
  test_collectives();
  test_barriers();
  test_atomics();
  test_indices();
  test_half();
  return failures != 0;
}
