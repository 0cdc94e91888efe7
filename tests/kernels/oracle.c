#include "oracle.h"
#include "kernels/cpu/index.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/pool.h"
#include "kernels/random.h"

float oracle_function(OracleFunction f, float x) {
  switch (f) {
  case ORACLE_exp:
    return ddp_expf(x);
  case ORACLE_expm1:
    return ddp_expm1f(x);
  case ORACLE_log:
    return ddp_logf(x);
  case ORACLE_log1p:
    return ddp_log1pf(x);
  case ORACLE_tanh:
    return ddp_tanhf(x);
  case ORACLE_erf:
    return ddp_erff(x);
  case ORACLE_sin:
    return ddp_sinf(x);
  case ORACLE_cos:
    return ddp_cosf(x);
  case ORACLE_FUNCTIONS:
    break;
  }
  return 0;
}

double oracle_draw(OracleDraw kind, uint64_t seed, int64_t update, uint64_t site,
                   const int64_t *turn, int turns, int64_t position, uint32_t element) {
  DdpDraw d = ddp_draw(seed, update, site, NULL);
  for (int i = 0; i < turns; i++) d = ddp_draw_turn(d, turn[i]);
  const DdpRow row = ddp_row(d, position);
  switch (kind) {
  case ORACLE_uniform:
    return (double)ddp_uniform(row, element);
  case ORACLE_normal:
    return (double)ddp_normal(row, element);
  case ORACLE_bernoulli:
    return (double)ddp_bernoulli(row, element, 0.7f);
  case ORACLE_randint:
    return (double)ddp_randint(row, element, -3, 1000);
  }
  return 0;
}

void oracle_adamw(float *p, const float *g, float *m, float *v, int64_t n, double lr,
                  double weight_decay, double beta1, double beta2, double eps, int64_t step) {
  ddp_adamw(p, g, m, v, n, lr, weight_decay, beta1, beta2, eps, step);
}
void oracle_sgd(float *p, const float *g, float *buf, int64_t n, double lr, double weight_decay,
                double momentum, double dampening, int nesterov, int64_t step) {
  ddp_sgd(p, g, buf, n, lr, weight_decay, momentum, dampening, nesterov, step);
}

void oracle_rows_add(float *y, const int64_t *index, const float *g, int64_t count, int64_t width,
                     int64_t rows, bool accumulate) {
  ddp_rows_add_i64(y, index, g, count, width, rows, accumulate);
}
void oracle_scatter_add(float *y, const float *x, const int64_t *index, const float *src,
                        int64_t outer, int64_t size, int64_t count, int64_t inner,
                        bool accumulate) {
  ddp_scatter_add_i64(y, x, index, src, outer, size, count, inner, accumulate);
}

void oracle_pool(bool max, const DdpPool *p, int64_t outer, int64_t inner, const float *x,
                 const float *g, float *y, bool accumulate) {
  (max ? ddp_pool_max : ddp_pool_sum)(p, outer, inner, x, g, y, accumulate);
}

uint16_t oracle_store_bf16(float x) {
  return ddp_store_bf16(x);
}
uint16_t oracle_store_f16(float x) {
  return ddp_store_f16(x);
}

uint16_t oracle_narrow(bool half, float x, int ranks) {
  const float n = (float)ranks; /* as comm/sum.c */
  return half ? ddp_store_f16(ddp_round_f16(x * n) / n) : ddp_store_bf16(ddp_round_bf16(x * n) / n);
}
