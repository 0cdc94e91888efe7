/* The backend of NVIDIA GPUs. In: memory of devices, streams. Out: sums and copies that are enqueued on a stream
   and happen in its order; calls return before. One communicator over all ranks, used by one thread; it is
   non-blocking, so that no call waits for longer than its deadline. After an error of any rank it is given up, and
   every later call says so.
   Only ncclSum: denominators hold the number of ranks, and an average would keep NCCL from reducing in the switches.
   Nothing here has run on a GPU; the stand-in of tests/cudasim says what was asked of NCCL and in which order. */
#include "clock.h"
#include "comm.h"
#include "device.h"
#include "failure.h"
#include "graph.h"
#include "nccl_library.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double abort_wait = 1.0; /* seconds; NCCL's abort waits for what hangs now and then */
enum { NCCL_ARENAS = 16, NCCL_PAGE = 4096 /* windows begin and end at multiples */ };

typedef struct Arena {
  void *at;
  ncclWindow_t window; /* the same memory on all ranks, for kernels that read it in place */
  void *handle;        /* where there are no windows */
} Arena;

struct DdpComm {
  const NcclContext *lib;
  ncclComm_t comm; /* NULL: given up */
  int rank, world;
  double timeout;
  bool (*patience)(void *self, int rank);
  void *patience_self;
  cudaStream_t wire;
  void *one; /* a float: of the first collective and of barriers */
  Arena arenas[NCCL_ARENAS];
  int n_arenas;
  atomic_bool aborted; /* by another thread: another rank has failed */
};

/* ---------- waiting ---------- */

static void *abort_comm(void *argument) {
  const DdpComm *c = argument;
  (void)c->lib->nccl.ncclCommAbort(c->comm);
  return NULL;
}

/* Ends what hangs on the device, so that the others learn of it from NCCL too. */
static void give_up(DdpComm *c) {
  pthread_t thread;
  struct timespec until;
  if (!c->comm) return;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += (time_t)abort_wait;
  DdpComm *copy = malloc(sizeof *copy); /* the thread may outlive c */
  if (copy) *copy = *c;
  if (copy && pthread_create(&thread, NULL, abort_comm, copy) == 0 &&
      pthread_timedjoin_np(thread, NULL, &until) == 0)
    free(copy);
  c->comm = NULL;
}

static DdpError *given_up(const char *what) {
  return ddp_error(DDP_PEER, "%s was given up", what);
}

/* Of an error that a call gave, or that NCCL found meanwhile. */
static DdpError *nccl_error(DdpComm *c, ncclResult_t result, const char *what) {
  const char *text = c->lib->nccl.ncclGetErrorString(result);
  const char *more = c->comm ? c->lib->nccl.ncclGetLastError(c->comm) : NULL;
  bool peer = result == ncclRemoteError || result == ncclSystemError;
  DdpError *e = ddp_error(peer ? DDP_PEER : DDP_FAILED,
                          "%s: NCCL says \"%s\"%s%s; NCCL_DEBUG=INFO tells more", what, text,
                          more && *more ? ": " : "", more && *more ? more : "");
  give_up(c);
  return e;
}

typedef struct Deadline {
  double last, at;
  bool patient; /* asks whether who is missing may be waited for */
} Deadline;

static DdpError *expired(DdpComm *c, Deadline *d, const char *what) {
  d->at += ddp_clock_paused(&d->last);
  if (d->last < d->at) return NULL;
  if (d->patient && c->patience && c->patience(c->patience_self, -1)) {
    d->at = ddp_clock() + c->timeout;
    return NULL;
  }
  give_up(c);
  return ddp_error(DDP_TIMEOUT, "%s", what);
}

static void nap(void) {
  const struct timespec t = {0, 100000};
  nanosleep(&t, NULL);
}

static Deadline until(const DdpComm *c) {
  double now = ddp_clock();
  return (Deadline){now, now + c->timeout, true};
}

