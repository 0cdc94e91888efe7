/* Launches: what no GPU of the emulated kind takes ends the run, since a test must not go on past it. */
#include "sim.h"
#include <map>

using namespace cudasim;
static auto &dynamic_limit = *new std::map<const void *, int>; /* cudaFuncSetAttribute */
enum { SHARED_DEFAULT = 48 << 10 };

static int shared_limit(const void *kernel) {
  auto i = dynamic_limit.find(kernel);
  return i == dynamic_limit.end() ? SHARED_DEFAULT : i->second;
}

static const char *impossible(const Grid &g, const void *kernel) {
  uint64_t threads = (uint64_t)g.block.x * g.block.y * g.block.z;
  if (!threads || !g.grid.x || !g.grid.y || !g.grid.z) return "nothing to launch";
  if (threads > 1024 || g.block.z > 64) return "at most 1024 threads, 64 along z";
  if (g.grid.x > 2147483647u || g.grid.y > 65535 || g.grid.z > 65535)
    return "grid: y and z end at 65535";
  if (g.shared_bytes > (size_t)shared_limit(kernel))
    return "more shared memory than 48 KiB, or than cudaFuncSetAttribute allowed";
  return nullptr;
}

void cudasim::launch(const char *name, const void *kernel, dim3 grid, dim3 block,
                     size_t shared_bytes, cudaStream_t stream, std::function<void()> thread) {
  std::lock_guard<std::mutex> lock(big);
  if (cudaError_t e = enter("launch")) {
    leave(e);
    return;
  }
  auto g = std::make_shared<Grid>(Grid{name, grid, block, shared_bytes, std::move(thread)});
  if (const char *why = impossible(*g, kernel))
    die("launch of %s<<<(%u,%u,%u), (%u,%u,%u), %zu>>> is not possible: %s", name, grid.x, grid.y,
        grid.z, block.x, block.y, block.z, shared_bytes, why);
  count_enqueued(name);
  cudaError_t crash = injected(name); /* while it runs: seen at a later call */
  leave(add(stream, name, [g, crash](bool) {
    if (crash)
      set_fault(crash);
    else
      run_grid(*g);
    return true;
  }));
}

extern "C" {
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attr, int value) {
  CUDASIM_ENTER(cudaFuncSetAttribute);
  if (attr != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  lock_.unlock();
  int most;
  if (cudaError_t e = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0))
    return e;
  if (value < 0 || value > most) return leave(cudaErrorInvalidValue);
  lock_.lock();
  dynamic_limit[kernel] = value;
  return cudaSuccess;
}
/* Without registers, which a host compiler does not count: by threads and shared memory alone. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel,
                                                          int block_size, size_t shared_bytes) {
  CUDASIM_ENTER(cudaOccupancyMaxActiveBlocksPerMultiprocessor);
  if (block_size < 1 || block_size > 1024 || shared_bytes > (size_t)shared_limit(kernel))
    return leave(cudaErrorInvalidValue);
  int by_threads = 2048 / ((block_size + 31) / 32 * 32),
      by_memory = (int)((228u << 10) / (shared_bytes + 1024));
  *blocks = by_threads < by_memory ? by_threads : by_memory;
  if (*blocks > 32) *blocks = 32;
  return cudaSuccess;
}
}
