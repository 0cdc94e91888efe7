/* One rank of a small job, for the tests of comm and ddp: starts like a compiled job, runs the
   steps that its arguments name, ends like a compiled job.
   key=value arguments: do=reduce|values|loop|hidden|open|alloc, backend=gloo (no shared memory),
   timeout=SECONDS, updates=N, kill=RANK@UPDATE, stop=RANK@UPDATE, fail=RANK@UPDATE,
   slow=RANK@UPDATE (phase "saving", for save=SECONDS), lost=RANK@UPDATE (killed meanwhile),
   hang=RANK@UPDATE (computes for ever; all@UPDATE: every rank), stay=RANK (does not say goodbye),
   late=RANK@UPDATE (sleeps for save=SECONDS; the others say what the wait cost), text=RANK:TEXT (program text of that rank), size=FLOATS,
   record=FOLDER (of the flight record), wire=bf16|f16 (do=reduce). */
#include "clock.h"
#include "group.h"
#include "log.h"
#include "reducer.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { EVERY = -2 };

typedef struct Event {
  int rank;
  long update;
} Event;

typedef struct Options {
  const char *what, *text, *record;
  int text_rank;
  bool gloo;
  DdpDType wire;
  double timeout, save;
  long updates, size, sums; /* sums: 1 = sums over ranks between the buckets */
  int stay;
  Event kill, stop, fail, slow, hang, lost, late;
} Options;

static Event event_of(const char *text) {
  Event e = {-1, -1};
  if (sscanf(text, "all@%ld", &e.update) == 1)
    e.rank = EVERY;
  else
    sscanf(text, "%d@%ld", &e.rank, &e.update);
  return e;
}

static bool happens(const Event *e, int rank, long update) {
  return (e->rank == rank || e->rank == EVERY) && e->update == update;
}

static Options parse(int argc, char **argv) {
  Options o = {.what = "reduce",
               .timeout = 20,
               .updates = 10,
               .size = 5000,
               .text_rank = -1,
               .wire = DDP_f32,
               .stay = -1};
  o.kill = o.stop = o.fail = o.slow = o.hang = o.lost = o.late = (Event){-1, -1};
  for (int i = 1; i < argc; i++) {
    static char *copies[32]; /* the tests look for the command line as it was given */
    if (i >= 32) exit(64);
    char *key = copies[i] = strdup(argv[i]);
    char *value = key ? strchr(key, '=') : NULL;
    if (!value) exit(64);
    *value++ = 0;
    if (!strcmp(key, "do"))
      o.what = value;
    else if (!strcmp(key, "backend"))
      o.gloo = !strcmp(value, "gloo");
    else if (!strcmp(key, "wire"))
      o.wire = !strcmp(value, "bf16") ? DDP_bf16 : DDP_f16;
    else if (!strcmp(key, "timeout"))
      o.timeout = atof(value);
    else if (!strcmp(key, "updates"))
      o.updates = atol(value);
    else if (!strcmp(key, "size"))
      o.size = atol(value);
    else if (!strcmp(key, "sums"))
      o.sums = atol(value);
    else if (!strcmp(key, "kill"))
      o.kill = event_of(value);
    else if (!strcmp(key, "stop"))
      o.stop = event_of(value);
    else if (!strcmp(key, "fail"))
      o.fail = event_of(value);
    else if (!strcmp(key, "slow"))
      o.slow = event_of(value);
    else if (!strcmp(key, "hang"))
      o.hang = event_of(value);
    else if (!strcmp(key, "late"))
      o.late = event_of(value);
    else if (!strcmp(key, "stay"))
      o.stay = atoi(value);
    else if (!strcmp(key, "record"))
      o.record = value;
    else if (!strcmp(key, "lost"))
      o.lost = event_of(value);
    else if (!strcmp(key, "save"))
      o.save = atof(value);
    else if (!strcmp(key, "text")) {
      o.text_rank = atoi(value);
      o.text = strchr(value, ':') + 1;
    } else
      exit(64);
  }
  if (o.save <= 0) o.save = 2.5 * o.timeout;
  return o;
}

static float value_of(int rank, long i) {
  return (float)((i * 7919 + rank * 104729) % 2003) / 97.0f;
}

static uint64_t hash_of(uint64_t h, const void *data, size_t n) {
  const unsigned char *p = data;
  for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211u;
  return h;
}

/* Sums of many sizes and offsets, several in flight, against the sum in double precision. In 16 bits every
   part is rounded twice, and every addition once. */
