/* What cuBLASLt chose for one product of the plan and one size of the batch. */
#ifndef DDP_CUDA_GEMM_CHOICE_H
#define DDP_CUDA_GEMM_CHOICE_H
#include "ddp/cuda.h"
#include "gemm_library.h"

typedef struct GemmOperands { /* of one call, row-major as in ddp/cuda.h */
  const void *a, *b;
  void *y, *bias, *aux;
} GemmOperands;

typedef struct GemmShape {
  int64_t m, n, k, count, stride_a, stride_b, stride_y;
} GemmShape;

struct DdpGemmChoice {
  int64_t batch; /* B */
  GemmShape shape;
  uint32_t aligned[3]; /* bytes that a, b, y are multiples of, at most 256 */
  cublasLtMatmulDesc_t op;
  cublasLtMatrixLayout_t a, b, y; /* of op(A), op(B), Y in our order; the library gets B first */
  cublasLtMatmulAlgo_t algo;
  size_t workspace;
  bool found; /* the library has an algorithm */
  /* gemm_tune.h: algo is the fastest one, of ms; how long product and epilogue take apart, and how often
     that has been measured */
  bool tuned, measuring;
  double ms, apart_ms;
  int rounds;
  DdpGemm *of;         /* whose choice it is */
  DdpGemmChoice *next; /* all of the process, to be given back */
};

enum { GEMM_CANDIDATES = 8 };

GemmShape gemm_shape(const DdpGemm *g, int64_t batch);
/* Describes the product to the library and asks it for algorithms: found = false where it has none. */
DdpError *gemm_choose(const GemmContext *c, DdpGemm *g, int64_t batch, const GemmOperands *at,
                      DdpGemmChoice **out);
/* The algorithms that the library proposes, the one it takes for the fastest first. */
DdpError *gemm_candidates(const GemmContext *c, const DdpGemmChoice *choice,
                          cublasLtMatmulHeuristicResult_t *results, int *n);
bool gemm_fits(const DdpGemmChoice *choice, int64_t batch, const GemmOperands *at);
/* Enqueues; Y counts `beta` times. */
DdpError *gemm_run(const GemmContext *c, DdpGemmChoice *choice, const GemmOperands *at, float beta,
                   void *stream);
void gemm_choice_free(const GemmContext *c, DdpGemmChoice *choice);
#endif