/* A call of a non-blocking communicator has taken effect when NCCL says that nothing is in progress. */
static DdpError *settle(DdpComm *c, ncclResult_t result, Deadline d, const char *what) {
  while (result == ncclInProgress || result == ncclSuccess) {
    ncclResult_t state = ncclSuccess;
    if (atomic_load(&c->aborted)) {
      give_up(c);
      return given_up(what);
    }
    result = c->lib->nccl.ncclCommGetAsyncError(c->comm, &state);
    if (result != ncclSuccess) break;
    if (state == ncclSuccess) return NULL;
    result = state;
    if (state != ncclInProgress) break;
    DDP_TRY(expired(c, &d, what));
    nap();
  }
  return nccl_error(c, result, what);
}

/* Before each call: may it be made? */
static DdpError *alive(DdpComm *c, const char *what) {
  if (c->comm && atomic_load(&c->aborted)) give_up(c);
  return c->comm ? NULL : given_up(what);
}

static DdpError *nccl_async_error(DdpComm *c) {
  static const char what[] = "collectives of the GPUs";
  ncclResult_t state = ncclSuccess;
  DDP_TRY(alive(c, what));
  ncclResult_t result = c->lib->nccl.ncclCommGetAsyncError(c->comm, &state);
  if (result == ncclSuccess) result = state;
  if (result == ncclSuccess || result == ncclInProgress) return NULL;
  return nccl_error(c, result, what);
}

/* All that the stream of collectives holds has happened. */
static DdpError *finish(DdpComm *c, Deadline d, const char *what) {
  for (;;) {
    cudaError_t error = cudaStreamQuery(c->wire);
    if (error != cudaErrorNotReady) return cuda_status(error, what);
    (void)cudaGetLastError();
    DDP_TRY(nccl_async_error(c));
    DDP_TRY(expired(c, &d, what));
    nap();
  }
}

/* ---------- collectives ---------- */

static ncclDataType_t type_of(DdpDType wire) {
  return wire == DDP_bf16 ? ncclBfloat16 : wire == DDP_f16 ? ncclFloat16 : ncclFloat32;
}

static DdpError *nccl_all_reduce(DdpComm *c, void *data, int64_t n, DdpDType wire, const char *what,
                                 void *stream, DdpWork **out) {
  *out = NULL;
  if (n == 0) return NULL;
  DDP_TRY(alive(c, what));
  return settle(
      c, c->lib->nccl.ncclAllReduce(data, data, (size_t)n, type_of(wire), ncclSum, c->comm, stream),
      until(c), what);
}

static DdpError *nccl_broadcast(DdpComm *c, void *data, int64_t bytes, int root, const char *what,
                                void *stream, DdpWork **out) {
  *out = NULL;
  if (bytes == 0) return NULL;
  DDP_TRY(alive(c, what));
  return settle(
      c, c->lib->nccl.ncclBroadcast(data, data, (size_t)bytes, ncclInt8, root, c->comm, stream),
      until(c), what);
}

static DdpError *nccl_all_gather(DdpComm *c, const void *mine, void *all, int64_t bytes,
                                 const char *what, void *stream, DdpWork **out) {
  *out = NULL;
  if (bytes == 0) return NULL;
  DDP_TRY(alive(c, what));
  return settle(c, c->lib->nccl.ncclAllGather(mine, all, (size_t)bytes, ncclInt8, c->comm, stream),
                until(c), what);
}

/* What is enqueued is done when the stream has come so far; there is nothing to wait for here. */
static DdpError *nccl_poll(DdpWork *w, bool *done) {
  (void)w;
  *done = true;
  return NULL;
}

static DdpError *nccl_wait(DdpWork *w) {
  (void)w;
  return NULL;
}

static DdpError *meet_by(DdpComm *c, Deadline d, const char *what) {
  DDP_TRY(alive(c, what));
  DDP_TRY(settle(
      c, c->lib->nccl.ncclAllReduce(c->one, c->one, 1, ncclFloat32, ncclSum, c->comm, c->wire), d,
      what));
  return finish(c, d, what);
}

static DdpError *nccl_barrier(DdpComm *c, const char *what) {
  return meet_by(c, until(c), what);
}