static DdpError *do_reduce(DdpGroup *g, DdpDType wire) {
  const double unit = wire == DDP_f32 ? 0 : wire == DDP_bf16 ? 0x1p-8 : 0x1p-11;
  static const long sizes[] = {1, 2, 3, 15, 16, 17, 31, 64, 100, 1023, 4097, 65537, 300001};
  enum { N = sizeof sizes / sizeof *sizes };
  int rank = ddp_group_rank(g), world = ddp_group_world(g);
  long total = 0;
  for (int k = 0; k < N; k++) total += (sizes[k] + 15) / 16 * 16;
  float *data;
  DDP_TRY(ddp_group_alloc(g, (size_t)total * sizeof *data, (void **)&data));
  for (long i = 0; i < total; i++) {
    if (data[i] != 0) return ddp_error(DDP_FAILED, "memory is not zeroed");
  }
  uint64_t h = 14695981039346656037u;
  for (int round = 0; round < 3; round++) {
    DdpGroupWork *works[N];
    long at = 0;
    for (int k = 0; k < N; k++) {
      for (long i = 0; i < sizes[k]; i++) data[at + i] = value_of(rank, i + round);
      DDP_TRY(ddp_group_all_reduce_start(g, data + at, sizes[k], wire, "sums", &works[k]));
      DDP_TRY(ddp_group_progress(g));
      at += (sizes[k] + 15) / 16 * 16;
    }
    at = 0;
    for (int k = 0; k < N; k++) {
      DDP_TRY(ddp_group_wait(g, works[k]));
      for (long i = 0; i < sizes[k]; i++) {
        double want = 0;
        for (int r = 0; r < world; r++) want += (double)value_of(r, i + round);
        double off = (double)data[at + i] - want, most = 1e-4 + unit * want * (world + 1);
        if (off > most || off < -most)
          return ddp_error(DDP_FAILED, "size %ld element %ld: %g, not %g", sizes[k], i,
                           (double)data[at + i], want);
      }
      h = hash_of(h, data + at, (size_t)sizes[k] * sizeof *data);
      at += (sizes[k] + 15) / 16 * 16;
    }
  }
  printf("bits %016llx\n", (unsigned long long)h);
  return NULL;
}

/* Broadcast, gather, sum and barrier, larger than one piece of the staging memory. */
static DdpError *do_values(DdpGroup *g) {
  int rank = ddp_group_rank(g), world = ddp_group_world(g);
  size_t n = 150001;
  int *mine = malloc(n * sizeof *mine), *all = malloc(n * (size_t)world * sizeof *all);
  if (!mine || !all) return ddp_error(DDP_MEMORY, "test memory");
  for (int root = 0; root < world; root++) {
    for (size_t i = 0; i < n; i++) mine[i] = rank == root ? (int)i * (root + 3) : -1;
    DDP_TRY(ddp_group_broadcast(g, mine, (int64_t)(n * sizeof *mine), root, "values"));
    for (size_t i = 0; i < n; i++) {
      if (mine[i] != (int)i * (root + 3)) return ddp_error(DDP_FAILED, "broadcast of %d", root);
    }
  }
  for (size_t i = 0; i < n; i++) mine[i] = rank * 1000000 + (int)i;
  DDP_TRY(ddp_group_all_gather(g, mine, all, (int64_t)(n * sizeof *mine), "values"));
  for (int r = 0; r < world; r++) {
    for (size_t i = 0; i < n; i++) {
      if (all[(size_t)r * n + i] != r * 1000000 + (int)i)
        return ddp_error(DDP_FAILED, "all_gather");
    }
  }
  double s[3] = {rank + 1, 0.1 * rank, 1e9 + rank}, want[3] = {1, 0, 1e9};
  for (int r = 1; r < world; r++) {
    want[0] += r + 1;
    want[1] += 0.1 * r;
    want[2] += 1e9 + r;
  }
  DDP_TRY(ddp_group_sum(g, s, 3, "values"));
  if (memcmp(s, want, sizeof s) != 0)
    return ddp_error(DDP_FAILED, "sum: %g %g %g", s[0], s[1], s[2]);
  for (int i = 0; i < 20; i++) DDP_TRY(ddp_group_barrier(g, "values"));
  free(mine);
  free(all);
  printf("values right\n");
  return NULL;
}

static void wait_for_ever(const char *what) {
  printf("%s\n", what);
  for (;;) pause();
}

static void sleep_for(double seconds) {
  double end = ddp_clock() + seconds;
  struct timespec t = {.tv_nsec = 50000000};
  while (ddp_clock() < end) nanosleep(&t, NULL);
}

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Sums over ranks between the buckets: the statistics of ranks with other numbers of samples; the last one
   has none. */
