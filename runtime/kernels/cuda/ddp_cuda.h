/* The header that emitted .cu files and the kernels of this folder begin with. nvcc and the emulator
   (tests/cudasim: g++ with headers of the same names) read the same text through it.
   What such a text may use: docs/architecture.md, "Kernels of devices". */
#ifndef DDP_KERNELS_CUDA_DDP_CUDA_H
#define DDP_KERNELS_CUDA_DDP_CUDA_H
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define DDP_DEVICE_CODE 1
#define DDP_INLINE      static __host__ __device__ __forceinline__
#define DDP_DEVICE      static __device__ __forceinline__
#include "../inline.h"
#include "ddp/cuda.h"

/* ---------- launches ---------- */

/* kernel<<<grid, block, shared, stream>>>(arguments); an error is kept for DdpDevice.failure. stream: void *.
   shared: a constant. No kernel needs more than what each gets unasked; one that does must be allowed to
   (cudaFuncSetAttribute) in DdpTarget.init, before anything is captured. */
#define DDP_CHECK_SHARED(shared)                                                                   \
  static_assert((shared) <= 48 * 1024, "dynamic shared memory above 48 KiB: see DDP_LAUNCH")
#ifdef __CUDACC__
#define DDP_LAUNCH(kernel, grid, block, shared, stream, ...)                                       \
  do {                                                                                             \
    DDP_CHECK_SHARED(shared);                                                                      \
    kernel<<<(grid), (block), (shared), static_cast<cudaStream_t>(stream)>>>(__VA_ARGS__);         \
    ddp_cuda_check(static_cast<int>(cudaGetLastError()), #kernel, __FILE__, __LINE__);             \
  } while (0)
#else
#define DDP_LAUNCH(kernel, grid, block, shared, stream, ...)                                       \
  do {                                                                                             \
    DDP_CHECK_SHARED(shared);                                                                      \
    cudasim::launch_kernel(#kernel, kernel, dim3(grid), dim3(block), (shared),                     \
                           static_cast<cudaStream_t>(stream) __VA_OPT__(, ) __VA_ARGS__);          \
    ddp_cuda_check(static_cast<int>(cudaGetLastError()), #kernel, __FILE__, __LINE__);             \
  } while (0)
#endif
/* A library call that returns a cudaError_t. */
#define DDP_CUDA(call) ddp_cuda_check(static_cast<int>(call), #call, __FILE__, __LINE__)

/* Shared memory whose size the launch says: `extern __shared__` is no word of C++. 16-byte aligned. */
#ifdef __CUDACC__
#define DDP_DYNAMIC_SHARED(T, name)                                                                \
  extern __shared__ __align__(16) unsigned char ddp_dynamic_shared[];                              \
  T *const name = reinterpret_cast<T *>(ddp_dynamic_shared)
#else
#define DDP_DYNAMIC_SHARED(T, name) T *const name = reinterpret_cast<T *>(cudasim::dyn_smem)
#endif

/* Before a loop: every turn is written out, or it stays one (registers are few). */
#ifdef __CUDACC__
#define DDP_UNROLL _Pragma("unroll")
#define DDP_ROLLED _Pragma("unroll 1")
#else
#define DDP_UNROLL
#define DDP_ROLLED
#endif

/* Blocks for n things, `each` of them in one block. */
static inline unsigned ddp_blocks(int64_t n, int64_t each) {
  return static_cast<unsigned>((n + each - 1) / each);
}

/* ---------- 16-bit floats ----------
   are storage; arithmetic is in float. Stores round to nearest even. */
using bf16 = __nv_bfloat16;
using f16 = __half;
DDP_DEVICE float ddp_load_bf16(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
DDP_DEVICE __nv_bfloat16 ddp_store_bf16(float x) {
  return __float2bfloat16_rn(x);
}
DDP_DEVICE float ddp_load_f16(__half x) {
  return __half2float(x);
}
DDP_DEVICE __half ddp_store_f16(float x) {
  return __float2half_rn(x);
}
/* What a float becomes when it is stored and read again. */
DDP_DEVICE float ddp_round_bf16(float x) {
  return ddp_load_bf16(ddp_store_bf16(x));
}
DDP_DEVICE float ddp_round_f16(float x) {
  return ddp_load_f16(ddp_store_f16(x));
}

/* The same for kernels that are written once for all types of storage. */
DDP_DEVICE float ddp_load(float x) {
  return x;
}
DDP_DEVICE float ddp_load(__nv_bfloat16 x) {
  return ddp_load_bf16(x);
}
DDP_DEVICE float ddp_load(__half x) {
  return ddp_load_f16(x);
}
DDP_DEVICE void ddp_store(float *to, float x) {
  *to = x;
}
DDP_DEVICE void ddp_store(__nv_bfloat16 *to, float x) {
  *to = ddp_store_bf16(x);
}
DDP_DEVICE void ddp_store(__half *to, float x) {
  *to = ddp_store_f16(x);
}

/* N neighbours in one access of up to 16 bytes; their address is a multiple of that. */
template <class T, int N> struct alignas(N * sizeof(T)) DdpVector { T at[N]; };

/* ---------- warps and blocks ----------
   Every thread of the warp or block takes part and gets the result; the order of additions is fixed. Blocks
   are a multiple of 32 threads, and `parts` is shared memory for 32 numbers, free again afterwards. */
#define DDP_ALL_LANES 0xffffffffu

template <class T> DDP_DEVICE T ddp_warp_sum(T x) {
  DDP_UNROLL
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(DDP_ALL_LANES, x, step);
  return x;
}
/* NaN if there is one, as torch.max. */
DDP_DEVICE float ddp_larger(float a, float b) {
  return a > b || a != a ? a : b;
}
DDP_DEVICE float ddp_warp_max(float x) {
  DDP_UNROLL
  for (int step = 16; step > 0; step /= 2)
    x = ddp_larger(x, __shfl_xor_sync(DDP_ALL_LANES, x, step));
  return x;
}
template <class T> DDP_DEVICE T ddp_block_sum(T x, T *parts) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  x = ddp_warp_sum(x);
  if (lane == 0) parts[thread / 32] = x;
  __syncthreads();
  x = ddp_warp_sum(lane < static_cast<int>(blockDim.x) / 32 ? parts[lane] : T(0));
  __syncthreads();
  return x;
}
DDP_DEVICE float ddp_block_max(float x, float *parts) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  x = ddp_warp_max(x);
  if (lane == 0) parts[thread / 32] = x;
  __syncthreads();
  x = ddp_warp_max(lane < static_cast<int>(blockDim.x) / 32 ? parts[lane] : -INFINITY);
  __syncthreads();
  return x;
}

/* ---------- tensor cores ----------
   d[16, 8] += a[16, 16] b[16, 8] by one warp; fragments as PTX's mma.m16n8k16 lays them out. The emulator has
   functions of the same names. */
#ifdef __CUDACC__
#define DDP_MMA_16816(type)                                                                        \
  DDP_DEVICE void ddp_mma_16816_##type(float(&d)[4], const uint32_t(&a)[4],                        \
                                       const uint32_t(&b)[2]) {                                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." #type "." #type ".f32 "                  \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                           \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));              \
  }
DDP_MMA_16816(bf16)
DDP_MMA_16816(f16)
#undef DDP_MMA_16816
#endif

#endif
