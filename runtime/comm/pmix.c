/* In: the environment of a PMIx server, rank 0's text. Out: the numbers of the job, that text on
   every rank. Holds: no header and no library of PMIx is needed to build; the few structures have
   had this layout since PMIx 2. The library has no deadlines of its own, so its calls run on a
   thread that is left behind when it does not return in time. */
#include "pmix.h"
#include "log.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TYPE_BOOL = 1, TYPE_STRING = 3, TYPE_INT = 6, TYPE_U16 = 13, TYPE_U32 = 14 };
enum { SCOPE_GLOBAL = 3, RANK_0 = 0 };
static const uint32_t whole_job = UINT32_MAX - 1;
static const char key[] = "ddpc-ep";

typedef struct Proc {
  char job[256];
  uint32_t rank;
} Proc;
typedef struct Value {
  uint16_t type;
  union {
    bool flag;
    char *string;
    uint16_t u16;
    uint32_t u32;
    int integer;
    uint64_t room[3];
  } data;
} Value;
typedef struct Info {
  char key[512];
  uint32_t flags;
  Value value;
} Info;
_Static_assert(sizeof(Proc) == 260 && sizeof(Value) == 32 && sizeof(Info) == 552, "layout of PMIx");

static struct {
  void *library;
  int (*init)(Proc *, Info *, size_t);
  int (*finalize)(const Info *, size_t);
  int (*put)(uint8_t, const char *, Value *);
  int (*commit)(void);
  int (*fence)(const Proc *, size_t, const Info *, size_t);
  int (*get)(const Proc *, const char *, const Info *, size_t, Value **);
  const char *(*error)(int);
} pmix;
static Proc self;
static bool is_open;

static DdpError *load(void) {
  static const char *const names[] = {"libpmix.so.2", "libpmix.so"};
  for (size_t i = 0; i < sizeof names / sizeof *names && !pmix.library; i++)
    pmix.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  if (!pmix.library)
    return ddp_error(
        DDP_USAGE,
        "the launcher speaks PMIx, but libpmix.so.2 cannot be opened (%s): install it, "
        "or set MASTER_ADDR and MASTER_PORT on every rank and start with a launcher "
        "that says rank and world (mpirun, srun, torchrun)",
        dlerror());
  static const struct {
    const char *name;
    void *where;
  } symbols[] = {{"PMIx_Init", &pmix.init},         {"PMIx_Finalize", &pmix.finalize},
                 {"PMIx_Put", &pmix.put},           {"PMIx_Commit", &pmix.commit},
                 {"PMIx_Fence", &pmix.fence},       {"PMIx_Get", &pmix.get},
                 {"PMIx_Error_string", &pmix.error}};
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    void *f = dlsym(pmix.library, symbols[i].name);
    if (!f) return ddp_error(DDP_FAILED, "libpmix has no %s", symbols[i].name);
    memcpy(symbols[i].where, &f, sizeof f);
  }
  return NULL;
}

static DdpError *refused(const char *what, int status) {
  return ddp_error(DDP_PEER,
                   "rendezvous: PMIx: %s: %s; set MASTER_ADDR and MASTER_PORT to do without it",
                   what, pmix.error(status));
}

/* ---------- work with a deadline ---------- */

typedef struct Work {
  DdpError *(*run)(struct Work *);
  DdpError *error;
  double timeout;
  DdpPmixJob job;
  char text[1024];
} Work;

static void *run_work(void *argument) {
  Work *w = argument;
  w->error = w->run(w);
  return NULL;
}

/* Frees the work unless the thread still has it; *out: copy of the finished one. */
static DdpError *within(Work *w, const char *what, Work *out) {
  pthread_t thread;
  sigset_t all, old;
  double timeout = w->timeout;
  sigfillset(&all); /* signals are the main thread's, also on PMIx' own threads */
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int rc = pthread_create(&thread, NULL, run_work, w);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (rc) {
    free(w);
    return ddp_error(DDP_MEMORY, "no thread for PMIx: %s", strerror(rc));
  }
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += (time_t)timeout;
  end.tv_nsec += (long)((timeout - (double)(time_t)timeout) * 1e9);
  if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
  if (pthread_timedjoin_np(thread, NULL, &end)) {
    pthread_detach(thread);
    return ddp_error(DDP_TIMEOUT,
                     "rendezvous: not all ranks came to the launcher's PMIx server within %g s "
                     "(ddp_timeout), or it does not answer (%s)",
                     timeout, what);
  }
  DdpError *error = w->error;
  *out = *w;
  free(w);
  return error;
}

