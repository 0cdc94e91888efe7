/* In: a product with its candidates. Out: the fastest of them on this GPU.
   The file has a line for each product, "KEY = VALUE": the key is GPU, version of the library and all that the
   choice depends on; the first line of a key counts. Ranks append whole lines, so they may share the file; what
   they find in it at their start they all use. */
#include "gemm_tune.h"
#include "failure.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 3, RUNS = 4, KEY_BYTES = 512, VALUE_BYTES = 256 };
static const char apart_key[] = " epilogue apart";

typedef struct Entry {
  char *key, *value;
} Entry;
static struct {
  Entry *at;
  size_t n;
  bool read, measured;
  char gpu[320];
  cudaEvent_t begin, end;
} tune;

bool gemm_tune_wanted(void) {
  return *ddp_env(DDP_ENV_DDP_CUDA_TUNE) != 0;
}

bool gemm_tune_measured(void) {
  bool was = tune.measured;
  tune.measured = false;
  return was;
}

/* ---------- the file ---------- */
static DdpError *remember(const char *key, const char *value) {
  Entry *more = realloc(tune.at, (tune.n + 1) * sizeof *more);
  if (!more) return ddp_error(DDP_MEMORY, "out of memory");
  tune.at = more;
  Entry e = {strdup(key), strdup(value)};
  if (!e.key || !e.value) {
    free(e.key);
    free(e.value);
    return ddp_error(DDP_MEMORY, "out of memory");
  }
  tune.at[tune.n++] = e;
  return NULL;
}

static const char *look_up(const char *key) {
  for (size_t i = 0; i < tune.n; i++)
    if (strcmp(tune.at[i].key, key) == 0) return tune.at[i].value;
  return NULL;
}

static DdpError *unreadable(const char *path) {
  return ddp_error(DDP_USAGE, "cannot read DDP_CUDA_TUNE=%s: %s", path, strerror(errno));
}

static DdpError *read_file(void) {
  const char *path = ddp_env(DDP_ENV_DDP_CUDA_TUNE);
  FILE *f = fopen(path, "re");
  char *line = NULL;
  size_t room = 0;
  DdpError *e = NULL;
  if (!f && errno == ENOENT) return NULL; /* nothing has been measured yet */
  if (!f) return unreadable(path);
  while (!e && getline(&line, &room, f) > 0) {
    char *equals = strstr(line, " = "), *end = strchr(line, '\n');
    if (!equals || !end) continue; /* a line that was cut off */
    *equals = *end = 0;
    e = remember(line, equals + 3);
  }
  if (!e && ferror(f)) e = unreadable(path);
  free(line);
  fclose(f);
  return e;
}

static DdpError *append(const char *key, const char *value) {
  const char *path = ddp_env(DDP_ENV_DDP_CUDA_TUNE);
  char line[KEY_BYTES + VALUE_BYTES + 8];
  int n = snprintf(line, sizeof line, "%s = %s\n", key, value);
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  ssize_t written = fd < 0 ? -1 : write(fd, line, (size_t)n);
  if (written != n)
    ddp_log(DDP_LOG_warning, "cannot write DDP_CUDA_TUNE=%s: %s; products will be measured again",
            path, written < 0 ? strerror(errno) : "disk full");
  if (fd >= 0) close(fd);
  return remember(key, value);
}

static DdpError *prepare(const GemmContext *c) {
  struct cudaDeviceProp properties;
  int device = 0;
  if (tune.read) return NULL;
  DDP_TRY(cuda_status(cudaGetDevice(&device), "ask for the GPU"));
  DDP_TRY(cuda_status(cudaGetDeviceProperties(&properties, device), "ask for the GPU's name"));
  snprintf(tune.gpu, sizeof tune.gpu, "%.255s, cuBLASLt %zu", properties.name,
           c->lt.cublasLtGetVersion());
  DDP_TRY(cuda_status(cudaEventCreateWithFlags(&tune.begin, 0), "make an event"));
  DDP_TRY(cuda_status(cudaEventCreateWithFlags(&tune.end, 0), "make an event"));
  DDP_TRY(read_file());
  tune.read = true;
  return NULL;
}

static void key_of(const DdpGemmChoice *choice, char *key) {
  const DdpGemm *g = choice->of;
  const GemmShape *s = &choice->shape;
  snprintf(key, KEY_BYTES,
           "%s, %s%s %d to %d%s, %" PRId64 " of %" PRId64 " x %" PRId64 " x %" PRId64
           ", strides %" PRId64 " %" PRId64 " %" PRId64 ", aligned %u %u %u, epilogue %d",
           tune.gpu, g->ta ? "t" : "n", g->tb ? "t" : "n", (int)g->in, (int)g->out,
           g->tf32 ? " tf32" : "", s->count, s->m, s->n, s->k, s->stride_a, s->stride_b,
           s->stride_y, choice->aligned[0], choice->aligned[1], choice->aligned[2],
           (int)g->epilogue);
}

/* ---------- algorithms ---------- */
static bool restore(const GemmContext *c, DdpGemmChoice *choice, const char *value) {
  cublasLtMatmulAlgo_t algo;
  cublasLtMatmulHeuristicResult_t result;
  double ms = 0;
  int used = 0;
  for (size_t i = 0; i < sizeof algo.data / sizeof *algo.data; i++, value += used)
    if (sscanf(value, "%" SCNx64 "%n", &algo.data[i], &used) != 1) return false;
  if (sscanf(value, " %lf ms", &ms) != 1) return false;
  if (c->lt.cublasLtMatmulAlgoCheck(c->handle, choice->op, choice->b, choice->a, choice->y,
                                    choice->y, &algo, &result) != CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > DDP_PRODUCT_WORKSPACE)
    return false;
  choice->algo = algo;
  choice->workspace = result.workspaceSize;
  choice->ms = ms;
  return true;
}

