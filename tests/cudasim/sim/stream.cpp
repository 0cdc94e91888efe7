/* Streams and events. Work waits in the queue of its stream until the schedule, or a call that waits for it, lets it
   run; a thread moves it on when the program is elsewhere, as a device would. */
#include "sim.h"
#include <time.h>
#include <unistd.h>
#include <algorithm>
#include <condition_variable>
#include <thread>

namespace cudasim {
enum { IDLE_MS = 50, NAP_US = 50 }; /* the program is elsewhere after so long */
static const double HOLD_SECONDS = 1;
static uint64_t calls; /* of functions that enqueue or ask */

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

std::vector<CUstream_st *> &streams() {
  static auto &all = *new std::vector<CUstream_st *>;
  return all;
}
static CUstream_st *new_stream(int priority, bool blocking) {
  static int number;
  auto *s = new CUstream_st;
  s->id = number++;
  s->priority = priority;
  s->blocking = blocking;
  streams().push_back(s);
  return s;
}
static CUstream_st *default_stream() {
  static CUstream_st *s = new_stream(0, true);
  return s;
}
CUstream_st *stream_of(cudaStream_t s) {
  return s == nullptr || s == (cudaStream_t)1 || s == (cudaStream_t)2 ? default_stream() : s;
}

/* ---------- what runs ---------- */
static CUstream_st *waits_for(const Op &op) {
  for (auto &mark : op.after)
    if (!mark->done) return mark->on;
  return nullptr;
}
static bool ready(const CUstream_st *s) {
  return !s->queue.empty() && !waits_for(s->queue.front());
}

/* The first op of s, whose waits are over. */
static bool run_first(CUstream_st *s) {
  Op &op = s->queue.front();
  bool first = op.begun == 0;
  if (first) op.begun = now();
  if (op.run) {
    DeviceAccess access;
    if (!op.run(first)) return false;
  }
  op.mark->done = true;
  op.mark->time = now();
  s->queue.pop_front();
  return true;
}
static void run_urgent() {
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < streams().size(); i++) {
      CUstream_st *s = streams()[i];
      if (s->priority < 0 && ready(s)) any |= run_first(s);
    }
  }
}
bool holds_others(double begun) {
  return knobs().schedule == Schedule::urgent && begun > 0 && now() - begun < HOLD_SECONDS;
}
static bool urgent_waits() {
  return std::any_of(streams().begin(), streams().end(), [](auto *s) {
    return s->priority < 0 && !s->queue.empty() && holds_others(s->queue.front().begun);
  });
}
bool advance(CUstream_st *s) {
  if (s->queue.empty()) return false;
  if (s->priority >= 0 && urgent_waits()) {
    run_urgent();
    if (urgent_waits()) return false;
  }
  if (CUstream_st *other = waits_for(s->queue.front())) return advance(other);
  bool moved = run_first(s);
  if (moved && knobs().schedule == Schedule::urgent && s->priority >= 0) run_urgent();
  return moved;
}
static bool advance_all() {
  bool any = false;
  for (size_t i = 0; i < streams().size(); i++) any |= advance(streams()[i]);
  return any;
}
static bool all_done() {
  return std::all_of(streams().begin(), streams().end(), [](auto *s) { return s->queue.empty(); });
}

static void run_some() {
  Knobs &k = knobs();
  switch (k.schedule) {
  case Schedule::eager:
    while (advance_all()) {
    }
    return;
  case Schedule::lazy:
    return;
  case Schedule::urgent:
    run_urgent();
    return;
  case Schedule::random:
    for (uint32_t n = k.schedule_random.below(6); n > 0; n--) {
      CUstream_st *s = streams()[k.schedule_random.below((uint32_t)streams().size())];
      if (ready(s)) run_first(s);
    }
  }
}

void wait_for(std::unique_lock<std::mutex> &lock, const std::function<bool()> &done,
              const std::function<bool()> &move) {
  while (!done()) {
    calls++;
    if (move()) continue;
    lock.unlock(); /* a library waits for another process, or for somebody who gives it up */
    usleep(NAP_US);
    lock.lock();
  }
}

void wait_for_device(std::unique_lock<std::mutex> &lock) {
  wait_for(lock, all_done, advance_all);
}

/* ---------- while the program is elsewhere ---------- */
static std::condition_variable &work_came = *new std::condition_variable;
static void progress_loop() {
  std::unique_lock<std::mutex> lock(big);
  for (uint64_t seen = 0;;) {
    work_came.wait(lock, [] { return !all_done(); });
    bool waiting = std::any_of(streams().begin(), streams().end(), [](auto *s) {
      return !s->queue.empty() && s->queue.front().begun > 0;
    });
    if (waiting || calls == seen) {
      while (advance_all()) {
      }
    }
    seen = calls;
    lock.unlock();
    usleep(waiting ? 200 : IDLE_MS * 1000);
    lock.lock();
  }
}
static void start_progress() {
  static pid_t of; /* threads do not survive fork() */
  if (of == getpid()) {
    work_came.notify_one();
    return;
  }
  of = getpid();
  std::thread(progress_loop).detach();
}

