/* A device with memory of its own, for programs that were compiled for the CPU; linked into them by the test with
   DDPC_CC, in front of ddp_main. Its memory is closed to the host except while a copy or a "kernel" (a function of
   the program) runs, so that every other access ends the run; streams are queues whose order is chosen by
   APART_STREAMS: lazy, everything as late as possible; urgent, copies as soon as possible and all else late; eager.
   Holds: the bits of the program on the CPU. */
#include "ddp/job.h"
#include "device.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Of the runtime: sums in the order of the CPU. */
float ddp_norm(const float *x, int64_t n);
float ddp_norm_coefficient(float norm, double max_norm);

/* ---------- memory ---------- */

static const size_t whole = (size_t)4 << 30;
static char *memory;
static size_t taken;
static bool is_open;

static void fail(const char *what) {
  fprintf(stderr, "apart: %s\n", what);
  _Exit(70);
}

static void open_memory(bool open) {
  is_open = open;
  if (mprotect(memory, whole, open ? PROT_READ | PROT_WRITE : PROT_NONE)) fail("mprotect");
}

static bool is_apart(const void *p) {
  return (const char *)p >= memory && (const char *)p < memory + whole;
}

static DdpError *apart_open(const DdpJob *job, int local_rank, int local_world) {
  (void)job;
  (void)local_rank;
  (void)local_world;
  memory = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? ddp_error(DDP_MEMORY, "no memory for the device") : NULL;
}

static void apart_close(void) {
  munmap(memory, whole);
}

static const char *apart_describe(void) {
  return "memory apart";
}

static DdpError *apart_alloc(DdpMemoryKind kind, size_t bytes, void **out) {
  size_t n = (bytes + 255) / 256 * 256;
  if (taken + n > whole) return ddp_error(DDP_MEMORY, "the device is full");
  *out = memory + taken;
  taken += n;
  ddp_memory_count(kind, (int64_t)bytes);
  return NULL;
}

static void apart_free(DdpMemoryKind kind, void *p, size_t bytes) {
  if (p) ddp_memory_count(kind, -(int64_t)bytes);
}

/* ---------- streams ---------- */

typedef struct Op {
  void (*run)(struct Op *op);
  struct Op *next;
  void *to;
  const void *from;
  size_t bytes;
  int stream; /* of what is waited for, and how many of its operations */
  int64_t count;
  DdpStep step;
  void (*pass)(DdpStep *step);
  DdpSegment segment;
  int number;
  double by;
} Op;

typedef struct Queue {
  Op *first, **end;
  int64_t added, done;
} Queue;
static Queue queues[DDP_STREAMS];

static void run_to(int stream, int64_t count) {
  Queue *q = &queues[stream];
  while (q->done < count) {
    Op *op = q->first;
    q->first = op->next;
    if (!q->first) q->end = &q->first;
    q->done++; /* before: it may wait for another one that waits for what came before it */
    op->run(op);
    free(op);
  }
}

static int number_of(const void *stream) {
  for (int i = 0; i < DDP_STREAMS; i++)
    if (stream == &queues[i]) return i;
  fail("not a stream");
  return 0;
}

static void add(void *stream, Op op) {
  int number = number_of(stream);
  Queue *q = &queues[number];
  const char *mode = getenv("APART_STREAMS");
  Op *own = malloc(sizeof *own);
  if (!own) fail("out of memory");
  *own = op;
  own->next = NULL;
  if (!q->end) q->end = &q->first;
  *q->end = own;
  q->end = &own->next;
  q->added++;
  bool now =
      !mode || !strcmp(mode, "eager") || (!strcmp(mode, "urgent") && number != DDP_STREAM_compute);
  if (now) run_to(number, q->added);
}

static void *apart_stream(DdpStream which) {
  return &queues[which];
}

/* A trace looks at the clock inside of what is one operation here. */
static DdpError *apart_synchronise(void *stream) {
  int number = number_of(stream);
  if (is_open) return NULL;
  run_to(number, queues[number].added);
  return NULL;
}

static DdpError *apart_poll(void *stream, bool *done) {
  *done = true;
  return apart_synchronise(stream);
}

static void run_wait(Op *op) {
  run_to(op->stream, op->count);
}

static DdpError *apart_order(void *first, void *later) {
  int number = number_of(first);
  add(later, (Op){.run = run_wait, .stream = number, .count = queues[number].added});
  return NULL;
}

/* ---------- copies ---------- */

static void run_copy(Op *op) {
  open_memory(true);
  memcpy(op->to, op->from, op->bytes);
  open_memory(false);
}

static void run_clear(Op *op) {
  open_memory(true);
  memset(op->to, 0, op->bytes);
  open_memory(false);
}

/* Memory of host_alloc, which the run may write again only after it has waited. */
static struct Pinned {
  const char *at;
  size_t bytes;
} pinned[64];
static int n_pinned;

static bool is_pinned(const void *p) {
  for (int i = 0; i < n_pinned; i++)
    if ((const char *)p >= pinned[i].at && (const char *)p < pinned[i].at + pinned[i].bytes)
      return true;
  return false;
}

