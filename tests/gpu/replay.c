/* The graphs of the op table on a GPU, against what the reference interpreter says.
     replay CASES [STEP]     every case of the file, or every STEP-th
   Linked with graphs.cu, which tests/emit/op_test.c wrote beside the cases. Prints what is wrong, one case a line, and
   "N cases, M wrong". */
#include "device.h"
#include "kernels/cpu/half.h"
#include "recorded.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void (*const graphs[])(DdpStep *);
extern const DdpTarget target;

enum { MOST_BLOCKS = RECORDED_FIELDS + 12 };
static struct {
  void *at;
  size_t bytes;
} taken[MOST_BLOCKS];
static int n_taken;

static void fine(DdpError *error) {
  if (!error) return;
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

static void read_bytes(FILE *from, void *to, size_t bytes) {
  if (bytes == 0 || fread(to, bytes, 1, from) == 1) return;
  fprintf(stderr, "the file of cases ends early\n");
  exit(1);
}

static void *memory(size_t bytes) {
  void *p = calloc(1, bytes + 64);
  if (!p) exit(1);
  return p;
}

/* A copy in the device's memory, until the end of the case; `here` is freed. */
static void *there(void *here, size_t bytes) {
  const DdpDevice *d = target.device;
  void *stream = d->stream(DDP_STREAM_compute);
  size_t rounded = bytes + 64;
  void *at;
  if (n_taken == MOST_BLOCKS) exit(1);
  fine(d->alloc(DDP_MEMORY_block, rounded, &at));
  taken[n_taken].at = at;
  taken[n_taken++].bytes = rounded;
  fine(d->to_device(at, here, bytes, stream));
  fine(d->synchronise(stream));
  free(here);
  return at;
}

/* Not a number anywhere: kernels write it before they read it. */
static void *workspace(int64_t bytes) {
  return there(memset(memory((size_t)bytes), 0xff, (size_t)bytes), (size_t)bytes);
}

static void *field(FILE *from, size_t bytes) {
  void *at = memory(bytes);
  read_bytes(from, at, bytes);
  return bytes ? there(at, bytes) : NULL;
}

static void *arena(FILE *from, size_t bytes) {
  char *at = memory(bytes);
  RecordedChunk c;
  for (read_bytes(from, &c, sizeof c); c.offset >= 0; read_bytes(from, &c, sizeof c)) {
    size_t left = bytes - (size_t)c.offset;
    memcpy(at + c.offset, c.data, left < sizeof c.data ? left : sizeof c.data);
  }
  return there(at, bytes);
}

static void *copied(const void *from, size_t bytes) {
  return there(memcpy(memory(bytes), from, bytes), bytes);
}

static double get(const void *from, int32_t dtype, int64_t i) {
  switch (dtype) {
  case DDP_bool:
  case DDP_u8:
    return ((const uint8_t *)from)[i];
  case DDP_i32:
    return ((const int32_t *)from)[i];
  case DDP_i64:
    return (double)((const int64_t *)from)[i];
  case DDP_f64:
    return ((const double *)from)[i];
  case DDP_bf16:
    return (double)ddp_load_bf16(((const uint16_t *)from)[i]);
  case DDP_f16:
    return (double)ddp_load_f16(((const uint16_t *)from)[i]);
  default:
    return (double)((const float *)from)[i];
  }
}

/* Runs a case; the buffers as they are then. */
static char *run(FILE *from, const RecordedCase *c) {
  static const void *fields[RECORDED_FIELDS];
  const DdpDevice *d = target.device;
  void *stream = d->stream(DDP_STREAM_compute);
  for (int i = 0; i < RECORDED_FIELDS; i++) fields[i] = field(from, (size_t)c->field_bytes[i]);
  size_t bytes = (size_t)c->arena_bytes;
  DdpStep step = {.batch = c->batch,
                  .fields = fields,
                  .share = c->scalars.share,
                  .loss_scale = c->scalars.loss_scale,
                  .counts = c->scalars.counts,
                  .seed = c->scalars.seed,
                  .update = c->scalars.update,
                  .epoch = c->scalars.epoch,
                  .stream = stream};
  step.params = arena(from, bytes);
  step.buffers = arena(from, bytes);
  step.frozen = there(memory(bytes), bytes);
  step.grads = there(memory(bytes), bytes);
  step.block = workspace(c->block_bytes);
  step.scratch = workspace(target.scratch);
  step.sample = copied(c->sample, sizeof c->sample);
  step.row = copied(c->row, sizeof c->row);
  step.scalars = copied(&c->scalars, sizeof c->scalars);
  step.sums = there(memory(DDP_MAX_COUNTS * sizeof(double)), DDP_MAX_COUNTS * sizeof(double));
  graphs[c->graph](&step);
  char *buffers = memory(bytes);
  fine(d->to_host(buffers, step.buffers, bytes, stream));
  fine(d->synchronise(stream));
  fine(d->failure());
  while (n_taken > 0) {
    n_taken--;
    d->free(DDP_MEMORY_block, taken[n_taken].at, taken[n_taken].bytes);
  }
  return buffers;
}

static bool compare(FILE *from, const RecordedCase *c, const char *buffers) {
  size_t n = (size_t)c->elements;
  double *want = memory(n * sizeof *want), *tolerance = memory(n * sizeof *tolerance);
  bool right = true;
  read_bytes(from, want, n * sizeof *want);
  read_bytes(from, tolerance, n * sizeof *tolerance);
  for (size_t i = 0; i < n && buffers && right; i++) {
    double got = get(buffers + c->output, c->dtype, (int64_t)i);
    right = isnan(want[i]) ? isnan(got) : got == want[i] || fabs(got - want[i]) <= tolerance[i];
    if (!right) printf("%s, element %zu: %.9g, and %.9g is right\n", c->name, i, got, want[i]);
  }
  free(want);
  free(tolerance);
  return right;
}

static void skip(FILE *from, const RecordedCase *c) {
  RecordedChunk chunk;
  for (int i = 0; i < RECORDED_FIELDS; i++) fseek(from, (long)c->field_bytes[i], SEEK_CUR);
  for (int arenas = 0; arenas < 2; arenas++) do
      read_bytes(from, &chunk, sizeof chunk);
    while (chunk.offset >= 0);
}

int main(int argc, char **argv) {
  FILE *from = argc > 1 ? fopen(argv[1], "rb") : NULL;
  const DdpJob job = {.target = &target};
  RecordedCase c;
  int n = 0, wrong = 0, step = argc > 2 ? atoi(argv[2]) : 1;
  if (!from || step < 1) return fprintf(stderr, "usage: replay CASES [STEP]\n"), 2;
  fine(target.device->open(&job, 0, 1));
  for (int i = 0; fread(&c, sizeof c, 1, from) == 1; i++) {
    bool asked = i % step == 0;
    char *buffers = NULL;
    if (asked)
      buffers = run(from, &c);
    else
      skip(from, &c);
    wrong += !compare(from, &c, buffers);
    n += asked;
    free(buffers);
  }
  fclose(from);
  target.device->close();
  printf("%d cases, %d wrong\n", n, wrong);
  return wrong ? 1 : 0;
}
