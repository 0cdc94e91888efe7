/* In: what ends on the computing thread, collectives of the flight record. Out: one JSON file of all ranks.
   Holds: events are kept in memory until the end, up to a fixed number for each rank; those that come
   later are counted, and the file says how many. */
#include "trace.h"
#include "clock.h"
#include "file.h"
#include "log.h"
#include "run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 400000, PIECE = 1 << 20, ROUNDS = 9, LANES = 16 };
static const double shortest = 0.5e-6; /* seconds: a look that found nothing to do */

typedef enum Kind { SPAN, KERNEL, WAIT, COLLECTIVE } Kind;

typedef struct Event {
  double begin, end;
  Kind kind;
  int32_t kernel;
  int64_t update, bytes;      /* update: -1, before the first */
  const char *span;           /* SPAN; COLLECTIVE: the operation */
  char name[DDP_FLIGHT_NAME]; /* WAIT, COLLECTIVE */
  uint64_t sequence;
} Event;

struct DdpTrace {
  DdpGroup *group;
  const DdpJob *job;
  const DdpDevice *device;
  int rank, world;
  DdpFile *file; /* rank 0 */
  double zero;   /* of this rank's clock; the same moment on all ranks */
  double mark;
  int64_t update;
  Event *events;
  int64_t n, room, lost;
};

/* ---------- events ---------- */

static Event *add(DdpTrace *t, Kind kind, double begin, double end) {
  if (t->n == t->room) {
    int64_t room = t->room ? 2 * t->room : 4096;
    if (room > MOST) room = MOST;
    Event *more = t->room < room ? realloc(t->events, (size_t)room * sizeof *more) : NULL;
    if (!more) {
      t->lost++;
      return NULL;
    }
    t->events = more;
    t->room = room;
  }
  Event *e = &t->events[t->n++];
  *e = (Event){.begin = begin, .end = end, .kind = kind, .update = t->update};
  return e;
}

void ddp_trace_span(DdpTrace *t, const char *name, double begin, double end) {
  Event *e = t && end - begin >= shortest ? add(t, SPAN, begin, end) : NULL;
  if (e) e->span = name;
}

void ddp_trace_update(DdpTrace *t, int64_t update) {
  if (t) t->update = update;
}

/* A device is waited for after each kernel: else all of them would seem to take as long as it takes to enqueue
   them. What went wrong there, the run hears again when it waits itself. */
static void catch_up(const DdpTrace *t) {
  if (t->device->apart)
    ddp_error_free(t->device->synchronise(t->device->stream(DDP_STREAM_compute)));
}

void ddp_trace_mark(DdpTrace *t) {
  if (!t) return;
  catch_up(t);
  t->mark = ddp_clock();
}

void ddp_trace_kernel(DdpTrace *t, int32_t kernel) {
  catch_up(t);
  double now = ddp_clock();
  Event *e = add(t, KERNEL, t->mark, now);
  if (e) e->kernel = kernel;
  t->mark = now;
}

static void watch(void *self, const char *what, double begin, double end) {
  DdpTrace *t = self;
  t->mark = end;
  Event *e = end - begin < shortest ? NULL : add(t, WAIT, begin, end);
  if (e) snprintf(e->name, sizeof e->name, "%s", what);
}

static void take_collective(void *self, const DdpFlightEntry *from) {
  Event *e = add(self, COLLECTIVE, from->scheduled, from->completed);
  if (!e) return;
  e->span = ddp_flight_op_name(from->op);
  snprintf(e->name, sizeof e->name, "%s", from->name);
  e->update = from->update;
  e->bytes = from->bytes;
  e->sequence = from->sequence;
}

/* ---------- opening ---------- */

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The same moment on all ranks: rank 0's clock, and how far this rank's is from it. Hosts have clocks of their
   own; right after a barrier they show the same time, give or take the barrier's end; the median of some. */
