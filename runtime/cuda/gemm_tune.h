/* Products that are measured on the GPU, with a file that keeps what was found (DDP_CUDA_TUNE). Without it the
   library's first choice is taken: measured times differ from run to run, and with the algorithm the bits. */
#ifndef DDP_CUDA_GEMM_TUNE_H
#define DDP_CUDA_GEMM_TUNE_H
#include "gemm_choice.h"

bool gemm_tune_wanted(void);
/* Takes the algorithm that the file names for this product, or times those that the library proposes, which
   writes Y several times, and adds the fastest to the file. Not while the stream is captured. */
DdpError *gemm_tune(const GemmContext *c, DdpGemmChoice *choice, const GemmOperands *at,
                    void *stream);

typedef enum GemmForm { GEMM_together, GEMM_apart, GEMM_measure_apart } GemmForm;
/* Product and epilogue in one call, or apart: what the file says; else `apart` is to be measured some times. */
DdpError *gemm_tune_form(DdpGemmChoice *choice, void *stream, GemmForm *out);
DdpError *gemm_tune_apart_done(DdpGemmChoice *choice, void *stream);
/* Whether something has been measured since the last question: such a pass is not what later ones will be. */
bool gemm_tune_measured(void);
void gemm_tune_close(void);
#endif
