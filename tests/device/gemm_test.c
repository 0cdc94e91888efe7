/* Products of an emitted program, enqueued on the emulator's device and multiplied by its stand-in of cuBLASLt,
   against sums in double. What this shows is that descriptors, layouts, strides and epilogues say what is
   meant; the vendor's library has the same interface and other kernels. */
#include "on_gpu.h"
#include <math.h>
#include "kernels/cpu/half.h"

enum { MAX_ELEMENTS = 4096 };

typedef struct Matrix { /* values as the device has them, after rounding to its type */
  double at[MAX_ELEMENTS];
  DdpDType dtype;
  void *device;
} Matrix;

static size_t width(DdpDType t) {
  return t == DDP_f32 ? 4 : t == DDP_f64 ? 8 : 2;
}
static double store(DdpDType t, void *to, int64_t i, double x) {
  if (t == DDP_f32) return ((float *)to)[i] = (float)x;
  uint16_t h = t == DDP_bf16 ? ddp_store_bf16((float)x) : ddp_store_f16((float)x);
  ((uint16_t *)to)[i] = h;
  return (double)(t == DDP_bf16 ? ddp_load_bf16(h) : ddp_load_f16(h));
}
static double load(DdpDType t, const void *from, int64_t i) {
  if (t == DDP_f32) return (double)((const float *)from)[i];
  uint16_t h = ((const uint16_t *)from)[i];
  return (double)(t == DDP_bf16 ? ddp_load_bf16(h) : ddp_load_f16(h));
}

/* `skew` bytes behind an aligned address. */
static void fill(Matrix *m, DdpDType dtype, int64_t n, double phase, size_t skew) {
  _Alignas(8) char host[MAX_ELEMENTS * 8 + 256] = {0};
  assert_true(n <= MAX_ELEMENTS);
  m->dtype = dtype;
  for (int64_t i = 0; i < n; i++)
    m->at[i] = store(dtype, host + skew, i, sin(phase + 1.7 * (double)i));
  m->device = (char *)gpu_upload(host, (size_t)n * width(dtype) + skew) + skew;
}

static void read_back(const Matrix *m, int64_t n, double *out) {
  char host[MAX_ELEMENTS * 8];
  gpu_download(host, m->device, (size_t)n * width(m->dtype));
  for (int64_t i = 0; i < n; i++) out[i] = load(m->dtype, host, i);
}

static double gelu(double x) {
  return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
static double gelu_slope(double x) {
  return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
}

/* One rounding of the result's type, and for sums of up to 64 products in float their roundings. */
static double tolerance(DdpDType t) {
  return t == DDP_bf16 ? 0x1p-8 : t == DDP_f16 ? 0x1p-11 : 64 * 0x1p-23;
}
static void check_near(const char *name, const Matrix *m, int64_t n, const double *expected) {
  double got[MAX_ELEMENTS];
  read_back(m, n, got);
  for (int64_t i = 0; i < n; i++) {
    double most = tolerance(m->dtype) * (1 + fabs(expected[i])) * 2;
    if (!(fabs(got[i] - expected[i]) <= most))
      fail_msg("%s: element %lld is %.9g, not %.9g", name, (long long)i, got[i], expected[i]);
  }
}

/* op(A) op(B) of one product of a call. */
static double product(const DdpGemm *g, const Matrix *a, const Matrix *b, int64_t m, int64_t n,
                      int64_t k, int64_t at_a, int64_t at_b, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t l = 0; l < k; l++)
    sum += a->at[at_a + (g->ta ? l * m + i : i * k + l)] *
           b->at[at_b + (g->tb ? j * k + l : l * n + j)];
  return sum;
}

typedef struct Call {
  DdpGemm g;
  int64_t batch, m, n, k, count;
  Matrix a, b, y, bias, aux;
  DdpStep step;
} Call;

static DdpExtent fixed(int64_t n) {
  return (DdpExtent){n, 0};
}

/* Rows of the product, m, are 2 for each sample and one more. */
static Call *make_call(bool ta, bool tb, DdpDType in, DdpDType out, int64_t batch, int64_t n,
                       int64_t k) {
  static Call pool[96]; /* products of a program live as long as it does */
  static size_t made;
  assert_true(made < sizeof pool / sizeof *pool);
  Call *c = &pool[made++];
  c->g = (DdpGemm){.name = "fc",
                   .in = in,
                   .out = out,
                   .ta = ta,
                   .tb = tb,
                   .m = {1, 2},
                   .n = fixed(n),
                   .k = fixed(k)};
  c->batch = batch;
  c->m = 1 + 2 * batch;
  c->n = n;
  c->k = k;
  c->count = 1;
  c->step = (DdpStep){.batch = batch, .stream = GPU->stream(DDP_STREAM_compute)};
  return c;
}
static void make_operands(Call *c) {
  fill(&c->a, c->g.in, c->count * c->m * c->k, 0.1, 0);
  fill(&c->b, c->g.in, c->count * c->k * c->n, 0.2, 0);
  fill(&c->y, c->g.out, c->count * c->m * c->n, 0.3, 0);
  fill(&c->bias, c->g.out, c->m > c->n ? c->m : c->n, 0.4, 0);
  fill(&c->aux, c->g.out, c->count * c->m * c->n, 0.5, 0);
}
static void free_operands(Call *c) {
  Matrix *all[] = {&c->a, &c->b, &c->y, &c->bias, &c->aux};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    GPU->free(DDP_MEMORY_block, all[i]->device, 0);
}
static void multiply(Call *c, bool add) {
  ddp_cuda_gemm(&c->g, &c->step, c->a.device, c->b.device, c->y.device, c->bias.device,
                c->aux.device, add);
  CHECK_OK(GPU->synchronise(c->step.stream));
}

