/* What an emitted CUDA program calls in libddp_cuda.a, from C and from CUDA C++. */
#ifndef DDP_CUDA_H
#define DDP_CUDA_H
#include "ddp/job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the emitted program: `error` is a cudaError_t; the first one that is none is kept, with its place, for
   DdpDevice.failure. */
void ddp_cuda_check(int error, const char *what, const char *file, int line);

extern const struct DdpDevice ddp_device_cuda;
extern const struct DdpBackend ddp_backend_nccl;

/* ---------- products, through cuBLASLt ----------
   One static DdpGemm for each product of the plan; what the library chose for it is kept in it.
   Y = op(A) op(B), all row-major and dense: A is [m, k] (ta: [k, m]), B is [k, n] (tb: [n, k]), Y is [m, n];
   sums are in float. */
typedef struct DdpExtent { /* fixed + per_sample * B */
  int64_t fixed, per_sample;
} DdpExtent;

typedef enum DdpEpilogue {
  DDP_EPILOGUE_none,
  DDP_EPILOGUE_bias,          /* Y + bias[n] */
  DDP_EPILOGUE_gelu_aux_bias, /* aux = Y + bias, Y = gelu(aux), the form with tanh */
  DDP_EPILOGUE_dgelu,         /* Y * gelu'(aux) */
  DDP_EPILOGUE_dgelu_bgrad,   /* likewise, and bias[n] = sums of the columns of the result */
  DDP_EPILOGUE_bgradb,        /* bias[n] = sums over k of B: with the gradient of a weight */
} DdpEpilogue;

typedef struct DdpGemmChoice DdpGemmChoice;
enum { DDP_GEMM_BATCHES = 4 }; /* sizes of B that are remembered */
typedef struct DdpGemm {
  const char *name; /* "h_0_mlp_c_fc" */
  DdpDType in, out; /* of A and B, of Y; f32 sums */
  bool ta, tb, tf32;
  DdpExtent m, n, k;
  DdpExtent count;                        /* products of one call; 0, 0: one */
  DdpExtent stride_a, stride_b, stride_y; /* elements from one to the next */
  DdpEpilogue epilogue;
  DdpGemmChoice *choice[DDP_GEMM_BATCHES]; /* NULL at first */
} DdpGemm;

/* Enqueues the product on step->stream. add: Y += instead of Y =. Errors are kept for DdpDevice.failure. */
void ddp_cuda_gemm(DdpGemm *g, const DdpStep *step, const void *a, const void *b, void *y,
                   void *bias, void *aux, bool add);
/* For optimizer steps, which have no DdpStep: sizes are fixed. */
void ddp_cuda_gemm_on(DdpGemm *g, void *stream, int64_t batch, const void *a, const void *b,
                      void *y, void *bias, void *aux, bool add);

#ifdef __cplusplus
}
#endif
#endif
