/* Memory of the device: pages of its own for each allocation, which ends as close to a forbidden page as 256-byte
   alignment allows. What lies between is watched: by the address sanitizer, else by comparing it after each kernel.
   New memory is full of NaN. */
#include "sim.h"
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <map>
#ifdef CUDASIM_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace cudasim {
enum : ptrdiff_t { PAGE = 4096, ALIGN = 256 };
enum : unsigned char { EDGE = 0xa5, FRESH = 0xff };
struct Allocation {
  char *map;
  size_t mapped, bytes; /* with the forbidden page; as asked for */
};
static auto &device = *new std::map<char *, Allocation>; /* by the first byte */
static auto &pinned = *new std::map<char *, size_t>;
static size_t allocated;
static int open_count; /* DeviceAccess that live */

static const std::pair<char *const, Allocation> *find(const void *p) {
  auto i = device.upper_bound((char *)p);
  if (i == device.begin()) return nullptr;
  --i;
  return (char *)p < i->first + i->second.bytes ? &*i : nullptr;
}
bool on_device(const void *p) {
  return find(p) != nullptr;
}
bool within_device(const void *p, size_t bytes) {
  auto *a = find(p);
  return a && (size_t)(a->first + a->second.bytes - (char *)p) >= bytes;
}
bool is_pinned(const void *p) {
  auto i = pinned.upper_bound((char *)p);
  return i != pinned.begin() && (char *)p < std::prev(i)->first + std::prev(i)->second;
}
bool allocation_of(const void *p, char **base, size_t *bytes) {
  std::lock_guard<std::mutex> lock(big);
  auto *a = find(p);
  if (!a) return false;
  *base = a->first;
  *bytes = a->second.bytes;
  return true;
}
size_t device_bytes() {
  return allocated;
}

/* ---------- edges ---------- */
static void edge(char *begin, char *end, const Allocation &a, const char *where, bool set) {
#ifdef CUDASIM_ASAN
  (void)a, (void)where;
  if (set) ASAN_POISON_MEMORY_REGION(begin, (size_t)(end - begin));
#else
  static const std::vector<unsigned char> clean(ALIGN, EDGE);
  if (set)
    memset(begin, EDGE, (size_t)(end - begin));
  else if (memcmp(begin, clean.data(), (size_t)(end - begin)))
    die("wrote %s an allocation of %zu bytes", where, a.bytes);
#endif
}
static void edges(char *p, const Allocation &a, bool set) {
  edge(p - a.map > ALIGN ? p - ALIGN : a.map, p, a, "before", set);
  edge(p + a.bytes, a.map + a.mapped - PAGE, a, "behind the end of", set);
}
void check_edges() {
  for (auto &[p, a] : device) edges(p, a, false);
}

/* ---------- forbidden pages ---------- */
/* Says who touched what, and ends the run; what is not ours goes its own way. */
static struct sigaction old_action;
static void on_fault(int sig, siginfo_t *info, void *context) {
  char *at = (char *)info->si_addr, text[200];
  int n = 0;
  for (auto &[p, a] : device)
    if (at >= a.map && at < p + a.bytes)
      n = snprintf(
          text, sizeof text,
          "cudasim: the host touched byte %td of an allocation of the device (%zu bytes)\n", at - p,
          a.bytes);
    else if (at >= p + a.bytes && at < a.map + a.mapped)
      n = snprintf(text, sizeof text,
                   "cudasim: kernel %s, block (%u,%u,%u): byte %td of an allocation of %zu bytes\n",
                   running_kernel(), block_idx.x, block_idx.y, block_idx.z, at - p, a.bytes);
  if (n) {
    void *frames[32];
    if (write(2, text, (size_t)n) > 0) backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
    _exit(66);
  }
  if (old_action.sa_flags & SA_SIGINFO)
    old_action.sa_sigaction(sig, info, context);
  else
    sigaction(SIGSEGV, &old_action, nullptr); /* and once more */
}
/* Whoever has set a handler since the last time is asked after this one. The sanitizers' say more. */
static void watch_faults() {
#if !defined(CUDASIM_ASAN) && !defined(CUDASIM_TSAN)
  struct sigaction now = {}, mine = {};
  sigaction(SIGSEGV, nullptr, &now);
  if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault) return;
  old_action = now;
  mine.sa_sigaction = on_fault;
  mine.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &mine, nullptr);
