/* The threads of a block as fibers. A thread runs until it waits or returns; then the next one that can run goes on,
   on the same stack if the one before has returned. Who waits where others do not come is a deadlock on a GPU (or
   worse) and the end of the run here. */
#include "fiber.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <algorithm>
#include <map>

/* Static shared memory of all kernels of the program. */
extern "C" {
extern unsigned char __start_cudasim_shared[] __attribute__((weak));
extern unsigned char __stop_cudasim_shared[] __attribute__((weak));
}

namespace cudasim {
enum class State : uint8_t { fresh, ready, at_block, at_warp, done };
struct Copy {
  void *to;
  const void *from;
  size_t bytes;
  unsigned group;
};
struct Thread : Here {
  State state;
  Fiber *fiber;
  const char *file, *what; /* where it waits */
  int line;
  unsigned groups;   /* of asynchronous copies that it has committed */
  unsigned n_copies; /* begun and not waited for */
  Copy *copies;
};
enum { MAX_COPIES = 64 }; /* of a thread at a time */
struct Warp {
  uint64_t values[2][32]; /* of this collective, and of the one before for who has not looked yet */
  unsigned phase, arrived, size;
  const char *what, *file;
  int line;
};
struct Block {
  unsigned size, done, waiting;
  const char *file; /* of the barrier at which threads wait */
  int line;
  unsigned counted, count; /* of a vote: so far, of the last one */
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::vector<Copy> copies;
  Ring<Thread *, 1024> queue;
  const std::function<void()> *body;
};
struct Stat {
  uint64_t launches, enqueued, threads, switches;
  double seconds;
};

Here *cur;
dim3 grid_dim, block_dim;
uint3 block_idx;
unsigned char *dyn_smem;
static Block &b = *new Block;
static const char *kernel = "(host)";
static uint64_t switches;

const char *running_kernel() {
  return kernel;
}

void die(const char *format, ...) {
  va_list args;
  va_start(args, format);
  fflush(stdout);
  fprintf(stderr, "cudasim: kernel %s, block (%u,%u,%u): ", kernel, block_idx.x, block_idx.y,
          block_idx.z);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  _exit(66);
}

/* ---------- who runs next ---------- */
static void deadlock() {
  const Thread *first = nullptr;
  unsigned n_block = 0, n_warp = 0;
  for (const Thread &t : b.threads) {
    n_block += t.state == State::at_block;
    n_warp += t.state == State::at_warp;
    if (!first && (t.state == State::at_block || t.state == State::at_warp)) first = &t;
  }
  die("deadlock: thread %u waits in %s at %s:%d; of %u threads %u have returned, %u wait at a "
      "barrier of "
      "the block, %u at a collective of a warp",
      first->linear, first->what, first->file, first->line, b.size, b.done, n_block, n_warp);
}

static void go_to(Fiber *f) {
  switches++;
  fiber_switch(f);
}

/* The thread that ran here waits or has returned: the next one goes on. Comes back when the thread of this stack
   can go on; or, where that has returned, with a new one in running->on. */
static void next() {
  Fiber *me = running;
  bool mine_is_done = me != &host && me->on->state == State::done;
  if (b.queue.empty()) {
    if (b.done != b.size) deadlock();
    if (mine_is_done) fiber_put(me);
    go_to(&host);
    return;
  }
  Thread *t = b.queue.pop_oldest();
  if (t->state == State::fresh) {
#ifndef CUDASIM_TSAN /* which sees threads on one stack as one, and what they do as ordered */
    if (mine_is_done) {
      me->on = t;
      t->fiber = me;
      return;
    }
#endif
    t->fiber = fiber_take();
    t->fiber->on = t;
  }
  t->state = State::ready;
  cur = t;
  if (mine_is_done) fiber_put(me);
  if (t->fiber != me) go_to(t->fiber);
}

void fiber_main() {
  for (;;) {
    Thread *t = running->on;
    cur = t;
    t->state = State::ready;
    acquire(&b.body);
    (*b.body)();
    if (t->n_copies)
      die("thread %u returned without waiting for its asynchronous copies", t->linear);
    release(&b.done);
    t->state = State::done;
    b.done++;
    next();
  }
}

/* ---------- barriers and collectives ---------- */
static void wait_here(State state, const char *what, const char *file, int line) {
  Thread *t = static_cast<Thread *>(cur);
  t->state = state;
  t->what = what;
  t->file = file;
  t->line = line;
  next();
}

static void wake(Thread *t) {
  t->state = State::ready;
  b.queue.push(t);
}

void block_barrier(const char *file, int line) {
  if (!b.waiting) {
    b.file = file;
    b.line = line;
  } else if (line != b.line || strcmp(file, b.file)) {
    die("divergent barrier: thread %u arrives at %s:%d while others wait at %s:%d", cur->linear,
        file, line, b.file, b.line);
  }
  release(&b.waiting);
  if (++b.waiting == b.size) {
    b.waiting = 0;
    b.count = b.counted;
    b.counted = 0;
    for (Thread &t : b.threads)
      if (t.state == State::at_block) wake(&t);
  } else {
    wait_here(State::at_block, "__syncthreads", file, line);
  }
  acquire(&b.waiting);
}

int block_count(bool predicate, const char *file, int line) {
  b.counted += predicate;
  block_barrier(file, line);
  int n = (int)b.count;
  block_barrier(file, line); /* all have read it */
  return n;
}

const uint64_t *warp_gather(uint32_t mask, uint64_t value, const char *what, const char *file,
                            int line) {
  Warp &w = b.warps[cur->warp];
  uint32_t all = w.size == 32 ? 0xffffffffu : (1u << w.size) - 1;
  if (mask != 0xffffffffu && mask != all)
    die("%s at %s:%d: mask %08x is not the whole warp", what, file, line, mask);
  if (!w.arrived) {
    w.what = what;
    w.file = file;
    w.line = line;
  } else if (line != w.line || strcmp(file, w.file) || strcmp(what, w.what)) {
    die("divergent collective of a warp: thread %u at %s (%s:%d), others at %s (%s:%d)",
        cur->linear, what, file, line, w.what, w.file, w.line);
  }
  uint64_t *values = w.values[w.phase];
  values[cur->lane] = value;
  release(&w);
  if (++w.arrived == w.size) {
    w.arrived = 0;
    w.phase ^= 1;
    Thread *first = &b.threads[cur->warp * 32];
    for (Thread *t = first; t < first + w.size; t++)
      if (t->state == State::at_warp) wake(t);
  } else {
    wait_here(State::at_warp, what, file, line);
  }
  acquire(&w);
  return values;
}

/* ---------- asynchronous copies ---------- */
void copy_begin(void *to, const void *from, size_t bytes) {
  Thread *t = static_cast<Thread *>(cur);
  if (t->n_copies == MAX_COPIES)
    die("thread %u has begun more than %d copies", t->linear, MAX_COPIES);
  t->copies[t->n_copies++] = {to, from, bytes, t->groups};
}
void copy_commit() {
  static_cast<Thread *>(cur)->groups++;
}
void copy_wait(unsigned but_the_last) {
  Thread *t = static_cast<Thread *>(cur);
  unsigned kept = 0;
  for (unsigned i = 0; i < t->n_copies; i++) {
    Copy &c = t->copies[i];
    if (c.group + but_the_last >= t->groups)
      t->copies[kept++] = c;
    else
      memcpy(c.to, c.from, c.bytes);
  }
  t->n_copies = kept;
}

/* ---------- blocks of a grid ---------- */
static void print_stats();
static std::map<std::string, Stat> &stats() {
  static auto &all = *new std::map<std::string, Stat>;
  if (all.empty()) atexit(print_stats);
  return all;
}
static void print_stats() {
  for (auto &[name, s] : stats())
    fprintf(
        stderr,
        "cudasim: %-32s %8llu launches %8llu enqueued %12llu threads %12llu switches %10.3f ms\n",
        name.c_str(), (unsigned long long)s.launches, (unsigned long long)s.enqueued,
        (unsigned long long)s.threads, (unsigned long long)s.switches, s.seconds * 1e3);
}
void count_enqueued(const char *name) {
  if (knobs().stats) stats()[name].enqueued++;
}

/* Byte by byte, since red zones of the sanitizer lie in between. */
__attribute__((no_sanitize("address", "thread"))) static void poison_shared(size_t dynamic) {
  volatile unsigned char *end = __stop_cudasim_shared;
  for (volatile unsigned char *p = __start_cudasim_shared; p < end; p++) *p = 0xff;
  if (dynamic) memset(dyn_smem, 0xff, dynamic);
}

static void prepare(const Grid &g) {
  b.size = g.block.x * g.block.y * g.block.z;
  b.body = &g.thread;
  b.threads.resize(b.size);
  b.warps.resize((b.size + 31) / 32);
  b.copies.resize(b.size * MAX_COPIES);
  for (unsigned i = 0; i < b.size; i++) {
    Thread &t = b.threads[i];
    t.linear = i;
    t.lane = i & 31;
    t.warp = i >> 5;
    t.copies = &b.copies[i * MAX_COPIES];
    t.tid = {i % g.block.x, i / g.block.x % g.block.y, i / g.block.x / g.block.y};
  }
  for (unsigned i = 0; i < b.warps.size(); i++) b.warps[i].size = std::min(32u, b.size - i * 32);
  grid_dim = g.grid;
  block_dim = g.block;
  /* no byte more than asked for, so that the address sanitizer sees both ends */
  if (g.shared_bytes && posix_memalign((void **)&dyn_smem, 128, g.shared_bytes)) die("no memory");
}

static void run_block(const Grid &g, uint64_t number, std::vector<unsigned> &order) {
  block_idx = {(unsigned)(number % g.grid.x), (unsigned)(number / g.grid.x % g.grid.y),
               (unsigned)(number / g.grid.x / g.grid.y)};
  poison_shared(g.shared_bytes);
  b.done = b.waiting = b.counted = 0;
  for (Thread &t : b.threads) {
    t.state = State::fresh;
    t.fiber = nullptr;
    t.groups = 0;
    t.n_copies = 0;
  }
  for (Warp &w : b.warps) w.arrived = w.phase = 0;
  if (knobs().order == Order::shuffle)
    for (unsigned i = b.size; i > 1; i--)
      std::swap(order[i - 1], order[knobs().order_random.below(i)]);
  for (unsigned i : order) b.queue.push(&b.threads[i]);
  release(&b.body);
  next(); /* until all have returned */
  acquire(&b.done);
}

void run_grid(const Grid &g) {
  double begin = now();
  uint64_t switches_before = switches;
  kernel = g.name;
  prepare(g);
  uint64_t n = (uint64_t)g.grid.x * g.grid.y * g.grid.z;
  Order o = knobs().order;
  std::vector<unsigned> threads(b.size), blocks(o == Order::shuffle ? n : 0);
  for (unsigned i = 0; i < b.size; i++) threads[i] = o == Order::reverse ? b.size - 1 - i : i;
  for (unsigned i = 0; i < blocks.size(); i++) blocks[i] = i;
  for (size_t i = blocks.size(); i > 1; i--)
    std::swap(blocks[i - 1], blocks[knobs().order_random.below((uint32_t)i)]);
  for (uint64_t k = 0; k < n; k++)
    run_block(g, o == Order::forward ? k : o == Order::reverse ? n - 1 - k : blocks[k], threads);
  free(dyn_smem);
  dyn_smem = nullptr;
  cur = nullptr;
  check_edges();
  kernel = "(host)";
  block_idx = {0, 0, 0};
  if (!knobs().stats) return;
  Stat &s = stats()[g.name];
  s.launches++;
  s.threads += n * b.size;
  s.switches += switches - switches_before;
  s.seconds += now() - begin;
}
} // namespace cudasim