/* ---------- memory ---------- */

static DdpError *register_arena(DdpComm *c, Arena *a, size_t bytes) {
  static const char what[] = "memory for sums of GPUs";
  const NcclWindowLibrary *w = &c->lib->window;
  if (w->ncclCommWindowRegister) {
    ncclResult_t r =
        w->ncclCommWindowRegister(c->comm, a->at, bytes, &a->window, NCCL_WIN_COLL_SYMMETRIC);
    DDP_TRY(settle(c, r, until(c), what));
  }
  if (a->window) return NULL; /* NULL: these GPUs cannot share it */
  return settle(c, c->lib->nccl.ncclCommRegister(c->comm, a->at, bytes, &a->handle), until(c),
                what);
}

static DdpError *no_room(size_t bytes) {
  int64_t left = 0, all = 0;
  (void)cudaGetLastError();
  DDP_TRY(ddp_device_cuda.room(&left, &all));
  return ddp_error(DDP_MEMORY,
                   "NCCL cannot allocate %.1f MiB for gradients: the GPU has %.1f of its %.1f GiB "
                   "left; a smaller batch or model needs less, `ddpc plan` shows what takes it",
                   (double)bytes / 1048576.0, (double)left / 1073741824.0,
                   (double)all / 1073741824.0);
}

static DdpError *nccl_alloc(DdpComm *c, size_t bytes, void **out) {
  size_t whole = (bytes / NCCL_PAGE + 1) * NCCL_PAGE; /* the same on all ranks */
  Arena a = {.at = NULL};
  *out = NULL;
  DDP_TRY(alive(c, "memory for sums of GPUs"));
  if (c->n_arenas == NCCL_ARENAS)
    return ddp_error(DDP_FAILED, "too many arenas of NCCL (internal fault)");
  if (c->lib->nccl.ncclMemAlloc(&a.at, whole) != ncclSuccess) return no_room(whole);
  DDP_TRY(cuda_status(cudaMemsetAsync(a.at, 0, whole, c->wire), "clear memory of the GPU"));
  DDP_TRY(register_arena(c, &a, whole));
  c->arenas[c->n_arenas++] = a;
  *out = a.at;
  return finish(c, until(c), "memory for sums of GPUs");
}

static void nccl_free(DdpComm *c, void *p) {
  for (int i = 0; i < c->n_arenas; i++) {
    Arena *a = &c->arenas[i];
    if (a->at != p || !c->comm) continue;
    cuda_graph_drop(); /* they sum in it */
    if (a->window) (void)c->lib->window.ncclCommWindowDeregister(c->comm, a->window);
    if (a->handle) (void)c->lib->nccl.ncclCommDeregister(c->comm, a->handle);
    (void)c->lib->nccl.ncclMemFree(a->at);
    a->at = NULL;
  }
}

/* ---------- life ---------- */

static bool nccl_probe(const char **why) {
  static char text[1400];
  const NcclContext *lib;
  DdpError *e = nccl_context(&lib);
  if (e) snprintf(text, sizeof text, "%s", e->message);
  *why = text;
  bool there = !e;
  ddp_error_free(e);
  return there;
}

/* All ranks are asked for before NCCL is: it would wait for one that never comes without a name for it. */
static DdpError *everybody(const DdpCommOptions *o) {
  char key[128];
  snprintf(key, sizeof key, "%s/here/%d", o->prefix, o->rank);
  DDP_TRY(ddp_store_set(o->store, key, "", 0));
  for (int r = 0; r < o->world; r++) {
    void *data;
    size_t n;
    snprintf(key, sizeof key, "%s/here/%d", o->prefix, r);
    DdpError *e = ddp_store_get(o->store, key, o->deadline, &data, &n);
    if (e && e->klass == DDP_TIMEOUT) {
      ddp_error_free(e);
      return ddp_error_rank(DDP_TIMEOUT, r, "opening NCCL");
    }
    DDP_TRY(e);
    free(data);
  }
  return NULL;
}

