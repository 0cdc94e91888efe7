/* In: a shape, a version of cuDNN, an architecture. Out: whether somebody has reported wrong results, and where.
   One row for each report; kernels of kernels/cuda do what is refused. */
#include "cudnn_refuse.h"

/* From these on graphs can be made for GPUs that are only described, which is how they are tested. */
enum { OLDEST = 90800, NEVER = 9999999 };

const char *cudnn_refuses(size_t version, int sm) {
  if (version < OLDEST) return "cuDNN before 9.8.0 is not tested with";
  if (sm < 80) return "before sm_80 cuDNN is not tested with";
  return NULL;
}

static bool any(const DdpCudnnAttention *a) {
  (void)a;
  return true;
}
static bool backward(const DdpCudnnAttention *a) {
  return a->backward;
}
static bool backward_of_a_part(const DdpCudnnAttention *a) {
  return a->backward && a->s % 128;
}
static bool backward_of_a_part_uncut(const DdpCudnnAttention *a) {
  return a->backward && !a->causal && a->s % 128;
}
static bool backward_of_one_query(const DdpCudnnAttention *a) {
  return a->backward && a->t == 1;
}
static bool few_groups(const DdpCudnnAttention *a) {
  return a->groups < a->heads && a->groups < 8;
}

static const struct {
  size_t from, before; /* versions */
  int sm, before_sm;
  bool (*of)(const DdpCudnnAttention *a);
  const char *why;
} rows[] = {
    {91000, 91002, 0, NEVER, any,
     "attention of cuDNN 9.10.0 and 9.10.1 (cudnn-frontend excludes it)"},
    {0, 91800, 90, 100, backward,
     "workspace of the gradient not initialised before cuDNN 9.18 (TransformerEngine #2186)"},
    {0, 91501, 0, NEVER, backward_of_a_part,
     "gradient with a number of keys that is no multiple of 128 in replayed graphs before cuDNN "
     "9.15.1 (notes of cudnn-frontend 1.16)"},
    {0, 92600, 90, 100, backward_of_a_part_uncut,
     "NaN in the gradient of queries where keys do not fill a tile, before cuDNN 9.26 (pytorch "
     "#196678)"},
    {0, NEVER, 90, 100, backward_of_one_query,
     "NaN in the gradient of a single query (cudnn-frontend #1072)"},
    {91900, NEVER, 100, 110, few_groups,
     "wrong results with fewer than 8 heads of keys from cuDNN 9.19 on (pytorch #193893)"},
};

const char *cudnn_refuses_attention(const DdpCudnnAttention *a, size_t version, int sm) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (version >= rows[i].from && version < rows[i].before && sm >= rows[i].sm &&
        sm < rows[i].before_sm && rows[i].of(a))
      return rows[i].why;
  return NULL;
}
