/* What the ranks of a communicator share: a segment of memory named by the unique id. Ranks meet in numbered steps;
   nobody waits inside a call, so that the emulator can go on with other work and a deadline can end it. */
#ifndef NCCLSIM_SEGMENT_H
#define NCCLSIM_SEGMENT_H
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>
#include "nccl.h"

namespace ncclsim {
enum : size_t { WINDOW = 1 << 20, MAX_RANKS = 64 };
enum class Kind : uint32_t { all_reduce, broadcast, all_gather };
struct Call {                     /* what ranks must agree on */
  uint64_t number, count, offset; /* offset: in symmetric memory */
  int32_t window;                 /* which one of it, in the order of registering; -1: none */
  Kind kind;
  uint32_t type, root;
};
struct alignas(64) Segment { /* then a window for each rank */
  std::atomic<int> world, arrived;
  std::atomic<uint32_t> taken[MAX_RANKS];
  std::atomic<uint64_t> step[MAX_RANKS]; /* how far each rank is */
  Call call[MAX_RANKS];
};
struct Comm {
  int rank = 0, world = 0;
  std::string name;
  Segment *segment = nullptr;
  size_t bytes = 0;
  bool blocking = true,
       connected = false; /* connected: a collective has run outside of any capture */
  bool never = false;     /* a test lets it never become ready */
  std::vector<std::pair<char *, size_t>> windows; /* symmetric memory */
  uint64_t calls = 0, turn = 0;                   /* turn: of exchanges of a window's worth */
  std::atomic<bool> aborted{false};
  std::atomic<int> error{ncclSuccess};
  std::string last_error;
  ~Comm();
  bool ready() const;
  char *window_of(int of) const {
    return reinterpret_cast<char *>(segment + 1) + (size_t)of * WINDOW;
  }
  /* All ranks have come to this step. */
  bool all_at(uint64_t step) const;
  /* The first error stays; it is printed, too. */
  ncclResult_t fail(ncclResult_t e, const char *format, ...) __attribute__((format(printf, 3, 4)));
};
using Link = std::shared_ptr<Comm>;

/* A collective that has been enqueued; `advance` as cudasim::Work. */
struct Collective {
  Link comm;
  Call call;
  const char *from;
  char *to;
  bool never;      /* a test lets it never end */
  uint64_t at = 0; /* elements that are through */
  bool written = false;
  bool advance(bool first);

private:
  bool agrees() const;
  void give(uint64_t n) const;
  void take(uint64_t n) const;
};
size_t width(ncclDataType_t type);
const char *kind_name(Kind kind);
} // namespace ncclsim
#endif
