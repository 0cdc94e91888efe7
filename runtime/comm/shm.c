/* Backend for the ranks of one host. In: gradient ranges that lie in shared memory themselves.
   Out: their sums, without a copy: when all ranks have arrived, rank r adds up its 1/W part of all
   ranks' ranges in the order of ranks and writes it to all of them.
   Holds: same bits on all ranks and in all runs; a rank waits only for counters of other ranks,
   each on its own cache line, about 2000 pauses spinning and then asleep until the deadline. */
#include "comm.h"
#include "clock.h"
#include "shm_segment.h"
#include "sum.h"
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>

enum { SPIN = 2000, STAGE = 256 << 10, LINE = 128, MAX_ARENAS = 16 };
static const double nap = 0.05; /* longest sleep before looking for an abort */

typedef struct Counter { /* only its rank counts up */
  _Alignas(LINE) atomic_uint value;
  atomic_uint sleepers;
} Counter;

typedef enum Count { POSTED, REDUCED, STAGED, COUNTS } Count;

typedef struct Lane { /* of one rank */
  Counter counts[COUNTS];
} Lane;

typedef struct Arena { /* row r of the segment belongs to rank r */
  char *base;
  size_t stride, bytes;
} Arena;

typedef enum WorkKind { WORK_ALL_REDUCE, WORK_BROADCAST } WorkKind;
typedef enum WorkPhase { WORK_POSTED, WORK_REDUCED, WORK_DONE } WorkPhase;

typedef struct Work {
  struct DdpComm *comm;
  WorkKind kind;
  WorkPhase phase;
  const Arena *arena;
  size_t offset;
  int64_t n; /* floats; broadcast: bytes */
  DdpDType wire;
  int root;
  unsigned number; /* value of the counters when it is over */
  const char *what;
  struct Work *next;
} Work;

struct DdpComm {
  int rank, world, spin;
  double timeout;
  bool (*patience)(void *, int);
  void *patience_self;
  DdpShmLinks links;
  Lane *lanes;
  char *stage; /* [world][2][STAGE] */
  size_t shared_bytes;
  Arena arenas[MAX_ARENAS];
  unsigned works, staged; /* how many so far */
  Work *head;             /* in flight, oldest first */
  Work *idle;             /* finished ones, used again */
  float **rows;           /* [world] scratch */
  atomic_bool aborted;
};

/* ---------- counters ---------- */

