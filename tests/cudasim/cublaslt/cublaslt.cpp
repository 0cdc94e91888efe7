/* Stand-in for libcublasLt.so at the level of its binary interface: descriptors keep what they are told, a product is
   carried out from them on a stream of the emulator. What the vendor documents as a requirement is an error here,
   at the call, with the reason on stderr: sizes that do not fit, ld, alignment below what the algorithm was chosen
   for, pointers outside of the device's memory.

   Environment:
     CUBLASLTSIM_REFUSE  numbers of epilogues for which there is no algorithm: "164,192"
     CUBLASLTSIM_LOG     a file that gets one JSON line for each product */
#include "product.h"
#include "cudasim.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <algorithm>

using namespace cublasltsim;

static cublasStatus_t refuse(cublasStatus_t status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs("cublasltsim: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  return status;
}

/* ---------- descriptors ----------
   The handles point to our own things: their insides are the library's. */
struct Preference {
  uint64_t workspace = 0;
  uint32_t aligned[4] = {256, 256, 256,
                         256}; /* A, B, C, D: what the vendor assumes if nothing is said */
};
struct Algorithm {
  uint64_t magic, split; /* split: parts into which the sum over k falls, so that bits differ */
  uint64_t workspace;
  uint32_t aligned[4];
};
static const uint64_t MAGIC = 0x6c74616c676f7331;
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits");

template <class T, class H> static T *of(H handle) {
  return reinterpret_cast<T *>(handle);
}
template <class T> static cublasStatus_t take(T &to, const void *value, size_t bytes) {
  if (bytes != sizeof to)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute of %zu bytes, not %zu", bytes,
                  sizeof to);
  memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/* ---------- what fits ---------- */
static bool epilogue_refused(uint32_t epilogue) {
  const char *at = getenv("CUBLASLTSIM_REFUSE");
  for (; at && *at; at = strchr(at, ','), at = at ? at + 1 : at)
    if (strtoul(at, nullptr, 10) == epilogue) return true;
  return false;
}
static bool known_epilogue(uint32_t e) {
  for (uint32_t k : {1u, 2u, 4u, 6u, 32u, 36u, 160u, 164u, 192u, 208u, 256u, 512u})
    if (k == e) return true;
  return false;
}
static cublasStatus_t check(const Product &p) {
  const Operation &d = p.d;
  uint64_t k = p.k();
  if ((d.ta ? p.a.columns : p.a.rows) != p.m() || (d.tb ? p.b.rows : p.b.columns) != p.n() ||
      (d.tb ? p.b.columns : p.b.rows) != k || p.c.rows != p.m() || p.c.columns != p.n())
    return refuse(CUBLAS_STATUS_INVALID_VALUE,
                  "sizes do not fit: A %llu x %llu, B %llu x %llu, D %llu x %llu",
                  (unsigned long long)p.a.rows, (unsigned long long)p.a.columns,
                  (unsigned long long)p.b.rows, (unsigned long long)p.b.columns,
                  (unsigned long long)p.m(), (unsigned long long)p.n());
  if (p.a.count != p.y.count || p.b.count != p.y.count || p.c.count != p.y.count)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "batch counts differ");
  if (p.a.type != p.b.type || (p.y.type != p.a.type && p.y.type != CUDA_R_32F) ||
      p.c.type != p.y.type)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "types %d, %d to %d", p.a.type, p.b.type, p.y.type);
  if (d.scale != CUDA_R_32F ||
      (d.compute != CUBLAS_COMPUTE_32F && d.compute != CUBLAS_COMPUTE_32F_FAST_TF32))
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "compute type %d", d.compute);
  if (d.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && p.a.type != CUDA_R_32F)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "tf32 is for float32");
  if (!known_epilogue(d.epilogue) || epilogue_refused(d.epilogue))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  bool aux = d.epilogue & AUX;
  if (aux && (d.aux_ld % 8 || d.aux_ld < (int64_t)p.m()))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "ld of aux is %lld: a multiple of 8, at least %llu",
                  (long long)d.aux_ld, (unsigned long long)p.m());
  if (d.epilogue & (BGRAD | BGRADA | BGRADB) && p.y.count > 1)
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "gradients of a bias in a batch of products");
  return CUBLAS_STATUS_SUCCESS;
}

