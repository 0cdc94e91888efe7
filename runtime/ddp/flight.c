/* In: collectives as the group enters and leaves them. Out: the last of them as a file, or one by one
   to a sink. Holds: nothing is allocated after opening; writing uses only what a signal handler may
   call, since the record matters most when the process is broken. */
#include "flight.h"
#include "clock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double lock_wait = 0.1; /* the holder may be the thread that crashed */
#define RECORD "flight-%d.json"      /* of a rank */
static const char under_way[] = ".tmp";

struct DdpFlight {
  int rank, world;
  char *folder, *path, *temporary; /* NULL: not written */
  atomic_flag lock;
  atomic_bool
      wanted; /* by whoever writes the record: the others keep away, or it might never get it */
  atomic_bool written;
  _Atomic uint64_t last;
  DdpFlightSink *sink;
  void *sink_self;
  DdpFlightEntry ring[DDP_FLIGHT_KEPT];
};

const char *ddp_flight_op_name(DdpFlightOp op) {
  static const char *const names[] = {
#define X(id, name, words) name,
      DDP_FLIGHT_OPS(X)
#undef X
  };
  return names[op];
}

const char *ddp_flight_op_words(DdpFlightOp op) {
  static const char *const all[] = {
#define X(id, name, words) words,
      DDP_FLIGHT_OPS(X)
#undef X
  };
  return all[op];
}

DdpError *ddp_flight_open(DdpFlight **out, const char *folder, int rank, int world) {
  DdpFlight *f = calloc(1, sizeof *f);
  *out = NULL;
  if (!f) return ddp_error(DDP_MEMORY, "no memory for the flight record");
  f->rank = rank;
  f->world = world;
  atomic_flag_clear(&f->lock);
  atomic_init(&f->wanted, false);
  atomic_init(&f->written, false);
  atomic_init(&f->last, 0);
  if (folder) {
    f->folder = strdup(folder);
    if (asprintf(&f->path, "%s/" RECORD, folder, rank) < 0) f->path = NULL;
    if (asprintf(&f->temporary, "%s/" RECORD "%s", folder, rank, under_way) < 0)
      f->temporary = NULL;
    if (!f->folder || !f->path || !f->temporary) {
      ddp_flight_close(f);
      return ddp_error(DDP_MEMORY, "no memory for the flight record");
    }
  }
  *out = f;
  return NULL;
}

void ddp_flight_close(DdpFlight *f) {
  if (!f) return;
  free(f->folder);
  free(f->path);
  free(f->temporary);
  free(f);
}

void ddp_flight_sweep(const char *folder) {
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    int rank = 0, length = 0;
    if (sscanf(e->d_name, RECORD "%n", &rank, &length) != 1 || length == 0) continue;
    if (strcmp(e->d_name + length, under_way) == 0) unlinkat(dirfd(d), e->d_name, 0);
  }
  if (d) closedir(d);
}

const char *ddp_flight_path(const DdpFlight *f) {
  return f->path;
}

/* ---------- the ring ---------- */

static void take(DdpFlight *f) {
  while (atomic_load_explicit(&f->wanted, memory_order_relaxed) ||
         atomic_flag_test_and_set_explicit(&f->lock, memory_order_acquire)) {
  }
}

static void give(DdpFlight *f) {
  atomic_flag_clear_explicit(&f->lock, memory_order_release);
}

/* The first entry that the ring may still hold. */
static uint64_t oldest(uint64_t last) {
  return last > DDP_FLIGHT_KEPT ? last - DDP_FLIGHT_KEPT + 1 : 1;
}

static DdpFlightEntry *entry_of(DdpFlight *f, uint64_t sequence) {
  DdpFlightEntry *e = &f->ring[sequence % DDP_FLIGHT_KEPT];
  return sequence && e->sequence == sequence ? e : NULL;
}

static int bucket_of(const char *name) {
  return strncmp(name, "bucket ", 7) == 0 ? atoi(name + 7) : -1;
}