static DdpError *sum_between(DdpStep *step, int rank, int world, int tensor) {
  float in[600] = {0}, out[600], want[600] = {0};
  for (int r = 0; r < world; r++) {
    for (int s = 0; s < world - 1 - r; s++) { /* samples of rank r */
      for (int k = 0; k < 599; k++) {
        float x = (float)((r * 7 + s * 3 + k + tensor) % 50);
        want[k] += x;
        if (r == rank) in[k] += x;
      }
      want[599] += 1;
      if (r == rank) in[599] += 1;
    }
  }
  ddp_all_sum(step, out, in, 600);
  ddp_all_sum(step, in, in, 1); /* in place */
  if (memcmp(out, want, sizeof out) != 0 || in[0] != want[0]) {
    DDP_TRY(ddp_reducer_finish(step->reducer, NULL, NULL,
                               NULL)); /* where the error of a peer's death is kept */
    return ddp_error(DDP_FAILED, "sums over ranks: %g samples, not %g", (double)out[599],
                     (double)want[599]);
  }
  return NULL;
}

/* A training loop with its events, through the reducer. */
static DdpError *do_loop(DdpGroup *g, const Options *o) {
  enum { TENSORS = 4 };
  DdpTensor tensors[TENSORS];
  int32_t ready[TENSORS];
  for (int i = 0; i < TENSORS; i++) {
    tensors[i] =
        (DdpTensor){.name = "t", .elements = o->size, .offset = i * ((o->size + 15) / 16 * 16)};
    ready[i] = i;
  }
  DdpJob job = {.tensors = tensors, .n_tensors = TENSORS, .ready = ready, .n_ready = TENSORS};
  int rank = ddp_group_rank(g), world = ddp_group_world(g);
  size_t total = (size_t)tensors[TENSORS - 1].offset + (size_t)o->size;
  float *grads;
  DdpReducer *r;
  DDP_TRY(ddp_group_alloc(g, total * sizeof *grads, (void **)&grads));
  const DdpReducerOptions options = {.bucket_cap_mb = (double)o->size * 4 / 1048576,
                                     .wire = DDP_f32};
  DDP_TRY(ddp_reducer_open(&r, &job, g, grads, &options));
  const DdpBucketInfo *info;
  if (ddp_reducer_buckets(r, &info) != TENSORS) return ddp_error(DDP_FAILED, "buckets");
  DdpStep step = {.reducer = r};
  double exposed = 0;
  for (long u = 0; u < o->updates; u++) {
    ddp_group_at(g, u, "forward");
    if (u == 1) printf("training\n");
    if (happens(&o->kill, rank, u)) raise(SIGKILL);
    if (happens(&o->stop, rank, u)) raise(SIGSTOP);
    if (happens(&o->hang, rank, u)) wait_for_ever("computing");
    if (happens(&o->fail, rank, u)) return ddp_error(DDP_NUMERIC, "loss is nan at update %ld", u);
    if (happens(&o->late, rank, u)) sleep_for(o->save);
    double cpu = cpu_seconds();
    for (int micro = 0; micro < 2; micro++) {
      ddp_reducer_begin(r, micro == 1, u);
      for (int i = 0; i < TENSORS; i++) {
        float *p = grads + tensors[i].offset;
        for (long k = 0; k < o->size; k++)
          p[k] = (micro ? p[k] : 0) + (float)(rank + i + u + k % 5);
        if (o->sums) DDP_TRY(sum_between(&step, rank, world, i));
        ddp_grad_ready(&step, i);
        if (o->sums) DDP_TRY(sum_between(&step, rank, world, i + 1));
      }
      DDP_TRY(ddp_reducer_finish(r, NULL, NULL, &exposed));
    }
    if (u == o->late.update && rank != o->late.rank)
      printf("waited with %.3f s of CPU\n", cpu_seconds() - cpu);
    for (int i = 0; i < TENSORS; i++) {
      for (long k = 0; k < o->size; k++) {
        float want = 2.0f * ((float)(world * (world - 1)) / 2 + (float)(world * (i + u + k % 5)));
        if (grads[tensors[i].offset + k] != want)
          return ddp_error(DDP_FAILED, "update %ld tensor %d: %g not %g", u, i,
                           (double)grads[tensors[i].offset + k], (double)want);
      }
    }
    if (u == o->slow.update) { /* all know that rank 0 saves; it takes longer than the timeout */
      ddp_group_at(g, u, rank == o->slow.rank ? "saving" : "waiting");
      if (happens(&o->lost, rank, u)) raise(SIGKILL);
      if (rank == o->slow.rank) {
        sleep_for(o->save);
        printf("saved\n");
      }
      DDP_TRY(ddp_group_barrier(g, "checkpoint"));
    }
  }
  ddp_reducer_close(r);
  printf("loop done\n");
  return NULL;
}