/* All bytes of one matrix, or of a batch, in memory of the device. */
static bool lies_on_device(const void *p, uint64_t elements, int type) {
  char *base;
  size_t bytes;
  return cudasim::allocation_of(p, &base, &bytes) &&
         (size_t)((const char *)p - base) + elements * width(type) <= bytes;
}
static uint64_t extent(const Layout &l) {
  if (!l.rows || !l.columns) return 0;
  return (uint64_t)(l.count - 1) * (uint64_t)l.stride + (l.columns - 1) * (uint64_t)l.ld + l.rows;
}
static cublasStatus_t check_pointers(const Product &p, const uint32_t aligned[4]) {
  const struct {
    const char *name;
    const void *at;
    const Layout &layout;
  } all[] = {
      {"A", p.A, p.a}, {"B", p.B, p.b}, {"C", p.beta != 0 ? p.C : nullptr, p.c}, {"D", p.Y, p.y}};
  for (int i = 0; i < 4; i++) {
    if (i == 2 && !all[i].at) continue;
    if ((uintptr_t)all[i].at % aligned[i])
      return refuse(CUBLAS_STATUS_INVALID_VALUE,
                    "%s at %p is not aligned to %u bytes, as was promised", all[i].name, all[i].at,
                    aligned[i]);
    if (!lies_on_device(all[i].at, extent(all[i].layout), all[i].layout.type))
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "%s at %p is not all in memory of the device",
                    all[i].name, all[i].at);
  }
  uint32_t e = p.d.epilogue;
  uint64_t bias = e & BGRADB ? p.n() : p.m();
  if (e & (BIAS | BGRAD | BGRADA | BGRADB) &&
      ((uintptr_t)p.d.bias % 16 || !lies_on_device(p.d.bias, bias, p.bias_type())))
    return refuse(CUBLAS_STATUS_INVALID_VALUE,
                  "bias at %p: %llu elements of the device, aligned to 16", p.d.bias,
                  (unsigned long long)bias);
  if (e & AUX &&
      ((uintptr_t)p.d.aux % 16 ||
       !lies_on_device(p.d.aux, (p.n() - 1) * (uint64_t)p.d.aux_ld + p.m(), p.aux_type())))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "aux at %p: memory of the device, aligned to 16",
                  p.d.aux);
  return CUBLAS_STATUS_SUCCESS;
}

static void log(const Product &p, const Algorithm &algo, cudaStream_t stream) {
  const char *path = getenv("CUBLASLTSIM_LOG");
  FILE *f = path ? fopen(path, "a") : nullptr;
  if (!f) return;
  fprintf(
      f,
      "{\"m\": %llu, \"n\": %llu, \"k\": %llu, \"count\": %d, \"ta\": %d, \"tb\": %d, \"in\": %d, "
      "\"out\": %d, "
      "\"epilogue\": %u, \"beta\": %g, \"split\": %llu, \"stream\": \"%s\", \"captured\": %s}\n",
      (unsigned long long)p.m(), (unsigned long long)p.n(), (unsigned long long)p.k(), p.y.count,
      p.d.ta, p.d.tb, p.a.type, p.y.type, p.d.epilogue, (double)p.beta,
      (unsigned long long)algo.split, cudasim::stream_name(stream),
      cudasim::capturing(stream) ? "true" : "false");
  fclose(f);
}