uint64_t ddp_flight_begin(DdpFlight *f, DdpFlightOp op, const char *name, int64_t bytes,
                          int64_t update) {
  double now = ddp_clock();
  take(f);
  uint64_t sequence = atomic_load(&f->last) + 1;
  DdpFlightEntry *e = &f->ring[sequence % DDP_FLIGHT_KEPT];
  *e = (DdpFlightEntry){.sequence = sequence,
                        .op = op,
                        .bytes = bytes,
                        .update = update,
                        .bucket = bucket_of(name),
                        .scheduled = now};
  size_t n = strnlen(name, sizeof e->name - 1);
  memcpy(e->name, name, n);
  atomic_store(&f->last, sequence);
  give(f);
  return sequence;
}

void ddp_flight_start(DdpFlight *f, uint64_t sequence) {
  double now = ddp_clock();
  take(f);
  DdpFlightEntry *e = entry_of(f, sequence);
  if (e && e->state == DDP_FLIGHT_scheduled) {
    e->state = DDP_FLIGHT_started;
    e->started = now;
  }
  give(f);
}

void ddp_flight_complete(DdpFlight *f, uint64_t sequence) {
  double now = ddp_clock();
  DdpFlightEntry copy = {0};
  take(f);
  DdpFlightEntry *e = entry_of(f, sequence);
  if (e && e->state != DDP_FLIGHT_completed) {
    if (e->state == DDP_FLIGHT_scheduled) e->started = e->scheduled;
    e->state = DDP_FLIGHT_completed;
    e->completed = now;
    copy = *e;
  }
  DdpFlightSink *sink = f->sink;
  void *self = f->sink_self;
  give(f);
  if (copy.sequence && sink) sink(self, &copy);
}

uint64_t ddp_flight_last(const DdpFlight *f) {
  return atomic_load(&f->last);
}

bool ddp_flight_pending(DdpFlight *f, DdpFlightEntry *out) {
  bool found = false;
  take(f);
  uint64_t last = ddp_flight_last(f);
  for (uint64_t s = oldest(last); s <= last && !found; s++) {
    const DdpFlightEntry *e = entry_of(f, s);
    found = e && e->state != DDP_FLIGHT_completed;
    if (found) *out = *e;
  }
  give(f);
  return found;
}

void ddp_flight_sink(DdpFlight *f, DdpFlightSink *sink, void *self) {
  take(f);
  f->sink = sink;
  f->sink_self = self;
  give(f);
}

/* ---------- the file ---------- */

typedef struct Out {
  int fd;
  bool bad;
  size_t n;
  char text[2048];
} Out;

static void flush(Out *o) {
  size_t at = 0;
  while (at < o->n && !o->bad) {
    ssize_t k = write(o->fd, o->text + at, o->n - at);
    if (k < 0 && errno == EINTR) continue;
    o->bad = k <= 0;
    if (k > 0) at += (size_t)k;
  }
  o->n = 0;
}

static void put_char(Out *o, char c) {
  if (o->n == sizeof o->text) flush(o);
  o->text[o->n++] = c;
}

static void put(Out *o, const char *text) {
  for (; *text; text++) put_char(o, *text);
}

static void put_text(Out *o, const char *text) {
  static const char hex[] = "0123456789abcdef";
  put_char(o, '"');
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') put_char(o, '\\');
    if (c >= 0x20) {
      put_char(o, *text);
      continue;
    }
    put(o, "\\u00");
    put_char(o, hex[c >> 4]);
    put_char(o, hex[c & 15]);
  }
  put_char(o, '"');
}

static void put_unsigned(Out *o, uint64_t v, int digits) {
  char text[24];
  int n = 0;
  do text[n++] = (char)('0' + v % 10);
  while (v /= 10);
  while (n < digits) text[n++] = '0';
  while (n > 0) put_char(o, text[--n]);
}

static void put_int(Out *o, const char *key, int64_t v) {
  put(o, key);
  if (v < 0) put_char(o, '-');
  put_unsigned(o, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, 1);
}

/* Whole microseconds. */
static void put_seconds(Out *o, const char *key, double v) {
  uint64_t micro = (uint64_t)(v > 0 ? v * 1e6 + 0.5 : 0);
  put(o, key);
  put_unsigned(o, micro / 1000000, 1);
  put_char(o, '.');
  put_unsigned(o, micro % 1000000, 6);
}

static void put_name(Out *o, const char *key, const char *text) {
  put(o, key);
  put_text(o, text ? text : "");
}