/* ---------- tests ---------- */
static void test_forms(void **state) {
  (void)state;
  static const DdpDType types[][2] = {{DDP_f32, DDP_f32},
                                      {DDP_bf16, DDP_f32},
                                      {DDP_bf16, DDP_bf16},
                                      {DDP_f16, DDP_f16},
                                      {DDP_f16, DDP_f32}};
  for (int form = 0; form < 40; form++) {
    const DdpDType *t = types[form / 8];
    bool ta = form & 1, tb = form & 2, add = form & 4;
    Call *c = make_call(ta, tb, t[0], t[1], 3, 6, 5);
    double expected[64];
    make_operands(c);
    for (int64_t i = 0; i < c->m; i++)
      for (int64_t j = 0; j < c->n; j++)
        expected[i * c->n + j] = product(&c->g, &c->a, &c->b, c->m, c->n, c->k, 0, 0, i, j) +
                                 (add ? c->y.at[i * c->n + j] : 0);
    multiply(c, add);
    check_near("form", &c->y, c->m * c->n, expected);
    free_operands(c);
  }
}

static void test_several(void **state) {
  (void)state;
  for (int shared = 0; shared < 2; shared++) { /* one B for all products, or one for each */
    Call *c = make_call(false, true, DDP_f32, DDP_f32, 2, 4, 3);
    double expected[MAX_ELEMENTS];
    c->count = 2 * c->batch;
    c->g.count = (DdpExtent){0, 2};
    c->g.stride_a = (DdpExtent){3, 6}; /* m k */
    c->g.stride_b = fixed(shared ? 0 : 12);
    c->g.stride_y = (DdpExtent){4, 8};
    make_operands(c);
    for (int64_t z = 0; z < c->count; z++)
      for (int64_t i = 0; i < c->m; i++)
        for (int64_t j = 0; j < c->n; j++)
          expected[(z * c->m + i) * c->n + j] = product(&c->g, &c->a, &c->b, c->m, c->n, c->k,
                                                        z * c->m * c->k, shared ? 0 : z * 12, i, j);
    multiply(c, false);
    check_near("several", &c->y, c->count * c->m * c->n, expected);
    free_operands(c);
  }
}

/* What each epilogue makes of p = the product, of bias and of aux. */
static void expect_epilogue(Call *c, double *y, double *aux, double *bias) {
  int64_t m = c->m, n = c->n;
  for (int64_t i = 0; i < n || i < m; i++) bias[i] = c->bias.at[i];
  DdpEpilogue e = c->g.epilogue;
  bool sums = e == DDP_EPILOGUE_dgelu_bgrad;
  for (int64_t j = 0; j < n && sums; j++) bias[j] = 0;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double p = product(&c->g, &c->a, &c->b, m, n, c->k, 0, 0, i, j), *at = &aux[i * n + j];
      *at = c->aux.at[i * n + j];
      if (e == DDP_EPILOGUE_bias || e == DDP_EPILOGUE_gelu_bias || e == DDP_EPILOGUE_gelu_aux_bias)
        p += c->bias.at[j];
      if (e == DDP_EPILOGUE_gelu_aux || e == DDP_EPILOGUE_gelu_aux_bias) *at = p;
      if (e == DDP_EPILOGUE_gelu || e == DDP_EPILOGUE_gelu_bias || e == DDP_EPILOGUE_gelu_aux ||
          e == DDP_EPILOGUE_gelu_aux_bias)
        p = gelu(p);
      if (e == DDP_EPILOGUE_dgelu || sums) p *= gelu_slope(*at);
      if (sums) bias[j] += p;
      y[i * n + j] = p;
    }
}
static void expect_bias_gradient(Call *c, double *bias) {
  const Matrix *of = c->g.epilogue == DDP_EPILOGUE_bgrada ? &c->a : &c->b;
  bool a = of == &c->a;
  int64_t outer = a ? c->m : c->n;
  for (int64_t i = 0; i < outer; i++) {
    bias[i] = 0;
    for (int64_t l = 0; l < c->k; l++)
      bias[i] += of->at[(a ? c->g.ta : !c->g.tb) ? l * outer + i : i * c->k + l];
  }
}
static void test_epilogues(void **state) {
  (void)state;
  for (DdpEpilogue e = DDP_EPILOGUE_bias; e <= DDP_EPILOGUE_gelu_aux; e++)
    for (int form = 0; form < 4; form++) {
      Call *c = make_call(form & 1, form & 2, DDP_f32, DDP_f32, 3, 8, 5);
      double y[64], aux[64], bias[64];
      c->g.epilogue = e;
      make_operands(c);
      expect_epilogue(c, y, aux, bias);
      bool gradient = e == DDP_EPILOGUE_bgrada || e == DDP_EPILOGUE_bgradb;
      if (gradient) expect_bias_gradient(c, bias);
      multiply(c, false);
      check_near("y", &c->y, c->m * c->n, y);
      check_near("aux", &c->aux, c->m * c->n, aux);
      check_near("bias", &c->bias, e == DDP_EPILOGUE_bgrada ? c->m : c->n, bias);
      free_operands(c);
    }
}

