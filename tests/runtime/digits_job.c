/* A job written by hand: the digits perceptron of examples/digits with plain loops instead of emitted
   kernels. It shows what an emitted program hands to the runtime and lets the runtime be tested on
   its own. */
#include "ddp/job.h"
#include "ddp/settings.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { IN = 64, HIDDEN = 64, OUT = 10, BATCH = 16, EVAL_BATCH = 128 };
/* Offsets in ready order, each on a cache line. */
enum {
  FC3_W = 0,
  FC3_B = FC3_W + OUT * HIDDEN,
  FC2_W = FC3_B + 16,
  FC2_B = FC2_W + HIDDEN * HIDDEN,
  FC1_W = FC2_B + HIDDEN,
  FC1_B = FC1_W + HIDDEN * IN,
  TOTAL = FC1_B + HIDDEN
};

#define PARAM(name_, off, g, ...)                                                                  \
  {                                                                                                \
    .name = name_, .dtype = DDP_f32, .role = DDP_ROLE_param, .offset = off, .group = g,            \
    .tied_to = -1, .state = {off}, __VA_ARGS__                                                     \
  }
static const DdpTensor tensors[] = {
    PARAM("fc1.weight", FC1_W, 0, .rank = 2, .shape = {HIDDEN, IN}, .elements = HIDDEN * IN),
    PARAM("fc1.bias", FC1_B, 1, .rank = 1, .shape = {HIDDEN}, .elements = HIDDEN),
    PARAM("fc2.weight", FC2_W, 0, .rank = 2, .shape = {HIDDEN, HIDDEN},
          .elements = HIDDEN * HIDDEN),
    PARAM("fc2.bias", FC2_B, 1, .rank = 1, .shape = {HIDDEN}, .elements = HIDDEN),
    PARAM("fc3.weight", FC3_W, 0, .rank = 2, .shape = {OUT, HIDDEN}, .elements = OUT * HIDDEN),
    PARAM("fc3.bias", FC3_B, 1, .rank = 1, .shape = {OUT}, .elements = OUT),
};
static const int32_t ready[] = {4, 5, 2, 3, 0, 1};
static const DdpArenaInfo arenas[] = {
    {DDP_ROLE_param, 0, DDP_f32, TOTAL},
    {DDP_ROLE_grad, 0, DDP_f32, TOTAL},
    {DDP_ROLE_state, 0, DDP_f32, TOTAL},
};
#define BOUND 0.125 /* 1 / sqrt(64) */
static const DdpInitStep init[] = {
    {DDP_INIT_uniform, 0, HIDDEN *IN, -BOUND, BOUND, 0, 1, 0, 0},
    {DDP_INIT_uniform, 1, HIDDEN, -BOUND, BOUND, 0, 1, 0, 0},
    {DDP_INIT_uniform, 2, HIDDEN *HIDDEN, -BOUND, BOUND, 0, 1, 0, 0},
    {DDP_INIT_uniform, 3, HIDDEN, -BOUND, BOUND, 0, 1, 0, 0},
    {DDP_INIT_uniform, 4, OUT *HIDDEN, -BOUND, BOUND, 0, 1, 0, 0},
    {DDP_INIT_uniform, 5, OUT, -BOUND, BOUND, 0, 1, 0, 0},
};
static const DdpParamGroup groups[] = {{"decay", NAN, NAN, 0}, {"no_decay", NAN, 0, 0}};

static void sgd(const DdpSegment *s) {
  float rate = (float)-s->lr, decay = (float)s->weight_decay;
  for (int64_t i = 0; i < s->n; i++) {
    float g = s->g[i];
    if (s->weight_decay != 0) g = fmaf(s->p[i], decay, g);
    float buf = s->step == 1 ? g : fmaf(g, 1.0f, s->state[0][i] * 0.9f);
    s->state[0][i] = buf;
    s->p[i] = fmaf(buf, rate, s->p[i]);
  }
}
static const DdpOptimizer optimizers[] = {{.name = "sgd",
                                           .states = 1,
                                           .state_name = {"momentum_buffer"},
                                           .state_init = {0},
                                           .step = sgd}};