#else
  (void)on_fault;
#endif
}
static void protect(int rights) {
  for (auto &[p, a] : device) mprotect(a.map, a.mapped - PAGE, rights);
}
DeviceAccess::DeviceAccess() {
  if (knobs().protect && open_count++ == 0) protect(PROT_READ | PROT_WRITE);
}
DeviceAccess::~DeviceAccess() {
  if (knobs().protect && --open_count == 0) protect(PROT_NONE);
}

/* ---------- allocations ---------- */
void *device_alloc(size_t bytes) {
  size_t room = (bytes + ALIGN - 1) / ALIGN * ALIGN, body = (room + PAGE - 1) / PAGE * PAGE;
  if (bytes > knobs().memory || allocated + room > knobs().memory) return nullptr;
  Allocation a = {nullptr, body + PAGE, bytes};
  a.map = (char *)mmap(nullptr, a.mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (a.map == MAP_FAILED) return nullptr;
  char *p = a.map + body - room;
  memset(p, FRESH, bytes);
  edges(p, a, true);
  mprotect(a.map + body, PAGE, PROT_NONE);
  if (knobs().protect && !open_count) mprotect(a.map, (size_t)body, PROT_NONE);
  watch_faults();
  device[p] = a;
  allocated += room;
  return p;
}

bool device_free(void *p) {
  auto i = device.find((char *)p);
  if (i == device.end()) return false;
  Allocation a = i->second;
  {
    DeviceAccess access;
    edges((char *)p, a, false);
  }
#ifdef CUDASIM_ASAN
  ASAN_UNPOISON_MEMORY_REGION(a.map, a.mapped - PAGE);
#endif
  munmap(a.map, a.mapped);
  device.erase(i);
  allocated -= (a.bytes + ALIGN - 1) / ALIGN * ALIGN;
  return true;
}

/* Copies between host and device, as the documentation has it: from pageable memory they are staged before the
   call returns, to pageable memory the call returns when they have happened. */
static bool direction_fits(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  bool to_device = on_device(to), from_device = on_device(from);
  if (to_device && !within_device(to, bytes)) return false;
  if (from_device && !within_device(from, bytes)) return false;
  switch (kind) {
  case cudaMemcpyHostToHost:
    return !to_device && !from_device;
  case cudaMemcpyHostToDevice:
    return to_device && !from_device;
  case cudaMemcpyDeviceToHost:
    return !to_device && from_device;
  case cudaMemcpyDeviceToDevice:
    return to_device && from_device;
  case cudaMemcpyDefault:
    return true;
  }
  return false;
}
static cudaError_t enqueue_copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                                cudaStream_t stream, bool *must_wait) {
  *must_wait = false;
  if (!bytes) return cudaSuccess;
  if (!direction_fits(to, from, bytes, kind)) return cudaErrorInvalidValue;
  bool captured = in_capture(stream_of(stream));
  if (!captured && !on_device(from) && !is_pinned(from)) {
    auto staged =
        std::make_shared<std::vector<char>>((const char *)from, (const char *)from + bytes);
    return add(stream, "copy", [=](bool) {
      memcpy(to, staged->data(), bytes);
      return true;
    });
  }
  *must_wait = !captured && !on_device(to) && !is_pinned(to);
  return add(stream, "copy", [=](bool) {
    memcpy(to, from, bytes);
    return true;
  });
}
static void drain(std::unique_lock<std::mutex> &lock, cudaStream_t stream) {
  auto last = stream_of(stream)->last;
  wait_for(
      lock, [=] { return !last || last->done; }, [=] { return advance(stream_of(stream)); });
}
} // namespace cudasim

