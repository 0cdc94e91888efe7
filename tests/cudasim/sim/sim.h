/* What the parts of the emulator know of each other. One lock (`big`) is held by whatever touches their state and
   by everything that runs on the device: functions below expect it, functions of the CUDA interface take it. */
#ifndef CUDASIM_SIM_H
#define CUDASIM_SIM_H
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>
#include "cuda_runtime_api.h"
#include "cudasim.h"

#if defined(__SANITIZE_ADDRESS__)
#define CUDASIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUDASIM_ASAN 1
#endif
#endif

namespace cudasim {
extern std::mutex &big;

/* ---- knobs.cpp: what the environment says ---- */
struct Random {
  uint64_t state;
  uint32_t below(uint32_t n);
};
enum class Order { forward, reverse, shuffle };
enum class Schedule { eager, lazy, urgent, random };
struct Knobs {
  Order order;
  Schedule schedule;
  Random order_random, schedule_random;
  bool protect, stats,
      progress; /* progress: enqueued work also runs while the program is elsewhere */
  int devices, sm, driver, forget;
  size_t memory; /* bytes of each device */
  const char *name;
};
Knobs &knobs();
/* The error that CUDASIM_FAIL wants for this call of `what` ("cudaMalloc", "launch"), counted from 1. */
cudaError_t injected(const char *what);

/* ---- block.cpp: one grid, block after block ---- */
struct Grid {
  const char *name;
  dim3 grid, block;
  size_t shared_bytes;
  std::function<void()> thread;
};
void run_grid(const Grid &g);
void count_enqueued(const char *name); /* of a kernel, for CUDASIM_STATS */
const char *running_kernel();          /* "(host)" outside of kernels */

/* ---- memory.cpp ---- */
struct DeviceAccess { /* while it lives, memory of the device may be read and written */
  DeviceAccess();
  ~DeviceAccess();
};
bool on_device(const void *p);
bool is_pinned(const void *p);
bool within_device(const void *p, size_t bytes); /* all of it in one allocation */
void check_edges();                              /* nobody has written beyond an allocation */
void *device_alloc(size_t bytes);                /* NULL: no room */
bool device_free(void *p);
size_t device_bytes(); /* allocated */

/* ---- error.cpp ---- */
/* At the beginning of each function of the interface, with its name: an error that it must give, if any. */
cudaError_t enter(const char *name);
cudaError_t leave(cudaError_t e); /* remembers it for cudaGetLastError */
void set_fault(cudaError_t e);    /* a kernel has failed: everything gives this error from now on */
#define CUDASIM_ENTER(name)                                                                        \
  std::unique_lock<std::mutex> lock_(cudasim::big);                                                \
  if (cudaError_t e_ = cudasim::enter(#name)) return cudasim::leave(e_)

/* ---- stream.cpp ---- */
struct Capture;
struct Mark { /* has happened or not; events are made of these */
  bool done = false;
  CUstream_st *on = nullptr;
  double time = 0;
};
struct Op {
  const char *name;
  Work run; /* none: only its mark */
  std::vector<std::shared_ptr<Mark>> after;
  std::shared_ptr<Mark> mark;
  double begun = 0; /* when it was first tried */
};
double now();
/* In the schedule `urgent`, of work in a stream of high priority that was first tried then and waits for other processes:
   does all else wait too? What those need of this one for it is enqueued already, but for a program that is stuck: so not
   for long. */
bool holds_others(double begun);
/* Puts work at the end of a stream, or into the graph that it is being captured into. */
cudaError_t add(cudaStream_t stream, const char *name, Work run,
                std::vector<std::shared_ptr<Mark>> after = {});
/* Moves until done; lets others have the lock while nothing moves. */
void wait_for(std::unique_lock<std::mutex> &lock, const std::function<bool()> &done,
              const std::function<bool()> &advance);
bool advance(CUstream_st *s); /* its first op, or what that waits for; false: nothing moved */
void wait_for_device(std::unique_lock<std::mutex> &lock);
CUstream_st *stream_of(cudaStream_t s);
std::vector<CUstream_st *> &streams();

/* ---- graph.cpp ---- */
bool in_capture(CUstream_st *s);
cudaError_t capture_op(CUstream_st *s, const char *name, Work run);
/* Calls that a capture does not allow, for the thread that makes them; the capture is then invalid. */
cudaError_t forbidden_in_capture();
void invalidate(CUstream_st *s);
} // namespace cudasim

struct CUstream_st {
  int id = 0, priority = 0;
  bool blocking = false; /* ordered with the default stream */
  bool destroyed = false;
  std::deque<cudasim::Op> queue;
  std::shared_ptr<cudasim::Mark> last; /* of what was enqueued last */
  std::shared_ptr<cudasim::Capture> capture;
  std::vector<int> tail; /* nodes of the graph that the next one comes after */
};
struct CUevent_st {
  bool timing = true;
  std::shared_ptr<cudasim::Mark> mark; /* none: never recorded, which counts as happened */
  std::shared_ptr<cudasim::Capture> capture;
  std::vector<int> tail;
};
#endif