static Work *work_new(DdpError *(*run)(Work *), double timeout) {
  Work *w = calloc(1, sizeof *w);
  if (!w) abort();
  w->run = run;
  w->timeout = timeout;
  return w;
}

/* ---------- what is done ---------- */

static DdpError *number_of(const char *name, const Proc *who, int *out) {
  Value *v = NULL;
  int status = pmix.get(who, name, NULL, 0, &v);
  if (status) return refused(name, status);
  if (v->type == TYPE_U16)
    *out = v->data.u16;
  else if (v->type == TYPE_U32)
    *out = (int)v->data.u32;
  else
    status = -1;
  free(v);
  return status ? ddp_error(DDP_PEER, "PMIx: %s is no number", name) : NULL;
}

static DdpError *do_open(Work *w) {
  int status = pmix.init(&self, NULL, 0);
  if (status)
    return ddp_error(
        DDP_USAGE,
        "PMIX_RANK and PMIX_NAMESPACE are set, but the launcher's PMIx server does not "
        "answer (%s); start the program by its launcher, or unset them",
        pmix.error(status));
  Proc job = self;
  job.rank = whole_job;
  DDP_TRY(number_of("pmix.job.size", &job, &w->job.world));
  DDP_TRY(number_of("pmix.local.size", &job, &w->job.local_world));
  return number_of("pmix.lrank", &self, &w->job.local_rank);
}

static DdpError *do_share(Work *w) {
  Info collect = {.key = "pmix.collect", .value = {.type = TYPE_BOOL, .data.flag = true}};
  int status = 0;
  if (self.rank == RANK_0) {
    Value v = {.type = TYPE_STRING, .data.string = w->text};
    status = pmix.put(SCOPE_GLOBAL, key, &v);
    if (!status) status = pmix.commit();
    if (status) return refused("put", status);
  }
  status = pmix.fence(NULL, 0, &collect, 1);
  if (status) return refused("fence", status);
  if (self.rank == RANK_0) return NULL;
  Proc zero = self;
  zero.rank = RANK_0;
  Value *v = NULL;
  status = pmix.get(&zero, key, NULL, 0, &v);
  if (status) return refused("get", status);
  bool text = v->type == TYPE_STRING && v->data.string;
  if (text) {
    snprintf(w->text, sizeof w->text, "%s", v->data.string);
    free(v->data.string);
  }
  free(v);
  return text ? NULL : ddp_error(DDP_PEER, "PMIx: rank 0 has left no address");
}

DdpError *ddp_pmix_open(DdpPmixJob *job, double timeout) {
  static DdpPmixJob known;
  if (!is_open) {
    Work done;
    DDP_TRY(load());
    DDP_TRY(within(work_new(do_open, timeout), "init", &done));
    known = done.job;
    is_open = true;
    atexit(ddp_pmix_close); /* a launcher takes a client without goodbye for a crash */
  }
  if (job) *job = known;
  return NULL;
}

DdpError *ddp_pmix_share(char *text, size_t size, double timeout) {
  Work done, *w = work_new(do_share, timeout);
  snprintf(w->text, sizeof w->text, "%s", text);
  DDP_TRY(within(w, "fence", &done));
  snprintf(text, size, "%s", done.text);
  return NULL;
}

static DdpError *do_close(Work *w) {
  (void)w;
  pmix.finalize(NULL, 0);
  return NULL;
}

void ddp_pmix_close(void) {
  Work done;
  if (!is_open) return;
  is_open = false;
  ddp_error_free(within(work_new(do_close, 5), "finalize", &done));
}