static DdpError *apart_host_alloc(DdpMemoryKind kind, size_t bytes, void **out) {
  DDP_TRY(ddp_memory_alloc(kind, bytes, out));
  if (n_pinned == 64) fail("too much pinned memory");
  pinned[n_pinned++] = (struct Pinned){*out, bytes};
  return NULL;
}

static DdpError *copy(void *to, const void *from, size_t bytes, void *stream, bool to_apart,
                      bool from_apart) {
  if (bytes && (is_apart(to) != to_apart || is_apart(from) != from_apart))
    fail("a copy with the wrong memory");
  if (bytes) add(stream, (Op){.run = run_copy, .to = to, .from = from, .bytes = bytes});
  bool waits = (!to_apart && !is_pinned(to)) || (!from_apart && !is_pinned(from));
  return waits ? apart_synchronise(stream) : NULL;
}

static DdpError *apart_to_device(void *to, const void *from, size_t bytes, void *stream) {
  return copy(to, from, bytes, stream, true, false);
}

static DdpError *apart_to_host(void *to, const void *from, size_t bytes, void *stream) {
  return copy(to, from, bytes, stream, false, true);
}

static DdpError *apart_copy(void *to, const void *from, size_t bytes, void *stream) {
  return copy(to, from, bytes, stream, true, true);
}

static DdpError *apart_clear(void *p, size_t bytes, void *stream) {
  if (bytes && !is_apart(p)) fail("the host's memory is cleared");
  if (bytes) add(stream, (Op){.run = run_clear, .to = p, .bytes = bytes});
  return NULL;
}

/* APART_MIB: how much it has. */
static DdpError *apart_room(int64_t *left, int64_t *all) {
  const char *mib = getenv("APART_MIB");
  *all = mib ? (int64_t)(atof(mib) * 1048576) : (int64_t)whole;
  *left = *all - (int64_t)taken;
  return NULL;
}

static DdpError *apart_failure(void) {
  return NULL;
}

static const DdpDevice apart = {.name = "apart",
                                .apart = true,
                                .open = apart_open,
                                .close = apart_close,
                                .describe = apart_describe,
                                .stream = apart_stream,
                                .alloc = apart_alloc,
                                .free = apart_free,
                                .host_alloc = apart_host_alloc,
                                .host_free = ddp_memory_free,
                                .to_device = apart_to_device,
                                .to_host = apart_to_host,
                                .copy = apart_copy,
                                .clear = apart_clear,
                                .order = apart_order,
                                .synchronise = apart_synchronise,
                                .poll = apart_poll,
                                .failure = apart_failure,
                                .room = apart_room};

/* ---------- the program's functions ---------- */

static DdpJob job;
static const DdpJob *cpu;

/* The CPU's function takes from the step what a kernel reads in the device's memory. */
static void take_scalars(DdpStep *step) {
  const DdpScalars *s = step->scalars;
  step->counts = s->counts;
  step->share = s->share;
  step->loss_scale = s->loss_scale;
  step->seed = s->seed;
  step->update = s->update;
  step->epoch = s->epoch;
}

static void run_pass(Op *op) {
  open_memory(true);
  take_scalars(&op->step);
  op->pass(&op->step);
  open_memory(false);
}

static void forward_backward(DdpStep *step) {
  if (getenv("APART_TOUCH")) *(volatile float *)step->params = 1; /* a test of the device */
  add(step->stream, (Op){.run = run_pass, .step = *step, .pass = cpu->forward_backward});
}

static void evaluate(DdpStep *step) {
  add(step->stream, (Op){.run = run_pass, .step = *step, .pass = cpu->evaluate});
}

/* Where its results lie must be known at once. */
static void predict(DdpStep *step) {
  add(step->stream, (Op){.run = run_pass, .step = *step, .pass = cpu->predict});
  apart_synchronise(step->stream);
}

static void run_counts(Op *op) {
  open_memory(true);
  take_scalars(&op->step);
  cpu->window_counts(&op->step, op->to);
  open_memory(false);
}

static void window_counts(const DdpStep *step, double *counts) {
  add(step->stream, (Op){.run = run_counts, .step = *step, .to = counts});
}

/* ---------- optimizers ---------- */

/* As long as the group is the same, one call of the CPU's function, with what it takes as arguments. */
static void run_step(Op *op) {
  const DdpSegment *s = &op->segment;
  const DdpOptimizer *o = &cpu->optimizers[op->number];
  open_memory(true);
  if (s->rates->hold) {
    open_memory(false);
    return;
  }
  float *g = (float *)(uintptr_t)s->g;
  for (int64_t i = 0; i < s->n && s->rates->clip != 1.0f; i++) g[i] *= s->rates->clip;
  for (int64_t at = 0, n; at < s->n; at += n) {
    int32_t group = o->whole ? s->group : s->groups[at / 16];
    for (n = 16; !o->whole && at + n < s->n && s->groups[(at + n) / 16] == group;) n += 16;
    if (o->whole || at + n > s->n) n = s->n - at;
    DdpSegment part = *s;
    part.p += at;
    part.g += at;
    for (int32_t i = 0; i < o->states && !o->whole; i++) part.state[i] += at;
    part.n = n;
    part.lr = s->rates->rate[group].lr;
    part.weight_decay = s->rates->rate[group].weight_decay;
    part.step = s->rates->step;
    o->step(&part);
  }
  open_memory(false);
}