static void pause_cpu(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static bool reached(const Counter *k, unsigned value) {
  return (int)(atomic_load_explicit(&k->value, memory_order_acquire) - value) >= 0;
}

static void count_to(DdpComm *c, Count which, unsigned value) {
  Counter *k = &c->lanes[c->rank].counts[which];
  atomic_store(&k->value,
               value); /* sequentially consistent: the sleeper either sees it or is seen */
  if (atomic_load(&k->sleepers)) syscall(SYS_futex, &k->value, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_until_changed(Counter *k, unsigned value) {
  atomic_fetch_add(&k->sleepers, 1);
  unsigned now = atomic_load(&k->value);
  if ((int)(now - value) < 0) {
    struct timespec t = {.tv_nsec = (long)(nap * 1e9)};
    syscall(SYS_futex, &k->value, FUTEX_WAIT, now, &t, NULL, 0);
  }
  atomic_fetch_sub(&k->sleepers, 1);
}

static DdpError *await_rank(DdpComm *c, int rank, Count which, unsigned value, const char *what) {
  Counter *k = &c->lanes[rank].counts[which];
  for (int i = 0; i < c->spin; i++) {
    if (reached(k, value)) return NULL;
    pause_cpu();
  }
  double last = ddp_clock(), deadline = last + c->timeout;
  while (!reached(k, value)) {
    if (atomic_load(&c->aborted)) return ddp_error(DDP_PEER, "%s was given up", what);
    deadline += ddp_clock_paused(&last);
    if (ddp_clock() >= deadline) {
      if (!c->patience || !c->patience(c->patience_self, rank))
        return ddp_error_rank(DDP_TIMEOUT, rank, "%s", what);
      deadline = ddp_clock() + c->timeout;
    }
    sleep_until_changed(k, value);
  }
  return NULL;
}

static DdpError *await_all(DdpComm *c, Count which, unsigned value, const char *what) {
  for (int r = 0; r < c->world; r++) {
    if (r != c->rank) DDP_TRY(await_rank(c, r, which, value, what));
  }
  return NULL;
}

static bool all_reached(const DdpComm *c, Count which, unsigned value) {
  for (int r = 0; r < c->world; r++) {
    if (!reached(&c->lanes[r].counts[which], value)) return false;
  }
  return true;
}

/* ---------- work in flight ---------- */

static void do_part(DdpComm *c, Work *w) {
  if (w->kind == WORK_BROADCAST) {
    char *row = w->arena->base + w->offset;
    if (c->rank != w->root)
      memcpy(row + (size_t)c->rank * w->arena->stride, row + (size_t)w->root * w->arena->stride,
             (size_t)w->n);
  } else {
    for (int r = 0; r < c->world; r++)
      c->rows[r] = (float *)(void *)(w->arena->base + (size_t)r * w->arena->stride + w->offset);
    int64_t part = ((w->n + c->world - 1) / c->world + 15) / 16 * 16; /* whole cache lines */
    int64_t begin = part * c->rank, end = begin + part;
    ddp_sum_rows(c->rows, c->world, begin, end < w->n ? end : w->n, w->wire);
  }
  w->phase = WORK_REDUCED;
  count_to(c, REDUCED, w->number);
}

static DdpError *advance(DdpComm *c) {
  if (atomic_load_explicit(&c->aborted, memory_order_relaxed))
    return ddp_error(DDP_PEER, "%s was given up", c->head ? c->head->what : "communication");
  for (Work *w = c->head; w; w = w->next) {
    if (w->phase == WORK_POSTED) {
      if (!all_reached(c, POSTED, w->number)) break;
      do_part(c, w);
    }
    if (w->phase == WORK_REDUCED && all_reached(c, REDUCED, w->number)) w->phase = WORK_DONE;
  }
  return NULL;
}

static Arena *arena_of(DdpComm *c, const void *data, size_t bytes, size_t *offset) {
  for (int i = 0; i < MAX_ARENAS; i++) {
    Arena *a = &c->arenas[i];
    if (!a->base) continue;
    const char *mine = a->base + a->stride * (size_t)c->rank;
    if ((const char *)data < mine || (const char *)data + bytes > mine + a->bytes) continue;
    *offset = (size_t)((const char *)data - mine);
    return a;
  }
  return NULL;
}

static DdpError *enqueue(DdpComm *c, const Work *model, DdpWork **out) {
  Work *w = c->idle;
  if (w)
    c->idle = w->next;
  else if (!(w = malloc(sizeof *w)))
    return ddp_error(DDP_MEMORY, "%s: no memory", model->what);
  *w = *model;
  w->comm = c;
  w->number = ++c->works;
  Work **end = &c->head;
  while (*end) end = &(*end)->next;
  *end = w;
  *out = (DdpWork *)w;
  count_to(c, POSTED, w->number);
  return advance(c);
}

static DdpError *shm_all_reduce(DdpComm *c, void *data, int64_t n, DdpDType wire, const char *what,
                                void *stream, DdpWork **out) {
  (void)stream;
  *out = NULL;
  Work w = {.kind = WORK_ALL_REDUCE, .n = n, .wire = wire, .what = what};
  w.arena = arena_of(c, data, (size_t)n * sizeof(float), &w.offset);
  if (!w.arena) return ddp_error(DDP_FAILED, "%s: not in shared memory (internal fault)", what);
  return enqueue(c, &w, out);
}

static DdpError *shm_poll(DdpWork *work, bool *done) {
  Work *w = (Work *)work;
  *done = true;
  if (!w) return NULL;
  DdpError *e = advance(w->comm);
  *done = w->phase == WORK_DONE;
  return e;
}

static void forget(DdpComm *c, Work *w) {
  Work **p = &c->head;
  while (*p != w) p = &(*p)->next;
  *p = w->next;
  w->next = c->idle;
  c->idle = w;
}

static DdpError *finish(DdpComm *c, Work *last) {
  DDP_TRY(advance(c));
  if (last->phase == WORK_DONE) return NULL;
  for (Work *w = c->head; last->phase == WORK_POSTED; w = w->next) {
    if (w->phase != WORK_POSTED) continue;
    DDP_TRY(await_all(c, POSTED, w->number, w->what));
    do_part(c, w);
  }
  /* My parts of what has begun since come before the wait: others may wait for them. */
  DDP_TRY(advance(c));
  if (last->phase == WORK_REDUCED) DDP_TRY(await_all(c, REDUCED, last->number, last->what));
  last->phase = WORK_DONE;
  return NULL;
}

static DdpError *shm_wait(DdpWork *work) {
  Work *w = (Work *)work;
  if (!w) return NULL;
  DdpError *e = finish(w->comm, w);
  forget(w->comm, w);
  return e;
}

/* ---------- blocking, from any memory ---------- */

/* Two halves in turn: a rank that writes half h again has seen everybody enter the operation after
   the one that read it, so one wait per piece is enough. */
static char *stage_of(const DdpComm *c, int rank) {
  return c->stage + ((size_t)rank * 2 + (c->staged & 1)) * STAGE;
}

static DdpError *turn(DdpComm *c, const char *what) {
  count_to(c, STAGED, c->staged);
  return await_all(c, STAGED, c->staged, what);
}

static DdpError *shm_barrier(DdpComm *c, const char *what) {
  c->staged++;
  return turn(c, what);
}

static DdpError *shm_broadcast(DdpComm *c, void *data, int64_t bytes, int root, const char *what,
                               void *stream, DdpWork **out) {
  (void)stream;
  *out = NULL;
  Work w = {.kind = WORK_BROADCAST, .n = bytes, .root = root, .what = what};
  w.arena = arena_of(c, data, (size_t)bytes, &w.offset);
  if (w.arena) return enqueue(c, &w, out);
  for (int64_t at = 0; at < bytes; at += STAGE) {
    size_t n = (size_t)(bytes - at < STAGE ? bytes - at : STAGE);
    c->staged++;
    if (c->rank == root) memcpy(stage_of(c, root), (char *)data + at, n);
    DDP_TRY(turn(c, what));
    if (c->rank != root) memcpy((char *)data + at, stage_of(c, root), n);
  }
  return NULL;
}

static DdpError *shm_all_gather(DdpComm *c, const void *mine, void *all, int64_t bytes,
                                const char *what, void *stream, DdpWork **out) {
  (void)stream;
  *out = NULL;
  for (int64_t at = 0; at < bytes; at += STAGE) {
    size_t n = (size_t)(bytes - at < STAGE ? bytes - at : STAGE);
    c->staged++;
    memcpy(stage_of(c, c->rank), (const char *)mine + at, n);
    DDP_TRY(turn(c, what));
    for (int r = 0; r < c->world; r++)
      memcpy((char *)all + (int64_t)r * bytes + at, stage_of(c, r), n);
  }
  return NULL;
}

/* ---------- life ---------- */

static bool shm_probe(const char **why) {
  *why = ddp_shm_missing();
  return !*why;
}

static void shm_close(DdpComm *c) {
  if (!c) return;
  while (c->head) forget(c, c->head);
  while (c->idle) {
    Work *w = c->idle;
    c->idle = w->next;
    free(w);
  }
  for (int i = 0; i < MAX_ARENAS; i++) {
    if (c->arenas[i].base) munmap(c->arenas[i].base, c->arenas[i].stride * (size_t)c->world);
  }
  if (c->lanes) munmap(c->lanes, c->shared_bytes);
  ddp_shm_disconnect(&c->links);
  free(c->rows);
  free(c);
}

static DdpError *shm_open_comm(DdpComm **out, const DdpCommOptions *o) {
  DdpComm *c = calloc(1, sizeof *c);
  if (!c) return ddp_error(DDP_MEMORY, "no memory for shared memory");
  c->rank = o->rank;
  c->world = o->world;
  c->timeout = o->timeout;
  c->patience = o->patience;
  c->patience_self = o->patience_self;
  /* More ranks than CPUs: the one we wait for needs this CPU. */
  c->spin = sysconf(_SC_NPROCESSORS_ONLN) >= o->world ? SPIN : 1;
  c->rows = calloc((size_t)c->world, sizeof *c->rows);
  size_t lanes = (size_t)c->world * sizeof(Lane);
  c->shared_bytes = lanes + (size_t)c->world * 2 * STAGE;
  void *shared = NULL;
  DdpError *e = c->rows ? ddp_shm_connect(&c->links, o) : ddp_error(DDP_MEMORY, "no memory");
  if (!e) e = ddp_shm_map(&c->links, c->shared_bytes, &shared);
  if (!e) {
    c->lanes = shared;
    c->stage = (char *)shared + lanes;
    e = shm_barrier(c, "opening shared memory");
  }
  if (e)
    shm_close(c);
  else
    *out = c;
  return e;
}

static DdpError *shm_alloc(DdpComm *c, size_t bytes, void **out) {
  Arena *a = c->arenas;
  while (a < c->arenas + MAX_ARENAS && a->base) a++;
  if (a == c->arenas + MAX_ARENAS) return ddp_error(DDP_FAILED, "too many shared arenas");
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t stride = (bytes + page - 1) / page * page;
  if (!stride) stride = page;
  void *base;
  DDP_TRY(ddp_shm_map(&c->links, stride * (size_t)c->world, &base));
  *a = (Arena){.base = base, .stride = stride, .bytes = bytes};
  *out = a->base + stride * (size_t)c->rank;
  memset(*out, 0, stride); /* first touch: the pages lie near this rank */
  DdpError *e = shm_barrier(c, "sharing memory");
#ifdef MADV_POPULATE_WRITE
  /* Map the other ranks' pages now, not in the middle of the first update. Only a favour. */
  if (!e) madvise(a->base, stride * (size_t)c->world, MADV_POPULATE_WRITE);
#endif
  return e;
}

static void shm_free(DdpComm *c, void *p) {
  for (int i = 0; i < MAX_ARENAS; i++) {
    Arena *a = &c->arenas[i];
    if (!a->base || p != a->base + a->stride * (size_t)c->rank) continue;
    munmap(a->base, a->stride * (size_t)c->world);
    *a = (Arena){0};
  }
}

static DdpError *shm_async_error(DdpComm *c) {
  return atomic_load(&c->aborted) ? ddp_error(DDP_PEER, "communication was given up") : NULL;
}

static void shm_abort(DdpComm *c) {
  atomic_store(&c->aborted, true);
}

const DdpBackend ddp_backend_shm = {
    .name = "shm",
    .caps = DDP_CAP_IN_PLACE_ALLOC | DDP_CAP_INLINE,
    .probe = shm_probe,
    .open = shm_open_comm,
    .alloc = shm_alloc,
    .free = shm_free,
    .all_reduce = shm_all_reduce,
    .broadcast = shm_broadcast,
    .all_gather = shm_all_gather,
    .barrier = shm_barrier,
    .poll = shm_poll,
    .wait = shm_wait,
    .async_error = shm_async_error,
    .abort = shm_abort,
    .close = shm_close,
};