/* ---------- what is enqueued ---------- */
/* The default stream comes after all that blocking streams hold, and they after it. */
static void order_with_default(CUstream_st *s, Op &op) {
  CUstream_st *d = default_stream();
  if (s == d) {
    for (auto *o : streams())
      if (o != d && o->blocking && o->last && !o->last->done) op.after.push_back(o->last);
  } else if (s->blocking && d->last && !d->last->done) {
    op.after.push_back(d->last);
  }
}
cudaError_t add(cudaStream_t stream, const char *name, Work run,
                std::vector<std::shared_ptr<Mark>> after) {
  CUstream_st *s = stream_of(stream);
  calls++;
  if (in_capture(s)) return capture_op(s, name, std::move(run));
  Op op = {name, std::move(run), std::move(after), std::make_shared<Mark>()};
  op.mark->on = s;
  order_with_default(s, op);
  s->last = op.mark;
  s->queue.push_back(std::move(op));
  run_some();
  if (knobs().progress && !all_done()) start_progress();
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, const char *name, Work work) {
  std::lock_guard<std::mutex> lock(big);
  if (cudaError_t e = enter(name)) return leave(e);
  return leave(add(stream, name, std::move(work)));
}
bool capturing(cudaStream_t stream) {
  std::lock_guard<std::mutex> lock(big);
  return in_capture(stream_of(stream));
}
const char *stream_name(cudaStream_t stream) {
  static thread_local char text[32];
  snprintf(text, sizeof text, "stream %d", stream_of(stream)->id);
  return text;
}

/* A program that polls gets on, even where nothing else runs. */
static void poll(CUstream_st *s) {
  static unsigned asked;
  calls++;
  run_some();
  if (++asked % 16 == 0) advance(s);
}
} // namespace cudasim

using namespace cudasim;
static cudaError_t create(cudaStream_t *out, unsigned flags, int priority) {
  default_stream(); /* is number 0 */
  *out = new_stream(priority, !(flags & cudaStreamNonBlocking));
  return cudaSuccess;
}
static bool empty_or_done(const std::shared_ptr<Mark> &m) {
  return !m || m->done;
}

extern "C" {
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
  CUDASIM_ENTER(cudaStreamCreateWithFlags);
  return leave(create(out, flags, 0));
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
  CUDASIM_ENTER(cudaStreamCreateWithPriority);
  return leave(create(out, flags, std::clamp(priority, -5, 0)));
}
cudaError_t
cudaStreamDestroy(cudaStream_t s) { /* what it holds still happens; marks may point to it */
  CUDASIM_ENTER(cudaStreamDestroy);
  if (!s || s->destroyed) return leave(cudaErrorInvalidResourceHandle);
  s->destroyed = true;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CUDASIM_ENTER(cudaStreamSynchronize);
  CUstream_st *s = stream_of(stream);
  if (in_capture(s)) {
    invalidate(s);
    return leave(cudaErrorStreamCaptureUnsupported);
  }
  if (cudaError_t e = forbidden_in_capture()) return leave(e);
  auto last = s->last;
  wait_for(
      lock_, [&] { return empty_or_done(last); }, [&] { return advance(s); });
  return leave(enter("synchronised"));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  CUDASIM_ENTER(cudaStreamQuery);
  CUstream_st *s = stream_of(stream);
  if (in_capture(s)) {
    invalidate(s);
    return leave(cudaErrorStreamCaptureUnsupported);
  }
  if (cudaError_t e = forbidden_in_capture()) return leave(e);
  poll(s);
  return leave(s->queue.empty() ? enter("synchronised") : cudaErrorNotReady);
}
cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) {
  CUDASIM_ENTER(cudaStreamGetPriority);
  *priority = stream_of(s)->priority;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
  CUDASIM_ENTER(cudaDeviceSynchronize);
  if (cudaError_t e = forbidden_in_capture()) return leave(e);
  wait_for_device(lock_);
  return leave(enter("synchronised"));
}
cudaError_t cudaDeviceReset(void) {
  return cudaDeviceSynchronize();
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t f, void *self) {
  CUDASIM_ENTER(cudaLaunchHostFunc);
  return leave(add(stream, "host function", [=](bool) {
    f(self);
    return true;
  }));
}

/* ---------- events ---------- */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  CUDASIM_ENTER(cudaEventCreateWithFlags);
  *out = new CUevent_st;
  (*out)->timing = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *out) {
  return cudaEventCreateWithFlags(out, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  CUDASIM_ENTER(cudaEventDestroy);
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream) {
  CUDASIM_ENTER(cudaEventRecord);
  CUstream_st *s = stream_of(stream);
  if (in_capture(s)) {
    e->capture = s->capture;
    e->tail = s->tail;
    e->mark = nullptr;
    return cudaSuccess;
  }
  e->capture = nullptr;
  cudaError_t error = add(stream, "event", nullptr);
  e->mark = s->last;
  return leave(error);
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  CUDASIM_ENTER(cudaEventQuery);
  if (cudaError_t error = forbidden_in_capture()) return leave(error);
  if (e->capture) return leave(cudaErrorCapturedEvent);
  if (!empty_or_done(e->mark)) poll(e->mark->on);
  return leave(empty_or_done(e->mark) ? enter("synchronised") : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  CUDASIM_ENTER(cudaEventSynchronize);
  if (cudaError_t error = forbidden_in_capture()) return leave(error);
  if (e->capture) return leave(cudaErrorCapturedEvent);
  auto mark = e->mark;
  wait_for(
      lock_, [&] { return empty_or_done(mark); }, [&] { return advance(mark->on); });
  return leave(enter("synchronised"));
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
  CUDASIM_ENTER(cudaEventElapsedTime);
  if (!start->timing || !end->timing || !start->mark || !end->mark)
    return leave(cudaErrorInvalidResourceHandle);
  if (!start->mark->done || !end->mark->done) return leave(cudaErrorNotReady);
  *ms = (float)((end->mark->time - start->mark->time) * 1e3);
  return cudaSuccess;
}
}
