/* A job whose every number can be worked out on paper: two weights w, and per sample a loss of
   n * (c - w0 x - w1 y) over the columns c, x, y, n of train.csv. Its gradient is -n (x, y), the mean is
   over the sum of n. Plain gradient descent. Batch sizes and schedule come from the environment:
   PROBE_BATCH, PROBE_EVAL_BATCH, PROBE_LINEAR, PROBE_DRIFT. */
#include "ddp/job.h"
#include "ddp/settings.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const DdpTensor tensors[] = {{.name = "w",
                                     .dtype = DDP_f32,
                                     .rank = 1,
                                     .shape = {2},
                                     .elements = 2,
                                     .role = DDP_ROLE_param,
                                     .tied_to = -1},
                                    {.name = "seen",
                                     .dtype = DDP_i64,
                                     .elements = 1,
                                     .role = DDP_ROLE_buffer,
                                     .group = -1,
                                     .tied_to = -1}};
static const int32_t ready[] = {0};
static const DdpArenaInfo arenas[] = {{DDP_ROLE_param, 0, DDP_f32, 16},
                                      {DDP_ROLE_grad, 0, DDP_f32, 16},
                                      {DDP_ROLE_buffer, 0, DDP_u8, 64}};
static const DdpInitStep init[] = {{DDP_INIT_fill, 0, 2, 0, 0, 0, 1, 0, 0}};
static const DdpParamGroup groups[] = {{"all", NAN, NAN, 0}};

static void descend(const DdpSegment *s) {
  for (int64_t i = 0; i < s->n; i++) s->p[i] -= (float)s->lr * s->g[i];
}
static const DdpOptimizer optimizers[] = {{.name = "descent", .step = descend}};

#define FLOAT(name_)                                                                               \
  { .name = name_, .dtype = DDP_f32, .elements = 1, .used = true }
static const DdpField fields[] = {FLOAT("c"), FLOAT("x"), FLOAT("y"), FLOAT("n")};
static const char *const train_path[] = {"train.csv", NULL}, *const eval_path[] = {"eval.csv",
                                                                                   NULL};
static const DdpSource sources[] = {{.kind = DDP_SOURCE_csv, .paths = train_path},
                                    {.kind = DDP_SOURCE_csv, .paths = eval_path}};
static const DdpSplit splits[] = {{"train", 0}, {"validation", 1}};
static const DdpSettingText settings[] = {
    {"learning_rate", "1", "probe", false, NULL},
    {"max_grad_norm", "0", "probe", false, NULL},
    {"train_sampling_strategy", "sequential", "probe", false, NULL},
    {"num_train_epochs", "1", "probe", false, NULL},
    {"save_strategy", "no", "probe", false, NULL},
    {"logging_steps", "1", "probe", false, NULL},
    {"ddp_timeout", "20", "probe", false, NULL},
};

static float field(const DdpStep *s, int which, int64_t i) {
  return ((const float *)s->fields[which])[i];
}

static double sample_loss(const DdpStep *s, int64_t i) {
  const float *w = s->params;
  float value = field(s, 0, i) - w[0] * field(s, 1, i) - w[1] * field(s, 2, i);
  return (double)(field(s, 3, i) * value); /* floats, as kernels have them: 1e38 overflows */
}

/* No handler may run on a thread that computes. */
static void send_signal(int number) {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, NULL, &blocked);
  if (!sigismember(&blocked, number)) abort();
  kill(getpid(), number);
}

static void forward_backward(DdpStep *s) {
  if (!s->accumulate) s->grads[0] = s->grads[1] = 0;
  for (int64_t i = 0; i < s->batch; i++) {
    double weight = (double)field(s, 3, i) / s->counts[0];
    s->sums[0] += sample_loss(s, i) / s->counts[0];
    s->grads[0] -= (float)(weight * (double)field(s, 1, i));
    s->grads[1] -= (float)(weight * (double)field(s, 2, i));
    ++*(int64_t *)(void *)s->buffers;
  }
  if (getenv("PROBE_DRIFT") && s->update == atoll(getenv("PROBE_DRIFT")) && s->sample[0] == 1)
    s->params[1] += 1; /* on rank 1 alone, in batches of one */
  if (getenv("PROBE_SIGNAL") && s->update == 2) send_signal(atoi(getenv("PROBE_SIGNAL")));
  ddp_grad_ready(s, 0);
}

static void window_counts(const DdpStep *s, double *counts) {
  for (int64_t i = 0; i < s->batch; i++) counts[0] += (double)field(s, 3, i);
}

/* Sums: loss, counted items, samples with c = 7, samples. */
static void evaluate(DdpStep *s) {
  for (int64_t i = 0; i < s->batch; i++) {
    s->sums[0] += sample_loss(s, i);
    s->sums[1] += (double)field(s, 3, i);
    s->sums[2] += field(s, 0, i) == 7;
    s->sums[3] += 1;
  }
}

static void metric_values(const double *sums, double *out) {
  out[0] = sums[0] / sums[1];
  out[1] = sums[2] / sums[3];
}

static double linear(double step, double warmup, double total, double base_lr) {
  (void)base_lr;
  if (step < warmup) return step / fmax(1, warmup);
  return fmax(0, (total - step) / fmax(1, total - warmup));
}

static const double count_per_sample[] = {NAN};
static const char *const metrics[] = {"loss", "sevens"};

static int64_t number(const char *name, int64_t otherwise) {
  return getenv(name) ? atoll(getenv(name)) : otherwise;
}

int main(int argc, char **argv) {
  DdpJob job = {.abi = DDP_JOB_ABI,
                .name = "probe_job.c",
                .directory = "",
                .compiler = "by hand",
                .march = "x86-64",
                .spec = (const char *const[]){"# probe\n", NULL},
                .spec_hash = 3,
                .plan_hash = 4,
                .tensors = tensors,
                .n_tensors = 2,
                .arenas = arenas,
                .n_arenas = 3,
                .ready = ready,
                .n_ready = 1,
                .init = init,
                .n_init = 1,
                .groups = groups,
                .n_groups = 1,
                .optimizers = optimizers,
                .n_optimizers = 1,
                .fields = fields,
                .n_fields = 4,
                .sources = sources,
                .n_sources = 2,
                .splits = splits,
                .n_splits = 2,
                .eval_split = "validation",
                .settings = settings,
                .n_settings = (int32_t)(sizeof settings / sizeof settings[0]),
                .n_counts = 1,
                .count_per_sample = count_per_sample,
                .n_sums = 4,
                .metrics = metrics,
                .n_metrics = 2,
                .forward_backward = forward_backward,
                .window_counts = window_counts,
                .evaluate = evaluate,
                .metric_values = metric_values};
  job.train_batch = number("PROBE_BATCH", 1);
  job.eval_batch = number("PROBE_EVAL_BATCH", 4);
  if (number("PROBE_LINEAR", 0)) job.schedule = linear;
  return ddp_main(&job, argc, argv);
}
