/* In: a product with its sizes. Out: descriptors and an algorithm of cuBLASLt.
   The library thinks in columns: our row-major Y = op(A) op(B) is its column-major Y' = op(B)' op(A)', and a
   row-major [r, c] is its column-major (c x r) with leading dimension c. So our B is its A and the other way
   round, rows of its result are our columns, and "transposed" keeps its meaning. */
#include "gemm_choice.h"
#include <stdlib.h>

typedef struct GemmType { /* of an element; `known` since the library's f32 is number 0 */
  bool known;
  cudaDataType_t type;
} GemmType;
static const GemmType types[DDP_DTYPE_COUNT] = {[DDP_f32] = {true, CUDA_R_32F},
                                                [DDP_bf16] = {true, CUDA_R_16BF},
                                                [DDP_f16] = {true, CUDA_R_16F}};

/* The library's names are about its operands, which are ours changed over. */
static const struct {
  cublasLtEpilogue_t name;
  bool bias, aux; /* it has these operands */
} epilogues[] = {
    [DDP_EPILOGUE_none] = {CUBLASLT_EPILOGUE_DEFAULT, false, false},
    [DDP_EPILOGUE_bias] = {CUBLASLT_EPILOGUE_BIAS, true, false},
    [DDP_EPILOGUE_gelu] = {CUBLASLT_EPILOGUE_GELU, false, false},
    [DDP_EPILOGUE_gelu_bias] = {CUBLASLT_EPILOGUE_GELU_BIAS, true, false},
    [DDP_EPILOGUE_gelu_aux] = {CUBLASLT_EPILOGUE_GELU_AUX, false, true},
    [DDP_EPILOGUE_gelu_aux_bias] = {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, true, true},
    [DDP_EPILOGUE_dgelu] = {CUBLASLT_EPILOGUE_DGELU, false, true},
    [DDP_EPILOGUE_dgelu_bgrad] = {CUBLASLT_EPILOGUE_DGELU_BGRAD, true, true},
    [DDP_EPILOGUE_bgrada] = {CUBLASLT_EPILOGUE_BGRADB, true, false},
    [DDP_EPILOGUE_bgradb] = {CUBLASLT_EPILOGUE_BGRADA, true, false},
};

static int64_t extent(DdpExtent e, int64_t batch) {
  return e.fixed + e.per_sample * batch;
}

GemmShape gemm_shape(const DdpGemm *g, int64_t batch) {
  int64_t count = extent(g->count, batch);
  return (GemmShape){.m = extent(g->m, batch),
                     .n = extent(g->n, batch),
                     .k = extent(g->k, batch),
                     .count = g->count.fixed || g->count.per_sample ? count : 1,
                     .stride_a = extent(g->stride_a, batch),
                     .stride_b = extent(g->stride_b, batch),
                     .stride_y = extent(g->stride_y, batch)};
}

static uint32_t alignment(const void *p) {
  uint32_t bytes = 256;
  while (bytes > 1 && (uintptr_t)p % bytes) bytes /= 2;
  return bytes;
}

