/* Stand-in for libnccl.so at the level of its binary interface, between real processes. Calls become work on the
   emulator's streams; what the product promises is checked at the call, what ranks must agree on when they meet: an
   error with both calls instead of a hang.

   Environment:
     NCCLSIM_LOG   prefix of a file for each rank, PREFIX.RANK: one JSON line for each call, and for each time it runs
     NCCLSIM_FAIL  WHAT:N=HOW,... with WHAT init, all_reduce, broadcast, all_gather, N counted from 1;
                   HOW: forever (never ends), error (the call fails), async (the communicator fails later),
                   short (one element less than the other ranks have), wrong_id (init: of another job)
     NCCLSIM_FAIL_RANK  only this rank */
#include "segment.h"
#include "cudasim.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <map>
#include <mutex>

using namespace ncclsim;
struct ncclComm {
  Link link;
};
static std::string global_error;

/* ---------- what tests want ---------- */
static std::string injected(const std::string &what, int rank) {
  static auto &counts = *new std::map<std::string, int>;
  const char *at = getenv("NCCLSIM_FAIL"), *only = getenv("NCCLSIM_FAIL_RANK");
  int n = ++counts[what];
  if (only && atoi(only) != rank) return "";
  while (at && *at) {
    char name[32], how[32];
    int which;
    if (sscanf(at, "%31[^:]:%d=%31[^,]", name, &which, how) == 3 && which == n && what == name)
      return how;
    at = strchr(at, ',');
    if (at) at++;
  }
  return "";
}

static void log(const Comm &c, const char *event, const Call &call, const char *from,
                const char *to, cudaStream_t stream, bool captured) {
  static std::mutex &lock = *new std::mutex;
  static FILE *file;
  const char *prefix = getenv("NCCLSIM_LOG");
  if (!prefix) return;
  std::lock_guard<std::mutex> guard(lock);
  if (!file) file = fopen((std::string(prefix) + "." + std::to_string(c.rank)).c_str(), "a");
  if (!file) return;
  int priority = 0;
  if (!strcmp(event, "call"))
    cudaStreamGetPriority(stream, &priority); /* not from within work: it has the lock */
  fprintf(file,
          "{\"event\": \"%s\", \"op\": \"%s\", \"count\": %llu, \"type\": %u, \"root\": %u, "
          "\"window\": %d, \"offset\": %llu, "
          "\"in_place\": %s, \"stream\": \"%s\", \"priority\": %d, \"captured\": %s}\n",
          event, kind_name(call.kind), (unsigned long long)call.count, call.type, call.root,
          call.window, (unsigned long long)call.offset, from == to ? "true" : "false",
          cudasim::stream_name(stream), priority, captured ? "true" : "false");
  fflush(file);
}

/* ---------- opening and closing ---------- */
static Link map_segment(const char *name, int world, int rank) {
  Link c = std::make_shared<Comm>();
  c->rank = rank;
  c->world = world;
  c->name = name;
  c->bytes = sizeof(Segment) + (size_t)world * WINDOW;
  int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)c->bytes)) {
    if (fd >= 0) close(fd);
    return nullptr;
  }
  void *p = mmap(nullptr, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p == MAP_FAILED) return nullptr;
  c->segment = static_cast<Segment *>(p);
  return c;
}
static ncclResult_t fail(ncclResult_t e, const std::string &text) {
  global_error = text;
  fprintf(stderr, "ncclsim: %s\n", text.c_str());
  return e;
}
/* The name goes when all have come; a rank that gives up takes it along. */
static void unlink_if_complete(const Comm &c) {
  if (c.ready() && c.rank == 0) shm_unlink(c.name.c_str());
}

extern "C" {
ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static int number;
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/ncclsim.%d.%d.%lld%09ld", (int)getpid(), ++number,
           (long long)t.tv_sec, t.tv_nsec);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int world, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  if (world < 1 || world > (int)MAX_RANKS || rank < 0 || rank >= world)
    return fail(ncclInvalidArgument,
                "rank " + std::to_string(rank) + " of " + std::to_string(world));
  if (strncmp(id.internal, "/ncclsim.", 9)) return fail(ncclInvalidArgument, "not a unique id");
  std::string how = injected("init", rank), name = id.internal;
  if (how == "error") return fail(ncclSystemError, "init fails, as the test wants it");
  if (how == "wrong_id") name += ".other";
  Link c = map_segment(name.c_str(), world, rank);
  if (!c) return fail(ncclSystemError, name + ": " + strerror(errno));
  c->blocking = !config || config->blocking != 0;
  c->never = how == "forever";
  if (how == "async") c->fail(ncclSystemError, "init fails later, as the test wants it");
  int none = 0;
  if (!c->segment->world.compare_exchange_strong(none, world) && none != world)
    return fail(ncclInvalidArgument, "the ranks differ about their number");
  if (c->segment->taken[rank].exchange(1))
    return fail(ncclInvalidUsage, "two ranks have the same number");
  if (!c->never) c->segment->arrived++;
  *out = new ncclComm{c};
  if (!c->blocking) return ncclInProgress;
  while (!c->ready()) usleep(100);
  unlink_if_complete(*c);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t *out, int world, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(out, world, id, rank, nullptr);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error) {
  *error = (ncclResult_t)c->link->error.load();
  if (*error == ncclSuccess && !c->link->ready()) *error = ncclInProgress;
  unlink_if_complete(*c->link);
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) {
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t c) {
  if (!c->link->ready()) shm_unlink(c->link->name.c_str());
  delete c;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t c) {
  c->link->aborted = true;
  return ncclCommDestroy(c);
}
ncclResult_t ncclCommCount(const ncclComm_t c, int *count) {
  *count = c->link->world;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank) {
  *rank = c->link->rank;
  return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t result) {
  static const char *const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return (unsigned)result < 8 ? texts[result] : "unknown result code";
}
const char *ncclGetLastError(ncclComm_t c) {
  return c ? c->link->last_error.c_str() : global_error.c_str();
}