static DdpError *elapsed(void *stream, double *ms) {
  float some = 0;
  DDP_TRY(cuda_status(cudaEventRecord(tune.end, stream), "measure a product"));
  DDP_TRY(cuda_status(cudaEventSynchronize(tune.end), "measure a product"));
  DDP_TRY(cuda_status(cudaEventElapsedTime(&some, tune.begin, tune.end), "measure a product"));
  *ms = (double)some;
  return NULL;
}

/* The least of some rounds, after one to warm up. */
static DdpError *time_candidate(const GemmContext *c, DdpGemmChoice *choice, const GemmOperands *at,
                                void *stream, double *out) {
  *out = 1e30;
  for (int round = 0; round <= ROUNDS; round++) {
    double ms = 0;
    DDP_TRY(cuda_status(cudaEventRecord(tune.begin, stream), "measure a product"));
    for (int i = 0; i < RUNS; i++) DDP_TRY(gemm_run(c, choice, at, 0.0f, stream));
    DDP_TRY(elapsed(stream, &ms));
    if (round && ms / RUNS < *out) *out = ms / RUNS;
  }
  return NULL;
}

static DdpError *measure(const GemmContext *c, DdpGemmChoice *choice, const GemmOperands *at,
                         void *stream) {
  cublasLtMatmulHeuristicResult_t results[GEMM_CANDIDATES];
  int n = 0, best = 0;
  tune.measured = true;
  choice->ms = 1e30;
  DDP_TRY(gemm_candidates(c, choice, results, &n));
  for (int i = 0; i < n; i++) {
    double ms;
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    choice->algo = results[i].algo;
    choice->workspace = results[i].workspaceSize;
    DDP_TRY(time_candidate(c, choice, at, stream, &ms));
    if (ms < choice->ms) {
      choice->ms = ms;
      best = i;
    }
  }
  choice->algo = results[best].algo;
  choice->workspace = results[best].workspaceSize;
  return NULL;
}

static DdpError *captured(void *stream, bool *out) {
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  DDP_TRY(cuda_status(cudaStreamIsCapturing(stream, &status), "ask for the state of a stream"));
  *out = status != cudaStreamCaptureStatusNone;
  return NULL;
}

DdpError *gemm_tune(const GemmContext *c, DdpGemmChoice *choice, const GemmOperands *at,
                    void *stream) {
  char key[KEY_BYTES], value[VALUE_BYTES];
  bool in_capture = false;
  int n = 0;
  DDP_TRY(prepare(c));
  DDP_TRY(captured(stream, &in_capture));
  if (in_capture) return NULL;
  choice->tuned = true;
  key_of(choice, key);
  const char *known = look_up(key);
  if (known && restore(c, choice, known)) return NULL;
  DDP_TRY(measure(c, choice, at, stream));
  for (size_t i = 0; i < sizeof choice->algo.data / sizeof *choice->algo.data; i++)
    n += snprintf(value + n, sizeof value - (size_t)n, "%016" PRIx64 " ", choice->algo.data[i]);
  snprintf(value + n, sizeof value - (size_t)n, "%.6f ms", choice->ms);
  choice->ms = atof(value + n); /* what later runs read: they compare as this one does */
  return known ? NULL : append(key, value);
}

/* ---------- together or apart ---------- */
DdpError *gemm_tune_form(DdpGemmChoice *choice, void *stream, GemmForm *out) {
  char key[KEY_BYTES + sizeof apart_key];
  bool in_capture = false;
  key_of(choice, key);
  strcat(key, apart_key);
  const char *known = look_up(key);
  double apart = known ? atof(known) : 0;
  *out = apart >= choice->ms ? GEMM_together : GEMM_apart;
  if (known) return NULL;
  DDP_TRY(captured(stream, &in_capture));
  if (in_capture) return NULL;
  *out = GEMM_measure_apart;
  tune.measured = choice->measuring = true;
  return cuda_status(cudaEventRecord(tune.begin, stream), "measure a product");
}

DdpError *gemm_tune_apart_done(DdpGemmChoice *choice, void *stream) {
  char key[KEY_BYTES + sizeof apart_key], value[VALUE_BYTES];
  double ms = 0;
  if (!choice->measuring) return NULL;
  choice->measuring = false;
  DDP_TRY(elapsed(stream, &ms));
  /* the first time its own product was measured too */
  if (choice->rounds == 1 || (choice->rounds > 1 && ms < choice->apart_ms)) choice->apart_ms = ms;
  if (choice->rounds++ < ROUNDS) return NULL;
  key_of(choice, key);
  strcat(key, apart_key);
  snprintf(value, sizeof value, "%.6f ms", choice->apart_ms);
  return append(key, value);
}

void gemm_tune_close(void) {
  for (size_t i = 0; i < tune.n; i++) {
    free(tune.at[i].key);
    free(tune.at[i].value);
  }
  free(tune.at);
  if (tune.begin) (void)cudaEventDestroy(tune.begin);
  if (tune.end) (void)cudaEventDestroy(tune.end);
  memset(&tune, 0, sizeof tune);
}