static DdpError *find_zero(DdpTrace *t) {
  double offset[ROUNDS], both[2] = {ddp_clock(), 0};
  for (int i = 0; i < ROUNDS; i++) {
    DDP_TRY(ddp_group_barrier(t->group, "clocks of the trace"));
    double mine = ddp_clock(), theirs = mine;
    DDP_TRY(ddp_group_broadcast(t->group, &theirs, (int64_t)sizeof theirs, 0, "clock of rank 0"));
    offset[i] = mine - theirs;
  }
  qsort(offset, ROUNDS, sizeof *offset, by_value);
  DDP_TRY(ddp_group_broadcast(t->group, both, (int64_t)sizeof both, 0, "begin of the trace"));
  bool same = ddp_group_one_host(t->group);
  t->zero = both[0] + (same ? 0 : offset[ROUNDS / 2]);
  return NULL;
}

/* Rank 0 makes the file, so that a wrong path is an error now. */
static DdpError *open_file(DdpRun *r, DdpTrace **out) {
  DdpTrace *t = calloc(1, sizeof *t);
  if (!t) return ddp_error(DDP_MEMORY, "no memory for the trace");
  t->group = r->group;
  t->job = r->job;
  t->device = r->device;
  t->rank = r->rank;
  t->world = r->world;
  t->update = -1;
  *out = t;
  return t->rank == 0 ? ddp_file_create(&t->file, r->config->profile) : NULL;
}

DdpError *run_trace_open(DdpRun *r) {
  if (!r->config->profile) return NULL;
  DDP_TRY(run_agree(r, open_file(r, &r->trace), "creating the trace"));
  DdpTrace *t = r->trace;
  DDP_TRY(find_zero(t));
  ddp_group_watch(t->group, watch, t);
  ddp_flight_sink(ddp_group_flight(t->group), take_collective, t);
  r->timing.trace = t;
  return NULL;
}

static void detach(DdpTrace *t) {
  ddp_group_watch(t->group, NULL, NULL);
  ddp_flight_sink(ddp_group_flight(t->group), NULL, NULL);
}

void run_trace_close(DdpRun *r) {
  DdpTrace *t = r->trace;
  if (!t) return;
  detach(t);
  ddp_file_discard(t->file);
  free(t->events);
  free(t);
}

/* ---------- writing ---------- */

static void put_text(FILE *f, const char *text) {
  fputc('"', f);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', f);
    if ((unsigned char)*text >= 0x20) fputc(*text, f);
  }
  fputc('"', f);
}

static const char *name_of(const DdpTrace *t, const Event *e) {
  if (e->kind == KERNEL)
    return e->kernel < t->job->n_kernels ? t->job->kernels[e->kernel] : "kernel";
  return e->kind == SPAN ? e->span : e->name;
}

/* Collectives overlap each other: each on the first line that is free. */
static int lane_of(double *until, const Event *e) {
  int lane = 0;
  while (lane < LANES - 1 && until[lane] > e->begin) lane++;
  until[lane] = e->end;
  return lane;
}

static void put_event(FILE *f, const DdpTrace *t, const Event *e, int line) {
  static const char *const kinds[] = {"part", "kernel", "communication", "collective"};
  fprintf(
      f,
      ",\n{\"ph\": \"X\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, \"cat\": \"%s\", ",
      t->rank, line, (e->begin - t->zero) * 1e6, (e->end - e->begin) * 1e6, kinds[e->kind]);
  fputs("\"name\": ", f);
  put_text(f, name_of(t, e));
  fprintf(f, ", \"args\": {\"update\": %lld", (long long)e->update + 1);
  if (e->kind == COLLECTIVE)
    fprintf(f, ", \"operation\": \"%s\", \"bytes\": %lld, \"sequence\": %llu", e->span,
            (long long)e->bytes, (unsigned long long)e->sequence);
  fputs("}}", f);
}

static void put_line(FILE *f, int rank, int line, const char *what, const char *name) {
  fprintf(f,
          ",\n{\"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"name\": \"%s\", \"args\": {\"name\": "
          "\"%s\"}}",
          rank, line, what, name);
}

static int by_begin(const void *a, const void *b) {
  const Event *x = a, *y = b;
  if (x->begin != y->begin) return x->begin > y->begin ? 1 : -1;
  return (x->end < y->end) - (x->end > y->end); /* what holds others first */
}