/* ---------- memory ---------- */
ncclResult_t ncclMemAlloc(void **out, size_t bytes) {
  return cudaMalloc(out, (bytes + 4095) / 4096 * 4096) ? ncclUnhandledCudaError : ncclSuccess;
}
ncclResult_t ncclMemFree(void *p) {
  return cudaFree(p) ? ncclUnhandledCudaError : ncclSuccess;
}
static bool on_device(const void *p, size_t bytes) {
  char *base;
  size_t all;
  return cudasim::allocation_of(p, &base, &all) && (size_t)((const char *)p - base) + bytes <= all;
}
ncclResult_t ncclCommRegister(const ncclComm_t c, void *p, size_t bytes, void **handle) {
  if (!on_device(p, bytes))
    return c->link->fail(ncclInvalidArgument, "register: not memory of the device");
  *handle = p;
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(const ncclComm_t, void *) {
  return ncclSuccess;
}
ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *p, size_t bytes, ncclWindow_t *out,
                                    int flags) {
  if (!on_device(p, bytes))
    return c->link->fail(ncclInvalidArgument, "window: not memory of the device");
  if (flags & NCCL_WIN_COLL_SYMMETRIC) c->link->windows.push_back({static_cast<char *>(p), bytes});
  *out = static_cast<ncclWindow_t>(p);
  return ncclSuccess;
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t c, ncclWindow_t w) {
  for (auto &window : c->link->windows)
    if (window.first == reinterpret_cast<char *>(w)) window.second = 0;
  return ncclSuccess;
}
}

/* ---------- collectives ---------- */
static void place(const Comm &c, const char *p, Call *call) {
  for (size_t i = 0; i < c.windows.size(); i++)
    if (p >= c.windows[i].first && p < c.windows[i].first + c.windows[i].second) {
      call->window = (int32_t)i;
      call->offset = (uint64_t)(p - c.windows[i].first);
    }
}

static ncclResult_t collective(ncclComm_t comm, Kind kind, const void *from, void *to, size_t count,
                               ncclDataType_t type, int root, cudaStream_t stream) {
  Comm &c = *comm->link;
  size_t w = width(type), out = kind == Kind::all_gather ? count * (size_t)c.world : count;
  bool captured = cudasim::capturing(stream);
  if (!c.ready()) return c.fail(ncclInvalidUsage, "a collective before the communicator is ready");
  if (!w || root < 0 || root >= c.world)
    return c.fail(ncclInvalidArgument, "type %d, root %d", type, root);
  if (((uintptr_t)from | (uintptr_t)to) % 16)
    return c.fail(ncclInvalidArgument, "%s: %p to %p is not aligned to 16 bytes", kind_name(kind),
                  from, to);
  if (count && (!on_device(from, count * w) || !on_device(to, out * w)))
    return c.fail(ncclInvalidArgument,
                  "%s: %p to %p, %zu elements: not all in memory of the device", kind_name(kind),
                  from, to, count);
  if (captured && !c.connected)
    return c.fail(ncclInvalidUsage,
                  "the first collective is captured: it connects ranks, which a graph cannot");
  std::string how = injected(kind_name(kind), c.rank);
  if (how == "error")
    return c.fail(ncclSystemError, "%s fails, as the test wants it", kind_name(kind));
  if (how == "async")
    c.fail(ncclRemoteError, "%s fails later, as the test wants it", kind_name(kind));
  if (how == "short" && count) count--;
  Call call = {0, count, 0, -1, kind, (uint32_t)type, (uint32_t)root};
  place(c, (const char *)to, &call);
  log(c, "call", call, (const char *)from, (const char *)to, stream, captured);
  c.connected |= !captured;
  auto work = std::make_shared<Collective>(
      Collective{comm->link, call, (const char *)from, (char *)to, how == "forever"});
  cudaError_t e = cudasim::enqueue(stream, kind_name(kind), [work, stream, captured](bool first) {
    if (first) log(*work->comm, "run", work->call, work->from, work->to, stream, captured);
    return work->advance(first);
  });
  return e ? ncclUnhandledCudaError : ncclSuccess;
}

extern "C" {
ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t stream) {
  if (op != ncclSum) /* others switch the fast ways off; the product scales beforehand */
    return c->link->fail(ncclInvalidUsage, "all_reduce: only sums");
  return collective(c, Kind::all_reduce, from, to, n, type, 0, stream);
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root,
                           ncclComm_t c, cudaStream_t stream) {
  return collective(c, Kind::broadcast, from, to, n, type, root, stream);
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t stream) {
  return collective(c, Kind::all_gather, from, to, n, type, 0, stream);
}
ncclResult_t ncclGroupStart(void) {
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
  return ncclSuccess;
}
}
