/* What an emitted CUDA program calls in libddp_cuda.a, from C and from CUDA C++. */
#ifndef DDP_CUDA_H
#define DDP_CUDA_H
#include "ddp/defaults.h"
#include "ddp/job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the emitted program: `error` is a cudaError_t; the first one that is none is kept, with its place, for
   DdpDevice.failure. */
void ddp_cuda_check(int error, const char *what, const char *file, int line);

extern const struct DdpDevice ddp_device_cuda;
extern const struct DdpBackend ddp_backend_nccl;

/* ddp_all_sum in the memory of the GPU; where one rank trains alone, a copy. */
void ddp_cuda_all_sum(DdpStep *step, float *out, const float *in, int64_t n);

/* ---------- products, through cuBLASLt ----------
   One static DdpGemm for each product of the plan; what the library chose for it is kept in it.
   Y = op(A) op(B), all row-major and dense: A is [m, k] (ta: [k, m]), B is [k, n] (tb: [n, k]), Y is [m, n];
   sums are in float. */
typedef struct DdpExtent { /* fixed + per_sample * B */
  int64_t fixed, per_sample;
} DdpExtent;

/* aux lies as Y does, in its type; n is a multiple of 8 then. A bias has the type of Y. Gradients of a bias
   take the place of what was there, also where Y is added to. */
typedef enum DdpEpilogue {
  DDP_EPILOGUE_none,
  DDP_EPILOGUE_bias,          /* Y + bias[n] */
  DDP_EPILOGUE_gelu_aux_bias, /* aux = Y + bias, Y = gelu(aux), the form with tanh */
  DDP_EPILOGUE_dgelu,         /* Y * gelu'(aux) */
  DDP_EPILOGUE_dgelu_bgrad,   /* likewise, and bias[n] = sums of the columns of the result */
  DDP_EPILOGUE_bgrada, /* bias[m] = sums over k of op(A): with the gradient of a weight [out, in] */
  DDP_EPILOGUE_bgradb, /* bias[n] = sums over k of op(B): with that of a weight [in, out] */
  DDP_EPILOGUE_gelu,   /* Y = gelu(Y), which nothing is kept of */
  DDP_EPILOGUE_gelu_bias,
  DDP_EPILOGUE_gelu_aux,
} DdpEpilogue;

typedef struct DdpGemmChoice DdpGemmChoice;
enum { DDP_GEMM_BATCHES = 4 }; /* sizes of B that are remembered */
typedef struct DdpGemm {
  const char *name; /* "h_0_mlp_c_fc" */
  DdpDType in, out; /* of A and B, of Y; f32 sums */
  bool ta DDP_UNSAID(false), tb DDP_UNSAID(false), tf32 DDP_UNSAID(false);
  DdpExtent m, n, k;
  DdpExtent count DDP_UNSAID({}); /* products of one call; 0, 0: one */
  /* elements from one to the next */
  DdpExtent stride_a DDP_UNSAID({}), stride_b DDP_UNSAID({}), stride_y DDP_UNSAID({});
  DdpEpilogue epilogue DDP_UNSAID(DDP_EPILOGUE_none);
  DdpGemmChoice *choice[DDP_GEMM_BATCHES] DDP_UNSAID({}); /* NULL at first */
} DdpGemm;

/* Enqueues the product on step->stream, which is that of all products. add: Y += instead of Y =. Errors are kept for DdpDevice.failure. */
void ddp_cuda_gemm(DdpGemm *g, const DdpStep *step, const void *a, const void *b, void *y,
                   void *bias, void *aux, bool add);
/* Does it where product and epilogue in one are there and pay: from sm_90 on, unless measured otherwise
   (DDP_CUDA_TUNE). false: nothing is enqueued, and the caller multiplies and launches a kernel of its own.
   ddp_cuda_gemm_apart says that it has done so, which ends the measurement. */
bool ddp_cuda_gemm_fused(DdpGemm *g, const DdpStep *step, const void *a, const void *b, void *y,
                         void *bias, void *aux, bool add);
void ddp_cuda_gemm_apart(DdpGemm *g, const DdpStep *step);
/* For optimizer steps, which have no DdpStep: sizes are fixed. */
void ddp_cuda_gemm_on(DdpGemm *g, void *stream, int64_t batch, const void *a, const void *b,
                      void *y, void *bias, void *aux, bool add);

#ifdef __cplusplus
}
#endif
#endif
