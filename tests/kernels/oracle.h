/* The CPU's kernels, called from C++: what the device's are compared with. */
#ifndef TEST_KERNELS_ORACLE_H
#define TEST_KERNELS_ORACLE_H
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
typedef enum OracleFunction {
  ORACLE_exp,
  ORACLE_expm1,
  ORACLE_log,
  ORACLE_log1p,
  ORACLE_tanh,
  ORACLE_erf,
  ORACLE_sin,
  ORACLE_cos,
  ORACLE_FUNCTIONS
} OracleFunction;
float oracle_function(OracleFunction f, float x);

typedef enum OracleDraw {
  ORACLE_uniform,
  ORACLE_normal,
  ORACLE_bernoulli,
  ORACLE_randint
} OracleDraw;
/* At a site in update `update`; turns: of the loops around it, from the outermost. */
double oracle_draw(OracleDraw kind, uint64_t seed, int64_t update, uint64_t site,
                   const int64_t *turn, int turns, int64_t position, uint32_t element);

void oracle_adamw(float *p, const float *g, float *m, float *v, int64_t n, double lr,
                  double weight_decay, double beta1, double beta2, double eps, int64_t step);
void oracle_sgd(float *p, const float *g, float *buf, int64_t n, double lr, double weight_decay,
                double momentum, double dampening, int nesterov, int64_t step);

void oracle_rows_add(float *y, const int64_t *index, const float *g, int64_t count, int64_t width,
                     int64_t rows, bool accumulate);
void oracle_scatter_add(float *y, const float *x, const int64_t *index, const float *src,
                        int64_t outer, int64_t size, int64_t count, int64_t inner, bool accumulate);

struct DdpPool;
void oracle_pool(bool max, const struct DdpPool *p, int64_t outer, int64_t inner, const float *x,
                 const float *g, float *y, bool accumulate);

/* train/norm.c */
float ddp_norm(const float *x, int64_t n);
float ddp_norm_coefficient(float norm, double max_norm);

uint16_t oracle_store_bf16(float x);
uint16_t oracle_store_f16(float x);
uint16_t oracle_narrow(bool half, float x, int ranks);
#ifdef __cplusplus
}
#endif
#endif