/* What this rank has to say. Line 0 is its computing thread, 1 and more what is under way. */
static DdpError *to_text(DdpTrace *t, char **text, size_t *n) {
  FILE *f = open_memstream(text, n);
  if (!f) return ddp_error(DDP_MEMORY, "no memory for the trace");
  double until[LANES] = {0};
  char name[48];
  int lanes = 0;
  qsort(t->events, (size_t)t->n, sizeof *t->events, by_begin);
  snprintf(name, sizeof name, "rank %d", t->rank);
  put_line(f, t->rank, 0, "process_name", name);
  put_line(f, t->rank, 0, "thread_name", "computing thread");
  for (int64_t i = 0; i < t->n; i++) {
    const Event *e = &t->events[i];
    int line = e->kind == COLLECTIVE ? 1 + lane_of(until, e) : 0;
    if (line > lanes) {
      lanes = line;
      put_line(f, t->rank, line, "thread_name", "collectives");
    }
    put_event(f, t, e, line);
  }
  if (t->lost)
    fprintf(f,
            ",\n{\"ph\": \"M\", \"pid\": %d, \"tid\": 0, \"name\": \"process_labels\", \"args\": "
            "{\"labels\": \"%lld events came after the trace was full\"}}",
            t->rank, (long long)t->lost);
  return fclose(f) == 0 ? NULL : ddp_error(DDP_MEMORY, "no memory for the trace");
}

/* Rank `from`'s text goes to rank 0's file, a piece at a time. What cannot be written, the commit says. */
static DdpError *pass(DdpTrace *t, int from, const char *text, int64_t bytes) {
  char *piece = malloc(PIECE);
  DdpError *error = piece ? NULL : ddp_error(DDP_MEMORY, "no memory for the trace");
  for (int64_t at = 0; at < bytes && !error; at += PIECE) {
    int64_t n = bytes - at < PIECE ? bytes - at : PIECE;
    if (t->rank == from) memcpy(piece, text + at, (size_t)n);
    error = ddp_group_broadcast(t->group, piece, n, from, "the trace");
    if (!error && t->rank == 0) ddp_error_free(ddp_file_write(t->file, piece, (size_t)n));
  }
  free(piece);
  return error;
}

static DdpError *write_all(DdpTrace *t, const char *text, int64_t bytes, int64_t *sizes) {
  static const char head[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{\"ph\": \"M\", "
                             "\"pid\": 0, \"tid\": 0, \"name\": \"process_sort_index\", \"args\": "
                             "{\"sort_index\": 0}}";
  static const char foot[] = "\n]}\n";
  DDP_TRY(ddp_group_all_gather(t->group, &bytes, sizes, (int64_t)sizeof bytes, "the trace"));
  if (t->rank == 0) ddp_error_free(ddp_file_write(t->file, head, sizeof head - 1));
  for (int r = 0; r < t->world; r++) DDP_TRY(pass(t, r, text, sizes[r]));
  if (t->rank != 0) return NULL;
  ddp_error_free(ddp_file_write(t->file, foot, sizeof foot - 1));
  DdpFile *file = t->file;
  t->file = NULL;
  return ddp_file_commit(file);
}

static DdpError *write_trace(DdpTrace *t) {
  char *text = NULL;
  size_t n = 0;
  int64_t *sizes = calloc((size_t)t->world, sizeof *sizes);
  DdpError *error =
      sizes ? to_text(t, &text, &n) : ddp_error(DDP_MEMORY, "no memory for the trace");
  if (!error) error = write_all(t, text, (int64_t)n, sizes);
  free(text);
  free(sizes);
  return error;
}

DdpError *run_trace_write(DdpRun *r, DdpError *end) {
  if (!r->trace || (end && !r->together)) return end;
  detach(r->trace); /* what the trace itself sends is no part of it */
  DdpError *error = run_agree(r, write_trace(r->trace), "writing the trace");
  if (!error && r->rank == 0)
    ddp_log(DDP_LOG_info, "time line of %d rank%s: %s", r->world, r->world == 1 ? "" : "s",
            r->config->profile);
  if (!error) return end;
  ddp_error_free(end);
  r->together = false;
  return error;
}