static void step_of(int number, const DdpSegment *s) {
  add(s->stream, (Op){.run = run_step, .segment = *s, .number = number});
}

#define NUMBERS(X)                                                                                 \
  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#define X(n)                                                                                       \
  static void step_##n(const DdpSegment *s) {                                                      \
    step_of(n, s);                                                                                 \
  }
NUMBERS(X)
#undef X
enum { MOST = 16 };
static DdpOptimizer optimizers[MOST];

static void take_optimizers(void) {
  static void (*const steps[MOST])(const DdpSegment *s) = {
#define X(n) step_##n,
      NUMBERS(X)
#undef X
  };
  if (cpu->n_optimizers > MOST) fail("too many optimizers");
  for (int32_t i = 0; i < cpu->n_optimizers; i++) {
    optimizers[i] = cpu->optimizers[i];
    optimizers[i].step = steps[i];
  }
  job.optimizers = optimizers;
}

/* ---------- kernels over arenas ---------- */

static void run_squares(Op *op) {
  open_memory(true);
  const DdpRange *ranges = op->from;
  const float *x = op->segment.p;
  for (int i = 0; i < op->number; i++) {
    double norm = (double)ddp_norm(x + ranges[i].begin, ranges[i].end - ranges[i].begin);
    ((double *)op->to)[i] = norm * norm; /* exact, and so is the root of it */
  }
  open_memory(false);
}

static void square_sums(const float *x, const DdpRange *ranges, int32_t n, double *sums,
                        void *scratch, void *stream) {
  (void)scratch;
  add(stream, (Op){.run = run_squares,
                   .segment = {.p = (float *)(uintptr_t)x},
                   .from = ranges,
                   .number = n,
                   .to = sums});
}

static void run_settle(Op *op) {
  const DdpSettle *s = op->to;
  bool finite = true;
  open_memory(true);
  if (s->squares) {
    float *norms = malloc((size_t)s->n * sizeof *norms + 1);
    if (!norms) fail("out of memory");
    for (int32_t i = 0; i < s->n; i++) norms[i] = (float)sqrt(s->squares[i]);
    s->rates->norm = ddp_norm(norms, s->n);
    free(norms);
    finite = isfinite(s->rates->norm);
    if (s->max_norm > 0) s->rates->clip = ddp_norm_coefficient(s->rates->norm, s->max_norm);
  }
  if (s->loss) finite = finite && isfinite(*s->loss);
  s->rates->hold = s->holds && !finite;
  open_memory(false);
  free(op->to);
}

static void settle(const DdpSettle *s, void *stream) {
  DdpSettle *own = malloc(sizeof *own);
  if (!own) fail("out of memory");
  *own = *s;
  add(stream, (Op){.run = run_settle, .to = own});
}

static void run_scale(Op *op) {
  float *x = op->to, by = (float)op->by;
  open_memory(true);
  for (int64_t i = 0; i < op->count; i++) x[i] *= by;
  open_memory(false);
}

static void scale(float *x, int64_t n, float by, void *stream) {
  add(stream, (Op){.run = run_scale, .to = x, .count = n, .by = (double)by});
}

static void run_fill(Op *op) {
  float *x = op->to;
  open_memory(true);
  for (int64_t i = 0; i < op->count; i++) x[i] = (float)op->by;
  open_memory(false);
}

static void fill(float *x, int64_t n, float with, void *stream) {
  add(stream, (Op){.run = run_fill, .to = x, .count = n, .by = (double)with});
}

static void run_average(Op *op) {
  float *average = op->to, weight = (float)(1.0 - op->by);
  const float *x = op->from;
  open_memory(true);
  for (int64_t i = 0; i < op->count; i++)
    average[i] = fabsf(weight) < 0.5f ? fmaf(weight, x[i] - average[i], average[i])
                                      : fmaf(weight - 1.0f, x[i] - average[i], x[i]);
  open_memory(false);
}

static void average(float *into, const float *x, int64_t n, double decay, void *stream) {
  add(stream, (Op){.run = run_average, .to = into, .from = x, .count = n, .by = decay});
}

/* ---------- the program ---------- */

static DdpTarget target = {.name = "apart",
                           .device = &apart,
                           .scratch = 256,
                           .arena = {.square_sums = square_sums,
                                     .scale = scale,
                                     .fill = fill,
                                     .average = average,
                                     .settle = settle}};

int __real_ddp_main(const DdpJob *from, int argc, char **argv);
int __wrap_ddp_main(const DdpJob *from, int argc, char **argv);

int __wrap_ddp_main(const DdpJob *from, int argc, char **argv) {
  cpu = from;
  job = *from;
  job.target = &target;
  job.forward_backward = forward_backward;
  if (job.evaluate) job.evaluate = evaluate;
  if (job.predict) job.predict = predict;
  if (job.window_counts) job.window_counts = window_counts;
  take_optimizers();
  return __real_ddp_main(&job, argc, argv);
}