/* More sizes of the batch than are remembered, there and back. */
static void test_sizes(void **state) {
  (void)state;
  static const int64_t sizes[] = {4, 1, 2, 3, 5, 6, 4, 6};
  Call *c = make_call(false, false, DDP_f32, DDP_f32, 6, 4, 3);
  make_operands(c);
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    double expected[64];
    c->step.batch = sizes[s];
    c->m = 1 + 2 * sizes[s];
    for (int64_t i = 0; i < c->m; i++)
      for (int64_t j = 0; j < c->n; j++)
        expected[i * c->n + j] = product(&c->g, &c->a, &c->b, c->m, c->n, c->k, 0, 0, i, j);
    multiply(c, false);
    check_near("size", &c->y, c->m * c->n, expected);
  }
  DdpGemmChoice *newest = c->g.choice[0];
  multiply(c, false);
  assert_ptr_equal(newest, c->g.choice[0]); /* and what is known is not chosen again */
  free_operands(c);
}

/* An operand that lies otherwise than the one for which an algorithm was chosen. */
static void test_alignment(void **state) {
  (void)state;
  Call *c = make_call(false, false, DDP_f32, DDP_f32, 1, 4, 3);
  double expected[64];
  make_operands(c);
  multiply(c, false);
  DdpGemmChoice *first = c->g.choice[0];
  GPU->free(DDP_MEMORY_block, c->a.device, 0);
  fill(&c->a, DDP_f32, c->m * c->k, 0.1, 4);
  for (int64_t i = 0; i < c->m; i++)
    for (int64_t j = 0; j < c->n; j++)
      expected[i * c->n + j] = product(&c->g, &c->a, &c->b, c->m, c->n, c->k, 0, 0, i, j);
  multiply(c, false);
  check_near("skewed", &c->y, c->m * c->n, expected);
  assert_ptr_not_equal(first, c->g.choice[0]);
}

/* With tf32 factors count with 10 bits behind the first one; of other types nothing changes. */
static void test_tf32(void **state) {
  (void)state;
  for (int tf32 = 0; tf32 < 2; tf32++) {
    Call *c = make_call(false, false, DDP_f32, DDP_f32, 1, 4, 3);
    double expected[64];
    float a[9], b[12];
    c->g.tf32 = tf32;
    make_operands(c);
    for (int i = 0; i < 9; i++) a[i] = 1 + 0x1p-12f;
    for (int i = 0; i < 12; i++) b[i] = 2 + 0x1p-9f;
    CHECK_OK(GPU->to_device(c->a.device, a, sizeof a, c->step.stream));
    CHECK_OK(GPU->to_device(c->b.device, b, sizeof b, c->step.stream));
    for (int i = 0; i < 12; i++) expected[i] = 3 * (tf32 ? 1 : (double)a[0]) * (double)b[0];
    multiply(c, false);
    check_near(tf32 ? "tf32" : "f32", &c->y, c->m * c->n, expected);
    free_operands(c);
  }
}

static void test_refusals(void **state) {
  (void)state;
  Call *c = make_call(false, false, DDP_f32, DDP_f32, 1, 4, 3);
  make_operands(c);
  c->g.in = DDP_f64;
  ddp_cuda_gemm(&c->g, &c->step, c->a.device, c->b.device, c->y.device, NULL, NULL, false);
  CHECK_ERROR(GPU->failure(), DDP_FAILED,
              "product fc, 1 of [3, 3] x [3, 4]: matrices of f32, bf16 and f16");
  CHECK_OK(GPU->failure());
  c->g.in = DDP_f32;
  multiply(c, false);
  free_operands(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_forms),     cmocka_unit_test(test_several),
      cmocka_unit_test(test_epilogues), cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_alignment), cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_tf32),
  };
  return cmocka_run_group_tests(tests, gpu_open, gpu_close);
}
