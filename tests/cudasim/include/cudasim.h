/* The emulator as emitted kernels and the stand-ins of libraries see it. Each thread of a block is a fiber, blocks
   run one after another in one thread of the host, work of a stream runs when the schedule says so.

   Environment:
     CUDASIM_ORDER    forward, reverse, shuffle:SEED      threads in a block, blocks in a grid
     CUDASIM_STREAMS  eager, lazy, urgent, random:SEED    when enqueued work runs; lazy: as late as the program
                      allows; urgent: streams of high priority run whatever their waits allow, all others as late
                      as possible
     CUDASIM_DEVICES, CUDASIM_SM, CUDASIM_MEMORY, CUDASIM_DRIVER, CUDASIM_NAME    the devices that are there
     CUDASIM_FAIL     CALL:N=ERROR,...                    the N-th call of a function gives this error
     CUDASIM_FORGET   N: the N-th wait of a stream for another one is left out, as if the program had forgotten it
     CUDASIM_PROTECT  1: the host dies where it reads or writes memory of the device
     CUDASIM_STATS    1: a table of kernels at the end: how often they ran, how often the program launched them (what
                      a graph holds it launches once) */
#ifndef CUDASIM_H
#define CUDASIM_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <functional>
#include "cuda_runtime_api.h"

#define CUDASIM 1

/* Where a barrier or a warp collective stands, for reports: default arguments name the line of the caller. */
#define CUDASIM_PLACE const char *file_ = __builtin_FILE(), int line_ = __builtin_LINE()
#define CUDASIM_HERE  file_, line_

namespace cudasim {
/* ---- within a kernel ---- */
struct Here {
  uint3 tid;
  unsigned lane, warp, linear;
};
extern Here *cur; /* the thread that runs; another one after each barrier and collective */
extern dim3 grid_dim, block_dim;
extern uint3 block_idx;
extern unsigned char *dyn_smem; /* exactly the bytes of the launch */

void block_barrier(const char *file, int line);
int block_count(bool predicate, const char *file, int line); /* of threads where it holds */
/* Values of all 32 lanes, valid until the thread's next collective. */
const uint64_t *warp_gather(uint32_t mask, uint64_t value, const char *what, const char *file,
                            int line);
/* A message with kernel, block and place, and the end of the process. */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Copies that a thread has begun and not yet waited for. */
void copy_begin(void *to, const void *from, size_t bytes);
void copy_commit();
void copy_wait(unsigned but_the_last);

/* ---- of the host ---- */
void launch(const char *name, const void *kernel, dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, std::function<void()> thread);
/* Arguments are copied at the launch and converted to the types of the parameters, as on a GPU. */
template <class... P, class... A>
inline void launch_kernel(const char *name, void (*kernel)(P...), dim3 grid, dim3 block,
                          size_t shared_bytes, cudaStream_t stream, A... a) {
  static_assert(sizeof...(P) == sizeof...(A), "number of kernel arguments");
  static_assert((sizeof(P) + ... + 0) <= 4096, "kernel arguments take at most 4 KiB");
  launch(name, reinterpret_cast<const void *>(kernel), grid, block, shared_bytes, stream,
         [kernel, a...] { kernel(static_cast<P>(a)...); });
}

/* Work of a library on a stream, for the stand-ins. It is called with first = true, then with false until it
   returns true: has happened. Memory of the device may be touched within. A graph begins it anew each time. */
using Work = std::function<bool(bool first)>;
cudaError_t enqueue(cudaStream_t stream, const char *name, Work work);
bool capturing(cudaStream_t stream);
const char *stream_name(cudaStream_t stream); /* "stream 2", in the order in which they were made */
/* Base and size of the allocation of the device that p lies in; false: in none. */
bool allocation_of(const void *p, char **base, size_t *bytes);
} // namespace cudasim

/* D(16x8) += A(16x16) B(16x8), 16-bit floats in, float out: mma.m16n8k16 with the fragment layout of the PTX
   manual. The emulator's form of functions that are inline PTX for nvcc (runtime/kernels/cuda/ddp_cuda.h). */
void ddp_mma_16816_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                        CUDASIM_PLACE);
void ddp_mma_16816_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                       CUDASIM_PLACE);
#endif