static const DdpField fields[] = {
    {.name = "pixels",
     .dtype = DDP_f32,
     .rank = 1,
     .shape = {IN},
     .elements = IN,
     .has_range = true,
     .low = 0,
     .high = 16,
     .used = true,
     .place = "job.ddp:22"},
    {.name = "digit",
     .dtype = DDP_u8,
     .elements = 1,
     .has_range = true,
     .low = 0,
     .high = 10,
     .used = true,
     .place = "job.ddp:23"},
};
static const char *const paths[] = {"digits.csv.gz", NULL};
static const DdpSource sources[] = {
    {.kind = DDP_SOURCE_csv, .paths = paths},
    {.kind = DDP_SOURCE_shuffle, .seed = 7, .children = {0}, .n_children = 1},
    {.kind = DDP_SOURCE_slice,
     .stop_kind = DDP_BOUND_percent,
     .stop = 80,
     .children = {1},
     .n_children = 1},
    {.kind = DDP_SOURCE_slice,
     .start_kind = DDP_BOUND_percent,
     .start = 80,
     .children = {1},
     .n_children = 1},
};
static const DdpSplit splits[] = {{"train", 2}, {"validation", 3}};

static const DdpSettingText settings[] = {
    {"output_dir", "runs/digits", "job.ddp:39", false, NULL},
    {"num_train_epochs", "40", "job.ddp:40", false, NULL},
    {"per_device_train_batch_size", "16", "job.ddp:41", true, NULL},
    {"per_device_eval_batch_size", "128", "job.ddp:42", true, NULL},
    {"optim", "sgd", "job.ddp:44", true, NULL},
    {"optim_args", "momentum=0.9", "job.ddp:45", true, "`if momentum != 0` in std/optim"},
    {"learning_rate", "0.1", "job.ddp:46", false, NULL},
    {"lr_scheduler_type", "linear", "job.ddp:47", true, NULL},
    {"warmup_steps", "20", "job.ddp:48", false, NULL},
    {"eval_strategy", "epoch", "job.ddp:50", false, NULL},
    {"save_strategy", "no", "job.ddp:51", false, NULL},
    {"logging_steps", "50", "job.ddp:52", false, NULL},
    {"ddp_timeout", "60", "job.ddp:56", false, NULL},
};

typedef struct Block { /* activations; [batch][...] */
  float x[EVAL_BATCH][IN], h1[EVAL_BATCH][HIDDEN], h2[EVAL_BATCH][HIDDEN], out[EVAL_BATCH][OUT];
  float d1[BATCH][HIDDEN], d2[BATCH][HIDDEN], d3[BATCH][OUT];
} Block;

static void linear(const float *w, const float *b, const float *x, float *y, int in, int out,
                   bool relu) {
  for (int o = 0; o < out; o++) {
    float sum = b[o];
    for (int i = 0; i < in; i++) sum += w[o * in + i] * x[i];
    y[o] = relu && sum < 0 ? 0 : sum;
  }
}

/* Logits of sample i; returns its cross entropy. */
static float forward(const DdpStep *s, int64_t i) {
  Block *k = (void *)s->block;
  const float *p = s->params, *pixels = (const float *)s->fields[0] + i * IN;
  uint8_t label = ((const uint8_t *)s->fields[1])[i];
  for (int j = 0; j < IN; j++) k->x[i][j] = pixels[j] / 16;
  linear(p + FC1_W, p + FC1_B, k->x[i], k->h1[i], IN, HIDDEN, true);
  linear(p + FC2_W, p + FC2_B, k->h1[i], k->h2[i], HIDDEN, HIDDEN, true);
  linear(p + FC3_W, p + FC3_B, k->h2[i], k->out[i], HIDDEN, OUT, false);
  float most = k->out[i][0], sum = 0;
  for (int o = 1; o < OUT; o++) most = fmaxf(most, k->out[i][o]);
  for (int o = 0; o < OUT; o++) sum += expf(k->out[i][o] - most);
  return logf(sum) + most - k->out[i][label];
}

/* Gradients of one layer from dy [batch][out]; dx may be NULL. */
static void backward(DdpStep *s, const float *w, const float *x, const float *dy, float *dx,
                     float *dw, float *db, int in, int out) {
  for (int o = 0; o < out; o++) {
    if (!s->accumulate) {
      db[o] = 0;
      memset(dw + o * in, 0, (size_t)in * sizeof(float));
    }
    for (int64_t i = 0; i < s->batch; i++) {
      db[o] += dy[i * out + o];
      for (int j = 0; j < in; j++) dw[o * in + j] += dy[i * out + o] * x[i * in + j];
    }
  }
  for (int64_t i = 0; dx && i < s->batch; i++) {
    for (int j = 0; j < in; j++) {
      float sum = 0;
      for (int o = 0; o < out; o++) sum += dy[i * out + o] * w[o * in + j];
      dx[i * in + j] = x[i * in + j] > 0 ? sum : 0; /* through the relu below */
    }
  }
}