extern "C" {
cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
  int n;
  if (cudaGetDeviceCount(&n)) return CUBLAS_STATUS_NOT_INITIALIZED;
  *out = reinterpret_cast<cublasLtHandle_t>(new int(1));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t h) {
  delete of<int>(h);
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion(void) {
  return CUBLAS_VER_MAJOR * 10000;
}
const char *cublasLtGetStatusName(cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS           ? "CUBLAS_STATUS_SUCCESS"
         : s == CUBLAS_STATUS_NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED"
         : s == CUBLAS_STATUS_NOT_SUPPORTED   ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                              : "CUBLAS_STATUS_INVALID_VALUE";
}
const char *cublasLtGetStatusString(cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS           ? "success"
         : s == CUBLAS_STATUS_NOT_INITIALIZED ? "the library was not initialized"
         : s == CUBLAS_STATUS_NOT_SUPPORTED
             ? "the requested functionality is not supported"
             : "an unsupported value or parameter was passed to the function";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  auto *d = new Operation;
  d->compute = compute;
  d->scale = scale;
  *out = reinterpret_cast<cublasLtMatmulDesc_t>(d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete of<Operation>(d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t h,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t bytes) {
  Operation *d = of<Operation>(h);
  switch (what) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return take(d->ta, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return take(d->tb, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return take(d->epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return take(d->bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return take(d->bias_type, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return take(d->aux, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return take(d->aux_ld, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
    return take(d->aux_type, value, bytes);
  default:
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "attribute %d of a product", what);
  }
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  if (ld < (int64_t)rows)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "ld %lld is less than %llu rows", (long long)ld,
                  (unsigned long long)rows);
  auto *l = new Layout{};
  l->type = type;
  l->rows = rows;
  l->columns = columns;
  l->ld = ld;
  l->count = 1;
  *out = reinterpret_cast<cublasLtMatrixLayout_t>(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete of<Layout>(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t h,
                                                cublasLtMatrixLayoutAttribute_t what,
                                                const void *value, size_t bytes) {
  Layout *l = of<Layout>(h);
  switch (what) {
  case CUBLASLT_MATRIX_LAYOUT_ROWS:
    return take(l->rows, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_COLS:
    return take(l->columns, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_LD:
    return take(l->ld, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return take(l->count, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return take(l->stride, value, bytes);
  default:
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "attribute %d of a layout", what);
  }
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  *out = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete of<Preference>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t h,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t bytes) {
  Preference *p = of<Preference>(h);
  switch (what) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return take(p->workspace, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return take(p->aligned[0], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return take(p->aligned[1], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return take(p->aligned[2], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return take(p->aligned[3], value, bytes);
  default:
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "attribute %d of a preference", what);
  }
}

static Product product(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y) {
  Product p = {};
  p.d = *of<Operation>(d);
  p.a = *of<Layout>(a);
  p.b = *of<Layout>(b);
  p.c = *of<Layout>(c);
  p.y = *of<Layout>(y);
  return p;
}
/* Three algorithms: the sum over k in one part, in two, in four; the latter need memory. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *found) {
  *found = 0;
  Product p = product(d, a, b, c, y);
  if (cublasStatus_t s = check(p)) return s;
  const Preference &pref = *of<Preference>(preference);
  for (uint64_t split = 1; split <= 4 && *found < wanted; split *= 2) {
    Algorithm algo = {MAGIC, split, (split - 1) << 20, {}};
    if (algo.workspace > pref.workspace) break;
    std::copy(pref.aligned, pref.aligned + 4, algo.aligned);
    cublasLtMatmulHeuristicResult_t &r = results[(*found)++];
    memset(&r, 0, sizeof r);
    memcpy(&r.algo, &algo, sizeof algo);
    r.workspaceSize = algo.workspace;
    r.wavesCount = 1.f;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t d,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
                                       const cublasLtMatmulAlgo_t *opaque,
                                       cublasLtMatmulHeuristicResult_t *result) {
  Algorithm algo;
  memcpy(&algo, opaque, sizeof algo);
  if (algo.magic != MAGIC) return CUBLAS_STATUS_INVALID_VALUE; /* of another library */
  if (cublasStatus_t s = check(product(d, a, b, c, y))) return s;
  result->workspaceSize = algo.workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  result->wavesCount = 1.f;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta, const void *C,
                              cublasLtMatrixLayout_t c, void *Y, cublasLtMatrixLayout_t y,
                              const cublasLtMatmulAlgo_t *opaque, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  Product p = product(d, a, b, c, y);
  if (cublasStatus_t s = check(p)) return s;
  Algorithm algo = {MAGIC, 1, 0, {16, 16, 16, 16}};
  if (opaque) memcpy(&algo, opaque, sizeof algo);
  if (algo.magic != MAGIC)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an algorithm that was not asked for");
  p.A = A;
  p.B = B;
  p.C = C;
  p.Y = Y;
  p.alpha = *static_cast<const float *>(alpha);
  p.beta = *static_cast<const float *>(beta);
  p.split = algo.split;
  if (cublasStatus_t s = check_pointers(p, algo.aligned)) return s;
  if (algo.workspace &&
      (workspace_bytes < algo.workspace || !lies_on_device(workspace, algo.workspace, CUDA_R_8I)))
    return refuse(CUBLAS_STATUS_INVALID_VALUE,
                  "the algorithm needs %llu bytes of workspace on the device",
                  (unsigned long long)algo.workspace);
  log(p, algo, stream);
  cudaError_t e = cudasim::enqueue(stream, "cublasLtMatmul", [p](bool) {
    run(p);
    return true;
  });
  return e ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
}
