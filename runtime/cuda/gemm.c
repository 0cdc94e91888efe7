/* The products of an emitted program. In: a DdpGemm of its tables and where the matrices lie. Out: one call of
   cuBLASLt on the stream of the step. What the library chose is kept for the last few sizes of the batch. */
#include "gemm.h"
#include "choose.h"
#include "failure.h"
#include "gemm_choice.h"
#include "gemm_tune.h"
#include <cuda_runtime_api.h>
#include <string.h>

static DdpGemmChoice *all;

static void forget(const GemmContext *c, DdpGemmChoice *choice) {
  DdpGemmChoice **at = &all;
  while (*at != choice) at = &(*at)->next;
  *at = choice->next;
  gemm_choice_free(c, choice);
}

/* The newest choice stands first. */
static void keep(const GemmContext *c, DdpGemm *g, DdpGemmChoice *choice) {
  DdpGemmChoice **last = &g->choice[DDP_GEMM_BATCHES - 1];
  if (*last) forget(c, *last);
  memmove(&g->choice[1], &g->choice[0], (DDP_GEMM_BATCHES - 1) * sizeof g->choice[0]);
  g->choice[0] = choice;
  choice->next = all;
  all = choice;
}

static DdpGemmChoice *known(const DdpGemm *g, int64_t batch, const GemmOperands *at) {
  for (int i = 0; i < DDP_GEMM_BATCHES && g->choice[i]; i++)
    if (gemm_fits(g->choice[i], batch, at)) return g->choice[i];
  return NULL;
}

/* `add`: Y must not be written more than once, so nothing is measured. */
static DdpError *find(const GemmContext *c, DdpGemm *g, int64_t batch, const GemmOperands *at,
                      bool add, void *stream, DdpGemmChoice **out) {
  *out = known(g, batch, at);
  if (!*out) {
    DDP_TRY(gemm_choose(c, g, batch, at, out));
    keep(c, g, *out);
  }
  if (!gemm_tune_wanted() || add || !(*out)->found || (*out)->tuned) return NULL;
  return gemm_tune(c, *out, at, stream);
}

static DdpError *multiply(DdpGemm *g, int64_t batch, const GemmOperands *at, bool add,
                          void *stream) {
  const GemmContext *c;
  DdpGemmChoice *choice;
  DDP_TRY(gemm_context(&c));
  DDP_TRY(find(c, g, batch, at, add, stream, &choice));
  if (!choice->found)
    return ddp_error(DDP_FAILED, "cuBLASLt has no algorithm for these sizes and types on this GPU");
  return gemm_run(c, choice, at, add ? 1.0f : 0.0f, stream);
}

/* The emitted program cannot return an error: it is kept, with what was to be multiplied. */
static void keep_error(const DdpGemm *g, int64_t batch, DdpError *e) {
  if (!e) return;
  GemmShape s = gemm_shape(g, batch);
  cuda_fail(ddp_error(e->klass, "product %s, %lld of [%lld, %lld] x [%lld, %lld]: %s", g->name,
                      (long long)s.count, (long long)s.m, (long long)s.k, (long long)s.k,
                      (long long)s.n, e->message));
  ddp_error_free(e);
}

void ddp_cuda_gemm_on(DdpGemm *g, void *stream, int64_t batch, const void *a, const void *b,
                      void *y, void *bias, void *aux, bool add) {
  const GemmOperands at = {a, b, y, bias, aux};
  keep_error(g, batch, multiply(g, batch, &at, add, stream));
}

void ddp_cuda_gemm(DdpGemm *g, const DdpStep *step, const void *a, const void *b, void *y,
                   void *bias, void *aux, bool add) {
  ddp_cuda_gemm_on(g, step->stream, step->batch, a, b, y, bias, aux, add);
}

DdpError *cuda_gemm_open(void) {
  const GemmContext *c;
  return gemm_context(&c);
}

void cuda_gemm_close(void) {
  const GemmContext *c = gemm_opened();
  while (all) {
    memset(all->of->choice, 0, sizeof all->of->choice);
    forget(c, all);
  }
  gemm_tune_close();
  gemm_context_close();
}

bool cuda_gemm_measured(void) {
  return gemm_tune_measured();
}

/* ---------- product and epilogue in one, or apart ---------- */
/* Before sm_90 the library does the longer epilogues in a kernel of its own, slower than ours. */
enum { FUSED_FROM = 90 };

static DdpError *pays(const DdpGemm *g, bool *out) {
  *out = true;
  if (g->epilogue == DDP_EPILOGUE_bias) return NULL;
  int device = 0, has = 0;
  DDP_TRY(cuda_status(cudaGetDevice(&device), "ask for the GPU"));
  DDP_TRY(cuda_capability(device, &has));
  *out = has >= FUSED_FROM;
  return NULL;
}

static DdpError *fused(DdpGemm *g, int64_t batch, const GemmOperands *at, bool add, void *stream,
                       bool *done) {
  const GemmContext *c;
  DdpGemmChoice *choice;
  GemmForm form = GEMM_together;
  DDP_TRY(gemm_context(&c));
  DDP_TRY(find(c, g, batch, at, add, stream, &choice));
  bool together = choice->found;
  if (together && choice->tuned) {
    DDP_TRY(gemm_tune_form(choice, stream, &form));
    together = form == GEMM_together;
  } else if (together) {
    DDP_TRY(pays(g, &together));
  }
  *done = together;
  return together ? gemm_run(c, choice, at, add ? 1.0f : 0.0f, stream) : NULL;
}

bool ddp_cuda_gemm_fused(DdpGemm *g, const DdpStep *step, const void *a, const void *b, void *y,
                         void *bias, void *aux, bool add) {
  const GemmOperands at = {a, b, y, bias, aux};
  bool done = true; /* after an error nothing more is done */
  keep_error(g, step->batch, fused(g, step->batch, &at, add, step->stream, &done));
  return done;
}

void ddp_cuda_gemm_apart(DdpGemm *g, const DdpStep *step) {
  for (int i = 0; i < DDP_GEMM_BATCHES && g->choice[i]; i++)
    if (g->choice[i]->batch == step->batch)
      keep_error(g, step->batch, gemm_tune_apart_done(g->choice[i], step->stream));
}