static void forward_backward(DdpStep *s) {
  Block *k = (void *)s->block;
  float scale = (float)(1.0 / s->counts[0]);
  for (int64_t i = 0; i < s->batch; i++) {
    uint8_t label = ((const uint8_t *)s->fields[1])[i];
    float loss = forward(s, i);
    s->sums[0] += (double)loss / s->counts[0];
    for (int o = 0; o < OUT; o++) {
      float probability = expf(k->out[i][o] - k->out[i][label] - loss);
      k->d3[i][o] = (probability - (o == label ? 1.0f : 0.0f)) * scale;
    }
  }
  backward(s, s->params + FC3_W, &k->h2[0][0], &k->d3[0][0], &k->d2[0][0], s->grads + FC3_W,
           s->grads + FC3_B, HIDDEN, OUT);
  ddp_grad_ready(s, 4);
  ddp_grad_ready(s, 5);
  backward(s, s->params + FC2_W, &k->h1[0][0], &k->d2[0][0], &k->d1[0][0], s->grads + FC2_W,
           s->grads + FC2_B, HIDDEN, HIDDEN);
  ddp_grad_ready(s, 2);
  ddp_grad_ready(s, 3);
  backward(s, s->params + FC1_W, &k->x[0][0], &k->d1[0][0], NULL, s->grads + FC1_W,
           s->grads + FC1_B, IN, HIDDEN);
  ddp_grad_ready(s, 0);
  ddp_grad_ready(s, 1);
}

static void evaluate(DdpStep *s) {
  Block *k = (void *)s->block;
  for (int64_t i = 0; i < s->batch; i++) {
    int best = 0;
    s->sums[0] += (double)forward(s, i);
    for (int o = 1; o < OUT; o++) best = k->out[i][o] > k->out[i][best] ? o : best;
    s->sums[1] += best == ((const uint8_t *)s->fields[1])[i];
    s->sums[2] += 1;
  }
}

static void metric_values(const double *sums, double *out) {
  out[0] = sums[0] / sums[2];
  out[1] = sums[1] / sums[2];
}

static double schedule(double step, double warmup, double total, double base_lr) {
  (void)base_lr;
  if (step < warmup) return step / fmax(1, warmup);
  return fmax(0, (total - step) / fmax(1, total - warmup));
}

static const double count_per_sample[] = {1};
static const char *const metrics[] = {"loss", "accuracy"};
#define COUNT(a) (int32_t)(sizeof(a) / sizeof(a)[0])

int main(int argc, char **argv) {
  const DdpJob job = {.abi = DDP_JOB_ABI,
                      .name = "digits_job.c",
                      .directory = DIGITS_DIR,
                      .compiler = "by hand",
                      .march = "x86-64",
                      .spec = (const char *const[]){"# written by hand\n", NULL},
                      .spec_hash = 1,
                      .plan_hash = 2,
                      .tensors = tensors,
                      .n_tensors = COUNT(tensors),
                      .arenas = arenas,
                      .n_arenas = COUNT(arenas),
                      .ready = ready,
                      .n_ready = COUNT(ready),
                      .init = init,
                      .n_init = COUNT(init),
                      .groups = groups,
                      .n_groups = COUNT(groups),
                      .optimizers = optimizers,
                      .n_optimizers = COUNT(optimizers),
                      .fields = fields,
                      .n_fields = COUNT(fields),
                      .sources = sources,
                      .n_sources = COUNT(sources),
                      .splits = splits,
                      .n_splits = COUNT(splits),
                      .eval_split = "validation",
                      .settings = settings,
                      .n_settings = COUNT(settings),
                      .train_batch = BATCH,
                      .eval_batch = EVAL_BATCH,
                      .train_block = (int64_t)sizeof(Block),
                      .eval_block = (int64_t)offsetof(Block, d1),
                      .n_counts = 1,
                      .count_per_sample = count_per_sample,
                      .n_sums = 3,
                      .metrics = metrics,
                      .n_metrics = COUNT(metrics),
                      .forward_backward = forward_backward,
                      .evaluate = evaluate,
                      .metric_values = metric_values,
                      .schedule = schedule};
  return ddp_main(&job, argc, argv);
}