using namespace cudasim;
static cudaError_t pinned_alloc(void **out, size_t bytes) {
  if (cudaError_t e = forbidden_in_capture()) return e;
  if (posix_memalign(out, 4096, bytes ? bytes : 1)) return cudaErrorMemoryAllocation;
  memset(*out, FRESH, bytes);
  pinned[(char *)*out] = bytes ? bytes : 1;
  return cudaSuccess;
}

extern "C" {
cudaError_t cudaMalloc(void **out, size_t bytes) {
  CUDASIM_ENTER(cudaMalloc);
  if (cudaError_t e = forbidden_in_capture()) return leave(e);
  *out = nullptr;
  if (bytes && !(*out = device_alloc(bytes))) return leave(cudaErrorMemoryAllocation);
  return cudaSuccess;
}
cudaError_t cudaFree(void *p) {
  CUDASIM_ENTER(cudaFree);
  if (!p) return cudaSuccess;
  if (cudaError_t e = forbidden_in_capture()) return leave(e);
  wait_for_device(lock_);
  return leave(device_free(p) ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMallocHost(void **out, size_t bytes) {
  CUDASIM_ENTER(cudaMallocHost);
  return leave(pinned_alloc(out, bytes));
}
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned) {
  CUDASIM_ENTER(cudaHostAlloc);
  return leave(pinned_alloc(out, bytes));
}
cudaError_t cudaFreeHost(void *p) {
  CUDASIM_ENTER(cudaFreeHost);
  if (!p) return cudaSuccess;
  if (cudaError_t e = forbidden_in_capture()) return leave(e);
  if (!pinned.erase((char *)p)) return leave(cudaErrorInvalidValue);
  free(p);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes) {
  CUDASIM_ENTER(cudaMemGetInfo);
  *free_bytes = knobs().memory - allocated;
  *all_bytes = knobs().memory;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p) {
  CUDASIM_ENTER(cudaPointerGetAttributes);
  bool dev = on_device(p), pin = is_pinned(p);
  memset(out, 0, sizeof *out);
  out->type = dev ? cudaMemoryTypeDevice : pin ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  out->devicePointer = dev || pin ? (void *)p : nullptr;
  out->hostPointer = dev ? nullptr : (void *)p;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  CUDASIM_ENTER(cudaMemcpyAsync);
  bool must_wait;
  if (cudaError_t e = enqueue_copy(to, from, bytes, kind, stream, &must_wait)) return leave(e);
  if (must_wait) drain(lock_, stream);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
  CUDASIM_ENTER(cudaMemcpy);
  if (cudaError_t e = forbidden_in_capture()) return leave(e);
  bool must_wait;
  if (cudaError_t e = enqueue_copy(to, from, bytes, kind, nullptr, &must_wait)) return leave(e);
  drain(lock_, nullptr);
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  CUDASIM_ENTER(cudaMemcpy2DAsync);
  if (width > to_pitch || width > from_pitch) return leave(cudaErrorInvalidValue);
  bool wait = false;
  for (size_t i = 0; i < height; i++) {
    bool row;
    if (cudaError_t e = enqueue_copy((char *)to + i * to_pitch, (const char *)from + i * from_pitch,
                                     width, kind, stream, &row))
      return leave(e);
    wait |= row;
  }
  if (wait) drain(lock_, stream);
  return cudaSuccess;
}
static cudaError_t enqueue_fill(void *p, int value, size_t bytes, cudaStream_t stream) {
  if (!bytes) return cudaSuccess;
  if (!within_device(p, bytes)) return cudaErrorInvalidValue;
  return add(stream, "memset", [=](bool) {
    memset(p, value, bytes);
    return true;
  });
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream) {
  CUDASIM_ENTER(cudaMemsetAsync);
  return leave(enqueue_fill(p, value, bytes, stream));
}
cudaError_t cudaMemset(void *p, int value, size_t bytes) {
  CUDASIM_ENTER(cudaMemset);
  if (cudaError_t e = forbidden_in_capture()) return leave(e);
  return leave(enqueue_fill(p, value, bytes, nullptr));
}
}
