/* Collectives, a window's worth at a time: each rank writes its own, and when all have, reads what it needs. Sums are
   taken in the order of ranks, in float: all ranks get the same bits. */
#include "segment.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <algorithm>
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace ncclsim {
size_t width(ncclDataType_t type) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return (unsigned)type < sizeof bytes / sizeof *bytes ? bytes[type] : 0;
}
const char *kind_name(Kind kind) {
  static const char *const names[] = {"all_reduce", "broadcast", "all_gather"};
  return names[(int)kind];
}

Comm::~Comm() {
  if (segment) munmap(segment, bytes);
}
bool Comm::ready() const {
  return !never && segment->arrived.load() >= world;
}
bool Comm::all_at(uint64_t step) const {
  for (int r = 0; r < world; r++)
    if (segment->step[r].load(std::memory_order_acquire) < step) return false;
  return true;
}
ncclResult_t Comm::fail(ncclResult_t e, const char *format, ...) {
  char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "ncclsim: rank %d: %s\n", rank, text);
  int none = ncclSuccess;
  if (error.compare_exchange_strong(none, e)) last_error = text;
  return e;
}

bool Collective::agrees() const {
  for (int r = 0; r < comm->world; r++) {
    const Call &o = comm->segment->call[r];
    if (o.kind == call.kind && o.count == call.count && o.type == call.type &&
        o.root == call.root && o.window == call.window && o.offset == call.offset)
      continue;
    comm->fail(ncclInvalidUsage,
               "call %llu is %s of %llu x type %u, root %u, offset %lld; rank %d calls %s of %llu "
               "x type %u, root "
               "%u, offset %lld",
               (unsigned long long)call.number, kind_name(call.kind),
               (unsigned long long)call.count, call.type, call.root, (long long)call.offset, r,
               kind_name(o.kind), (unsigned long long)o.count, o.type, o.root, (long long)o.offset);
    return false;
  }
  return true;
}

void Collective::give(uint64_t n) const {
  if (call.kind == Kind::broadcast && comm->rank != (int)call.root) return;
  size_t w = width((ncclDataType_t)call.type);
  memcpy(comm->window_of(comm->rank), from + at * w, n * w);
}

template <class T, class F>
static void add_up(const Comm &c, char *to, uint64_t n, const F &get_set) {
  for (uint64_t i = 0; i < n; i++) {
    auto sum = get_set.get(((const T *)c.window_of(0))[i]);
    for (int r = 1; r < c.world; r++) sum += get_set.get(((const T *)c.window_of(r))[i]);
    ((T *)to)[i] = get_set.set(sum);
  }
}
struct Same {
  template <class T> T get(T v) const { return v; }
  template <class T> T set(T v) const { return v; }
};
struct Bfloat {
  float get(__nv_bfloat16 v) const { return __bfloat162float(v); }
  __nv_bfloat16 set(float v) const { return __float2bfloat16_rn(v); }
};
struct Half {
  float get(__half v) const { return __half2float(v); }
  __half set(float v) const { return __float2half_rn(v); }
};
void Collective::take(uint64_t n) const {
  const Comm &c = *comm;
  size_t w = width((ncclDataType_t)call.type);
  char *out = to + at * w;
  switch (call.kind) {
  case Kind::broadcast:
    memcpy(out, c.window_of((int)call.root), n * w);
    return;
  case Kind::all_gather:
    for (int r = 0; r < c.world; r++)
      memcpy(out + (uint64_t)r * call.count * w, c.window_of(r), n * w);
    return;
  case Kind::all_reduce:
    break;
  }
  switch (call.type) {
  case ncclFloat32:
    add_up<float>(c, out, n, Same());
    return;
  case ncclFloat64:
    add_up<double>(c, out, n, Same());
    return;
  case ncclInt32:
    add_up<int32_t>(c, out, n, Same());
    return;
  case ncclInt64:
    add_up<int64_t>(c, out, n, Same());
    return;
  case ncclBfloat16:
    add_up<__nv_bfloat16>(c, out, n, Bfloat());
    return;
  case ncclFloat16:
    add_up<__half>(c, out, n, Half());
    return;
  }
}

/* A graph begins it anew. Turn t: all have read turn t - 1 (step 2t), all have written (2t + 1). */
bool Collective::advance(bool first) {
  Comm &c = *comm;
  if (first) {
    at = 0;
    written = false;
    call.number = ++c.calls;
  }
  if (c.aborted) return true; /* what is enqueued is given up */
  if (never || c.error != ncclSuccess) return false;
  uint64_t most = WINDOW / width((ncclDataType_t)call.type);
  for (;;) {
    uint64_t n = std::min(call.count - at, most);
    if (!written) {
      if (!c.all_at(2 * c.turn)) return false;
      c.segment->call[c.rank] = call;
      give(n);
      c.segment->step[c.rank].store(2 * c.turn + 1, std::memory_order_release);
      written = true;
    }
    if (!c.all_at(2 * c.turn + 1)) return false;
    if (at == 0 && !agrees()) return false;
    take(n);
    c.segment->step[c.rank].store(2 * ++c.turn, std::memory_order_release);
    written = false;
    at += n;
    if (at >= call.count) return true;
  }
}
} // namespace ncclsim