static void put_head(Out *o, const DdpFlight *f, const DdpFlightCause *why) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  put(o, "{\"version\": 1");
  put_int(o, ", \"rank\": ", f->rank);
  put_int(o, ", \"world\": ", f->world);
  put_int(o, ", \"pid\": ", getpid());
  put_name(o, ",\n \"reason\": ", why->reason);
  put_int(o, ",\n \"exit_code\": ", why->code);
  put_int(o, ", \"blamed_rank\": ", why->blamed);
  put_int(o, ", \"update\": ", why->update);
  put_name(o, ", \"phase\": ", why->phase);
  /* The clock of the entries, and what time it was then. */
  put_seconds(o, ",\n \"clock\": ", ddp_clock());
  put_seconds(o, ", \"unix_time\": ", (double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
  put_int(o, ", \"last_sequence\": ", (int64_t)ddp_flight_last(f));
}

static void put_peers(Out *o, const DdpFlightCause *why) {
  put(o, ",\n \"ranks\": [");
  for (int i = 0; i < why->n_peers; i++) {
    const DdpFlightPeer *p = &why->peers[i];
    put_int(o, i ? ",\n  {\"rank\": " : "\n  {\"rank\": ", p->rank);
    put_int(o, ", \"sequence\": ", (int64_t)p->sequence);
    put_int(o, ", \"update\": ", p->update);
    put_name(o, ", \"phase\": ", p->phase);
    put_seconds(o, ", \"silent_seconds\": ", p->silent);
    put(o, "}");
  }
  put(o, "]");
}

static void put_entry(Out *o, const DdpFlightEntry *e, bool first) {
  static const char *const states[] = {"scheduled", "started", "completed"};
  put_int(o, first ? "\n  {\"sequence\": " : ",\n  {\"sequence\": ", (int64_t)e->sequence);
  put_name(o, ", \"operation\": ", ddp_flight_op_name(e->op));
  put_name(o, ", \"name\": ", e->name);
  if (e->bucket >= 0) put_int(o, ", \"bucket\": ", e->bucket);
  put_int(o, ", \"bytes\": ", e->bytes);
  put_int(o, ", \"update\": ", e->update);
  put_name(o, ", \"state\": ", states[e->state]);
  put_seconds(o, ", \"scheduled\": ", e->scheduled);
  if (e->state >= DDP_FLIGHT_started) put_seconds(o, ", \"started\": ", e->started);
  if (e->state >= DDP_FLIGHT_completed) put_seconds(o, ", \"completed\": ", e->completed);
  put(o, "}");
}

static void put_entries(Out *o, DdpFlight *f) {
  uint64_t last = ddp_flight_last(f);
  bool none = true;
  put(o, ",\n \"collectives\": [");
  for (uint64_t s = oldest(last); s <= last; s++) {
    const DdpFlightEntry *e = entry_of(f, s);
    if (!e) continue;
    put_entry(o, e, none);
    none = false;
  }
  put(o, "]}\n");
}

/* The lock, or after a while without it: whoever holds it may be the thread that has died. */
static bool take_soon(DdpFlight *f) {
  double end = ddp_clock() + lock_wait;
  atomic_store(&f->wanted, true);
  while (atomic_flag_test_and_set_explicit(&f->lock, memory_order_acquire)) {
    if (ddp_clock() >= end) return false;
  }
  return true;
}

bool ddp_flight_write(DdpFlight *f, const DdpFlightCause *why) {
  if (!f || !f->path || atomic_exchange(&f->written, true)) return true;
  Out o = {.n = 0};
  o.fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (o.fd < 0 && errno == ENOENT && mkdir(f->folder, 0777) == 0)
    o.fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (o.fd < 0) return false;
  put_head(&o, f, why);
  put_peers(&o, why);
  bool locked = take_soon(f);
  put_entries(&o, f);
  if (locked) give(f);
  atomic_store(&f->wanted, false);
  flush(&o);
  int number = errno;
  if (close(o.fd) != 0 && !o.bad) {
    number = errno;
    o.bad = true;
  }
  if (!o.bad && rename(f->temporary, f->path) == 0) return true;
  if (!o.bad) number = errno;
  unlink(f->temporary);
  errno = number;
  return false;
}