static void count_buckets(void *self, const DdpFlightEntry *e) {
  *(int *)self += e->bucket >= 0;
}

/* A bucket's sum is there in the middle of backward, without anybody waiting for it. Barriers take the place of
   chance: all have begun the bucket, all have added their parts, then the next gradient finds the sum. */
static DdpError *do_hidden(DdpGroup *g) {
  enum { TENSORS = 4, LARGE = 4096, SMALL = 16 };
  DdpTensor tensors[TENSORS];
  int32_t ready[TENSORS];
  for (int i = 0; i < TENSORS; i++) { /* the small ones are the second bucket */
    tensors[i] = (DdpTensor){
        .name = "t", .elements = i ? SMALL : LARGE, .offset = i ? LARGE + (i - 1) * SMALL : 0};
    ready[i] = i;
  }
  DdpJob job = {.tensors = tensors, .n_tensors = TENSORS, .ready = ready, .n_ready = TENSORS};
  const DdpReducerOptions options = {.bucket_cap_mb = LARGE * 4.0 / 1048576, .wire = DDP_f32};
  float *grads;
  DdpReducer *r;
  DDP_TRY(ddp_group_alloc(g, (LARGE + TENSORS * SMALL) * sizeof *grads, (void **)&grads));
  DDP_TRY(ddp_reducer_open(&r, &job, g, grads, &options));
  int there = 0;
  ddp_flight_sink(ddp_group_flight(g), count_buckets, &there);
  DdpStep step = {.reducer = r};
  for (int i = 0; i < LARGE; i++) grads[i] = 1;
  ddp_reducer_begin(r, true, 0);
  for (int i = 0; i < TENSORS - 1; i++) {
    ddp_grad_ready(&step, i);
    DDP_TRY(ddp_group_barrier(g, "the next gradient"));
  }
  if (there != 1 || grads[0] != (float)ddp_group_world(g))
    return ddp_error(DDP_FAILED, "%d buckets before the last gradient", there);
  ddp_grad_ready(&step, TENSORS - 1);
  DDP_TRY(ddp_reducer_finish(r, NULL, NULL, NULL));
  ddp_flight_sink(ddp_group_flight(g), NULL, NULL);
  if (there != 2) return ddp_error(DDP_FAILED, "%d buckets", there);
  ddp_reducer_close(r);
  printf("hidden\n");
  return NULL;
}

static DdpError *run(DdpGroup *g, const Options *o) {
  if (!strcmp(o->what, "reduce")) return do_reduce(g, o->wire);
  if (!strcmp(o->what, "values")) return do_values(g);
  if (!strcmp(o->what, "loop")) return do_loop(g, o);
  if (!strcmp(o->what, "hidden")) return do_hidden(g);
  return ddp_group_barrier(g, "nothing");
}

int main(int argc, char **argv) {
  DdpLaunch launch;
  int parent;
  alarm(60); /* no rank outlives its test */
  DdpError *e = ddp_launch(&argc, argv, &launch, &parent);
  if (!e && parent >= 0) return parent;
  alarm(60); /* alarms are not inherited */
  Options o = parse(argc, argv);
  DdpGroup *g = NULL;
  if (!e && !strcmp(o.what, "text")) e = ddp_error(DDP_FAILED, "%s", o.text);
  if (!e) {
    char text[256];
    snprintf(text, sizeof text, "model=mlp\n%s\nseed=42\n",
             launch.rank == o.text_rank ? o.text : "learning_rate=0.1");
    uint64_t hash = 7;
    for (const char *p = text; *p; p++) hash = hash * 31 + (unsigned char)*p;
    DdpGroupOptions options = {.intra_node_backend = o.gloo,
                               .timeout = o.timeout,
                               .program_hash = hash,
                               .program_text = text,
                               .record = o.record};
    e = ddp_group_open(&g, &launch, &options);
  }
  if (!e) printf("by %s path %s\n", launch.by, ddp_group_path(g));
  if (!e) e = run(g, &o);
  if (!e && o.stay == launch.rank) wait_for_ever("at the end");
  if (!e) {
    if (o.stay >= 0) printf("at the end\n");
    ddp_group_close(g);
    return 0;
  }
  if (g) ddp_group_abort(g, e);
  ddp_log(DDP_LOG_error, "%s", e->message);
  ddp_launch_report(&launch, e);
  fflush(NULL);
  _exit((int)e->klass); /* what the failed steps held goes with the process */
}