/* Rank 0 makes the name of the communicator, and the others get it through the store. */
static DdpError *share_id(const NcclContext *lib, const DdpCommOptions *o, ncclUniqueId *id) {
  char key[128];
  void *data;
  size_t n;
  snprintf(key, sizeof key, "%s/id", o->prefix);
  if (o->rank == 0) {
    ncclResult_t r = lib->nccl.ncclGetUniqueId(id);
    if (r != ncclSuccess)
      return ddp_error(
          DDP_FAILED,
          "opening NCCL: \"%s\": %s; is NCCL_SOCKET_IFNAME a network interface of this host?",
          lib->nccl.ncclGetErrorString(r), lib->nccl.ncclGetLastError(NULL));
    return ddp_store_set(o->store, key, id, sizeof *id);
  }
  DDP_TRY(ddp_store_get(o->store, key, o->deadline, &data, &n));
  if (n == sizeof *id) memcpy(id, data, n);
  free(data);
  if (n == sizeof *id) return NULL;
  return ddp_error(DDP_FAILED, "opening NCCL: the id of rank 0 has %zu bytes (internal fault)", n);
}

static DdpError *connect_ranks(DdpComm *c, const DdpCommOptions *o) {
  static const char what[] = "opening NCCL";
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  const Deadline d = {ddp_clock(), o->deadline, false};
  config.blocking = 0;
  DDP_TRY(everybody(o));
  DDP_TRY(share_id(c->lib, o, &id));
  ncclResult_t r = c->lib->nccl.ncclCommInitRankConfig(&c->comm, o->world, id, o->rank, &config);
  if (!c->comm) return nccl_error(c, r, what);
  DDP_TRY(settle(c, r, d, what));
  DDP_TRY(ddp_device_cuda.alloc(DDP_MEMORY_grads, sizeof(float), &c->one));
  return meet_by(c, d, what); /* connects: nothing of that may happen in a captured pass */
}

/* Finalize and destroy of a communicator that works; abort of any other. */
static void disconnect(DdpComm *c) {
  const NcclLibrary *n = &c->lib->nccl;
  if (!c->comm) return;
  cuda_graph_drop(); /* they call it */
  DdpError *e = settle(c, n->ncclCommFinalize(c->comm), until(c), "closing NCCL");
  ddp_error_free(e);
  if (c->comm) (void)n->ncclCommDestroy(c->comm);
  c->comm = NULL;
}

static void nccl_close(DdpComm *c) {
  if (!c) return;
  disconnect(c);
  ddp_device_cuda.free(DDP_MEMORY_grads, c->one, sizeof(float));
  free(c);
}

static DdpError *nccl_open(DdpComm **out, const DdpCommOptions *o) {
  const NcclContext *lib;
  *out = NULL;
  DDP_TRY(nccl_context(&lib));
  DdpComm *c = calloc(1, sizeof *c);
  if (!c) return ddp_error(DDP_MEMORY, "no memory for NCCL");
  c->lib = lib;
  c->rank = o->rank;
  c->world = o->world;
  c->timeout = o->timeout;
  c->patience = o->patience;
  c->patience_self = o->patience_self;
  c->wire = ddp_device_cuda.stream(DDP_STREAM_wire);
  atomic_init(&c->aborted, false);
  DdpError *e = connect_ranks(c, o);
  if (!e) {
    *out = c;
    return NULL;
  }
  give_up(c);
  nccl_close(c);
  return e;
}

static void nccl_abort(DdpComm *c) {
  atomic_store(&c->aborted, true);
}

const DdpBackend ddp_backend_nccl = {
    .name = "nccl",
    .caps = DDP_CAP_DEVICE,
    .probe = nccl_probe,
    .open = nccl_open,
    .alloc = nccl_alloc,
    .free = nccl_free,
    .all_reduce = nccl_all_reduce,
    .broadcast = nccl_broadcast,
    .all_gather = nccl_all_gather,
    .barrier = nccl_barrier,
    .poll = nccl_poll,
    .wait = nccl_wait,
    .async_error = nccl_async_error,
    .abort = nccl_abort,
    .close = nccl_close,
};
