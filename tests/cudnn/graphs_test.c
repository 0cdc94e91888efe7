/* cuDNN has an engine for every graph that jobs of the examples ask for, on GPUs that are only described
   (tests/cudnn/devices, written by hand from NVIDIA's tables): A100, H100, B200. Without a driver some plans
   are ready, others end where it would load their code; what no engine takes ends before that. */
#include "cudnn_plugin.h"
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const DdpCudnnPlugin *plugin;
static const char *const devices[] = {"a100", "h100", "b200"};

static char *description(const char *device) {
  static char text[4096];
  char path[512];
  snprintf(path, sizeof path, "%s/%s.json", TEST_DEVICES, device);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  return text;
}

/* q, k and v side by side in one activation, as the emitter leaves them. */
static DdpCudnnAttention packed(int64_t batch, int64_t heads, int64_t t, int64_t width) {
  const int64_t row = 3 * heads * width;
  const DdpCudnnHeads in = {t * row, row, width};
  const DdpCudnnHeads out = {t * heads * width, heads * width, width};
  DdpCudnnAttention a = {.type = DDP_bf16, .causal = 1, .keep_lse = 1, .batch = batch};
  a.heads = a.groups = heads;
  a.t = a.s = t;
  a.k = a.v = width;
  a.scale = 0.125;
  a.q = a.key = a.value = in;
  a.y = a.gradient = out;
  return a;
}

static void check(const char *device, const char *what, const DdpCudnnAttention *attention,
                  const DdpCudnnConv *conv, bool expect) {
  char why[1024] = "";
  bool planned = false;
  DdpCudnnGraph *g =
      attention ? plugin->attention(attention, description(device), &planned, why, sizeof why)
                : plugin->conv(conv, description(device), &planned, why, sizeof why);
  if (getenv("TEST_SHOW"))
    printf("%s %s: %s %s %lld\n", device, what, planned ? "planned" : "NO",
           g ? plugin->name(g) : why, g ? (long long)plugin->workspace(g) : 0);
  if (planned != expect) fail_msg("%s, %s: %s", device, what, planned ? "taken" : why);
  if (g) plugin->free(g);
}

static void attention(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t batch, heads, t, width;
    DdpDType type;
  } rows[] = {{"GPT-2", 8, 12, 1024, 64, DDP_bf16},
              {"nanoGPT of characters", 64, 6, 256, 64, DDP_bf16},
              {"a length that fills no tile", 2, 4, 100, 32, DDP_f16}};
  for (size_t d = 0; d < 3; d++)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      DdpCudnnAttention a = packed(rows[i].batch, rows[i].heads, rows[i].t, rows[i].width);
      a.type = rows[i].type;
      check(devices[d], rows[i].name, &a, NULL, true);
      a.backward = 1;
      check(devices[d], rows[i].name, &a, NULL, true);
    }
}

static DdpCudnnConv conv(int64_t batch, int64_t big, int64_t small, int64_t size, int64_t kernel,
                         int64_t stride, DdpDType type) {
  const int64_t out = (size + 2 * (kernel / 2) - kernel) / stride + 1;
  DdpCudnnConv c = {.type = type, .filter_type = type, .batch = batch, .space = 2, .groups = 1};
  c.big = big;
  c.small = small;
  for (int i = 0; i < 2; i++) {
    c.big_size[i] = size;
    c.small_size[i] = out;
    c.kernel[i] = kernel;
    c.stride[i] = stride;
    c.padding[i] = kernel / 2;
    c.dilation[i] = 1;
  }
  return c;
}

static void convolution(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t batch, big, small, size, kernel, stride;
  } rows[] = {{"ResNet-50, 3x3", 256, 64, 64, 56, 3, 1},
              {"ResNet-50, 1x1", 256, 256, 64, 56, 1, 1},
              {"ResNet-50, 3x3 in steps", 256, 128, 128, 56, 3, 2},
              {"ResNet of CIFAR", 128, 16, 32, 32, 3, 2},
              {"7x7 of images", 256, 3, 64, 224, 7, 2}};
  static const struct {
    DdpDType of;
    bool tf32;
  } types[] = {{DDP_bf16, false}, {DDP_f32, false}, {DDP_f32, true}};
  for (size_t d = 0; d < 3; d++)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
      for (int type = 0; type < 3; type++)
        for (int result = 0; result < 3; result++) {
          if (rows[i].big == 3 && result == 1) continue; /* images have no gradient */
          DdpCudnnConv c = conv(rows[i].batch, rows[i].big, rows[i].small, rows[i].size,
                                rows[i].kernel, rows[i].stride, types[type].of);
          c.result = result;
          c.tf32 = types[type].tf32;
          check(devices[d], rows[i].name, NULL, &c, true);
        }
}

/* What the kernels of the runtime do alone. */
static void refused(void **state) {
  (void)state;
  for (size_t d = 0; d < 3; d++) {
    DdpCudnnAttention a = packed(8, 12, 1024, 64);
    a.k = a.v = 20;
    check(devices[d], "an odd width", &a, NULL, false);
    DdpCudnnConv c = conv(256, 64, 64, 56, 3, 1, DDP_bf16);
    c.result = 2;
    c.filter_type = DDP_f32;
    check(devices[d], "a filter's gradient in f32 from bf16", NULL, &c, false);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(attention), cmocka_unit_test(convolution),
                                     cmocka_unit_test(refused)};
  char why[1024];
  size_t version;
  void *library = dlopen(TEST_PLUGIN, RTLD_NOW);
  if (!library || !(plugin = dlsym(library, DDP_CUDNN_SYMBOL))) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  if (plugin->open(TEST_CUDNN, &version, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    return 1;
  }
  printf("cuDNN %zu.%zu.%zu\n", version / 10000, version / 100 % 100, version % 100);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