/* ---------- descriptors ---------- */
static cublasStatus_t set(const GemmContext *c, DdpGemmChoice *choice,
                          cublasLtMatmulDescAttributes_t what, const void *value, size_t bytes) {
  return c->lt.cublasLtMatmulDescSetAttribute(choice->op, what, value, bytes);
}
#define SET(what, value)                                                                           \
  DDP_TRY(gemm_status(c, set(c, choice, CUBLASLT_MATMUL_DESC_##what, &(value), sizeof(value)),     \
                      "describe a product"))

static DdpError *point(const GemmContext *c, DdpGemmChoice *choice, const GemmOperands *at) {
  if (epilogues[choice->of->epilogue].bias) SET(BIAS_POINTER, at->bias);
  if (epilogues[choice->of->epilogue].aux) SET(EPILOGUE_AUX_POINTER, at->aux);
  return NULL;
}

static DdpError *describe(const GemmContext *c, DdpGemmChoice *choice, const GemmOperands *at) {
  const DdpGemm *g = choice->of;
  const GemmShape *s = &choice->shape;
  cublasComputeType_t in = g->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasOperation_t first = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t second = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
  int32_t out = (int32_t)types[g->out].type;
  DDP_TRY(gemm_status(c, c->lt.cublasLtMatmulDescCreate(&choice->op, in, CUDA_R_32F),
                      "describe a product"));
  SET(TRANSA, first);
  SET(TRANSB, second);
  SET(EPILOGUE, epilogues[g->epilogue].name);
  if (epilogues[g->epilogue].bias) SET(BIAS_DATA_TYPE, out);
  if (epilogues[g->epilogue].aux) SET(EPILOGUE_AUX_LD, s->n);
  if (epilogues[g->epilogue].aux && s->count > 1) SET(EPILOGUE_AUX_BATCH_STRIDE, s->stride_y);
  /* What stands there when the algorithm is chosen says how it is aligned. */
  return point(c, choice, at);
}

/* A row-major matrix. */
static DdpError *layout(const GemmContext *c, const GemmShape *s, DdpDType dtype, int64_t rows,
                        int64_t columns, int64_t stride, cublasLtMatrixLayout_t *out) {
  const int32_t count = (int32_t)s->count;
  DDP_TRY(gemm_status(c,
                      c->lt.cublasLtMatrixLayoutCreate(out, types[dtype].type, (uint64_t)columns,
                                                       (uint64_t)rows, columns),
                      "describe a matrix"));
  if (count == 1) return NULL;
  DDP_TRY(gemm_status(c,
                      c->lt.cublasLtMatrixLayoutSetAttribute(
                          *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                      "describe a matrix"));
  return gemm_status(c,
                     c->lt.cublasLtMatrixLayoutSetAttribute(
                         *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
                     "describe a matrix");
}

static DdpError *layouts(const GemmContext *c, DdpGemmChoice *choice) {
  const DdpGemm *g = choice->of;
  const GemmShape *s = &choice->shape;
  DDP_TRY(layout(c, s, g->in, g->ta ? s->k : s->m, g->ta ? s->m : s->k, s->stride_a, &choice->a));
  DDP_TRY(layout(c, s, g->in, g->tb ? s->n : s->k, g->tb ? s->k : s->n, s->stride_b, &choice->b));
  return layout(c, s, g->out, s->m, s->n, s->stride_y, &choice->y);
}

/* ---------- the algorithm ---------- */
static DdpError *prefer(const GemmContext *c, const DdpGemmChoice *choice,
                        cublasLtMatmulPreference_t preference) {
  const size_t workspace = DDP_PRODUCT_WORKSPACE;
  const struct {
    cublasLtMatmulPreferenceAttributes_t what;
    const void *value;
    size_t bytes;
  } wishes[] = {
      {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &choice->aligned[1], sizeof(uint32_t)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &choice->aligned[0], sizeof(uint32_t)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &choice->aligned[2], sizeof(uint32_t)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &choice->aligned[2], sizeof(uint32_t)},
  };
  for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++)
    DDP_TRY(gemm_status(c,
                        c->lt.cublasLtMatmulPreferenceSetAttribute(
                            preference, wishes[i].what, wishes[i].value, wishes[i].bytes),
                        "choose an algorithm"));
  return NULL;
}

DdpError *gemm_candidates(const GemmContext *c, const DdpGemmChoice *choice,
                          cublasLtMatmulHeuristicResult_t *results, int *n) {
  cublasLtMatmulPreference_t preference = NULL;
  *n = 0;
  DDP_TRY(gemm_status(c, c->lt.cublasLtMatmulPreferenceCreate(&preference), "choose an algorithm"));
  DdpError *e = prefer(c, choice, preference);
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if (!e)
    status =
        c->lt.cublasLtMatmulAlgoGetHeuristic(c->handle, choice->op, choice->b, choice->a, choice->y,
                                             choice->y, preference, GEMM_CANDIDATES, results, n);
  (void)c->lt.cublasLtMatmulPreferenceDestroy(preference);
  if (e || status == CUBLAS_STATUS_NOT_SUPPORTED) return e; /* none: *n is 0 */
  return gemm_status(c, status, "choose an algorithm");
}

static DdpError *first_candidate(const GemmContext *c, DdpGemmChoice *choice) {
  cublasLtMatmulHeuristicResult_t results[GEMM_CANDIDATES];
  int n = 0;
  DDP_TRY(gemm_candidates(c, choice, results, &n));
  for (int i = 0; i < n && !choice->found; i++) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    choice->algo = results[i].algo;
    choice->workspace = results[i].workspaceSize;
    choice->found = true;
  }
  return NULL;
}

static DdpError *possible(const DdpGemm *g, const GemmShape *s) {
  if (!types[g->in].known || !types[g->out].known)
    return ddp_error(DDP_FAILED, "matrices of f32, bf16 and f16 are multiplied on GPUs, no others");
  if (s->count > INT32_MAX) return ddp_error(DDP_FAILED, "more than 2^31 products in one call");
  return NULL;
}

DdpError *gemm_choose(const GemmContext *c, DdpGemm *g, int64_t batch, const GemmOperands *at,
                      DdpGemmChoice **out) {
  GemmShape s = gemm_shape(g, batch);
  *out = NULL;
  DDP_TRY(possible(g, &s));
  DdpGemmChoice *choice = calloc(1, sizeof *choice);
  if (!choice) return ddp_error(DDP_MEMORY, "out of memory");
  *choice = (DdpGemmChoice){.batch = batch,
                            .shape = s,
                            .of = g,
                            .aligned = {alignment(at->a), alignment(at->b), alignment(at->y)}};
  DdpError *e = describe(c, choice, at);
  if (!e) e = layouts(c, choice);
  if (!e) e = first_candidate(c, choice);
  if (e) {
    gemm_choice_free(c, choice);
    return e;
  }
  *out = choice;
  return NULL;
}

bool gemm_fits(const DdpGemmChoice *choice, int64_t batch, const GemmOperands *at) {
  return choice->batch == batch && alignment(at->a) >= choice->aligned[0] &&
         alignment(at->b) >= choice->aligned[1] && alignment(at->y) >= choice->aligned[2];
}

DdpError *gemm_run(const GemmContext *c, DdpGemmChoice *choice, const GemmOperands *at, float beta,
                   void *stream) {
  const float one = 1.0f;
  DDP_TRY(point(c, choice, at));
  return gemm_status(c,
                     c->lt.cublasLtMatmul(c->handle, choice->op, &one, at->b, choice->b, at->a,
                                          choice->a, &beta, at->y, choice->y, at->y, choice->y,
                                          &choice->algo, c->workspace, choice->workspace, stream),
                     "multiply");
}

void gemm_choice_free(const GemmContext *c, DdpGemmChoice *choice) {
  if (!choice) return;
  if (choice->a) (void)c->lt.cublasLtMatrixLayoutDestroy(choice->a);
  if (choice->b) (void)c->lt.cublasLtMatrixLayoutDestroy(choice->b);
  if (choice->y) (void)c->lt.cublasLtMatrixLayoutDestroy(choice->y);
  if (choice->op) (void)c->lt.cublasLtMatmulDescDestroy(choice->op);
  free(choice);
}
