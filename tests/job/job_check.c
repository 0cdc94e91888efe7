/* Runs a whole job of the front end through the reference interpreter, in double. In: a .ddp file and
   small random data for its fields and parameters. Checks:
     the loss after pass_means is the loss as written, on one batch;
     parts of several micro-batches add up to the loss and the gradients of the whole batch
       (left out with `# micro-batches differ`: statistics inside the model);
     gradients equal central differences;
     metrics from accumulators of any cut of the split equal those of the split as one batch. */
#include "diag.h"
#include "ops.h"
#include "passes.h"
#include "sema.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 6 };

static Arena *arena;
static Job *job;
static int failures;
static double *param_shift; /* by leaf: added to element `shift_at` */
static int64_t shift_at;

static double unit(uint64_t a, uint64_t b, uint64_t c) { /* in (0, 1), the same on every machine */
  uint64_t key[3] = {a, b, c};
  return ((double)(text_hash(key, sizeof(key), 7) >> 11) + 0.5) / 9007199254740992.0;
}

typedef struct Run {
  int64_t first;        /* sample the micro-batch starts with */
  const double *counts; /* denominators of the update */
  double share;
  const double *sums; /* of the evaluation, for finish */
} Run;

static double field_value(const Field *f, int64_t sample, int64_t k) {
  double u = unit((uint64_t)(f - job->dataset.fields.at) + 100, (uint64_t)sample, (uint64_t)k);
  bool whole = dtype_category(f->type.dtype) != 'f';
  if (f->has_range) {
    double v = f->low + u * (f->high - f->low);
    return whole ? floor(v) : v;
  }
  return whole ? floor(u * 256) : 4 * u - 2;
}

static void fill_draw(const Value *x, const Run *run, double *out, int64_t n, int64_t batch) {
  int64_t per = n / batch;
  for (int64_t k = 0; k < n; k++) {
    double u = unit((uint64_t)x->attr[x->op == OP_bernoulli ? 1 : 2].as.i + 900,
                    (uint64_t)(run->first + k / per), (uint64_t)(k % per));
    out[k] = x->op == OP_bernoulli ? u < x->attr[0].as.f
                                   : x->attr[0].as.f + u * (x->attr[1].as.f - x->attr[0].as.f);
  }
}

static double host_value(const Value *x, const Run *run) {
  const char *name = x->attr[0].as.text;
  if (!strncmp(name, "sum.", 4)) return run->sums[atoi(name + 4)];
  const char *dot = strchr(name, '.');
  return strtod(job_setting(job, dot ? dot + 1 : name), NULL);
}

static int64_t now_batch;

static void source(void *self, const Graph *g, Val v, double *out) {
  const Run *run = self;
  const Value *x = value_at(g, v);
  int64_t n = type_elements_at(x->type, now_batch), i = x->attr ? x->attr[0].as.i : 0;
  switch (x->op) {
  case OP_input:
    for (int64_t k = 0; k < n; k++) {
      int64_t per = n / now_batch;
      out[k] = field_value(&job->dataset.fields.at[i], run->first + k / per, k % per);
    }
    break;
  case OP_param:
  case OP_buffer:
    for (int64_t k = 0; k < n; k++) {
      out[k] = 0.6 * unit((uint64_t)i, 5, (uint64_t)k) + (x->op == OP_buffer ? 0.5 : -0.3);
    }
    if (x->op == OP_param && shift_at >= 0 && shift_at < n) out[shift_at] += param_shift[i];
    break;
  case OP_count:
    out[0] = run->counts[i];
    break;
  case OP_share:
    out[0] = run->share;
    break;
  case OP_host:
    out[0] = host_value(x, run);
    break;
  default:
    fill_draw(x, run, out, n, now_batch);
    break;
  }
}

static double **run_graph(const Graph *g, int64_t batch, Run *run) {
  Interp how = {.batch = batch, .source = source, .self = run};
  now_batch = batch;
  return interp_run(arena, g, &how);
}

static const Output *find(const Graph *g, OutputKind kind, int32_t index) {
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    const Output *o = &g->outputs.at[i];
    if (o->kind == kind && o->index == index) return o;
  }
  return NULL;
}

static double scalar(const Graph *g, double **values, OutputKind kind, int32_t index) {
  const Output *o = find(g, kind, index);
  return o ? values[o->value][0] : NAN;
}

static void expect(const char *what, double have, double want, double tolerance) {
  double scale = fabs(want) > 1 ? fabs(want) : 1;
  if (fabs(have - want) <= tolerance * scale) return;
  printf("%s: %.12g, expected %.12g\n", what, have, want);
  failures++;
}

/* ---------- training ---------- */

typedef struct Cut { /* the batch as micro-batches */
  int n;
  int64_t size[BATCH];
} Cut;

static const Cut whole = {1, {BATCH}}, halves = {2, {2, 4}}, singles = {3, {1, 3, 2}};

static double *window_counts(const Cut *cut) {
  double *counts = arena_alloc(arena, sizeof(double) * (size_t)(job->train_counts + 1));
  int64_t first = 0;
  for (int i = 0; i < cut->n; first += cut->size[i++]) {
    Run run = {.first = first};
    double **v = run_graph(job->counts, cut->size[i], &run);
    for (int32_t k = 0; k < job->train_counts; k++) {
      double c = scalar(job->counts, v, OUT_sum, k), per = job->count_per_sample.at[k];
      counts[k] += c;
      if (!isnan(per)) expect("count per sample", per * (double)cut->size[i], c, 1e-12);
    }
  }
  return counts;
}

/* Sum of the parts; adds gradients of leaf l to grads when given. */
static double update_loss(const Cut *cut, int32_t leaf, double *grads) {
  double *counts = window_counts(cut), loss = 0;
  int64_t first = 0;
  for (int i = 0; i < cut->n; first += cut->size[i++]) {
    Run run = {.first = first, .counts = counts, .share = (double)cut->size[i] / BATCH};
    double **v = run_graph(job->train, cut->size[i], &run);
    loss += scalar(job->train, v, OUT_loss, 0);
    const Output *g = leaf < 0 ? NULL : find(job->train, OUT_grad, leaf);
    int64_t n = leaf < 0 ? 0 : type_elements_at(job->leaves.at[leaf].type, 1);
    for (int64_t k = 0; g && k < n; k++) grads[k] += v[g->value][k];
  }
  return loss;
}

static void check_leaf(int32_t leaf, bool cuts) {
  const Leaf *l = &job->leaves.at[leaf];
  if (l->buffer || !l->trained || l->tied_to >= 0) return;
  int64_t n = type_elements_at(l->type, 1);
  double *one = arena_alloc(arena, sizeof(double) * (size_t)n);
  double *cut = arena_alloc(arena, sizeof(double) * (size_t)n);
  update_loss(&whole, leaf, one);
  if (cuts) update_loss(&singles, leaf, cut);
  for (int64_t k = 0; k < n; k++) {
    const double h = 1e-5;
    char what[256];
    snprintf(what, sizeof(what), "gradient of %s[%lld]", l->name, (long long)k);
    if (cuts) expect(what, cut[k], one[k], 1e-9);
    if (k % (n / 8 + 1)) continue;
    shift_at = k;
    param_shift[leaf] = h;
    double up = update_loss(&whole, -1, NULL);
    param_shift[leaf] = -h;
    double down = update_loss(&whole, -1, NULL);
    shift_at = -1;
    param_shift[leaf] = 0;
    expect(what, one[k], (up - down) / (2 * h), 2e-5);
  }
}

static void check_train(double written, bool cuts) {
  expect("loss of one batch", update_loss(&whole, -1, NULL), written, 1e-9);
  if (cuts) {
    expect("loss of two micro-batches", update_loss(&halves, -1, NULL), written, 1e-9);
    expect("loss of three micro-batches", update_loss(&singles, -1, NULL), written, 1e-9);
  }
  for (int32_t i = 0; i < (int32_t)job->leaves.len; i++) check_leaf(i, cuts);
}

/* ---------- evaluation ---------- */

static void check_eval(const Cut *cut, const double *written, bool with_loss) {
  double *sums = arena_alloc(arena, sizeof(double) * (size_t)(job->eval_sums + 1));
  int64_t first = 0;
  for (int i = 0; i < cut->n; first += cut->size[i++]) {
    Run run = {.first = first};
    double **v = run_graph(job->eval, cut->size[i], &run);
    for (int32_t k = 0; k < job->eval_sums; k++) sums[k] += scalar(job->eval, v, OUT_sum, k);
  }
  Run run = {.sums = sums};
  double **v = run_graph(job->finish, 1, &run);
  for (int32_t m = with_loss ? 0 : 1; m <= (int32_t)job->metrics.len; m++) {
    expect(m ? job->metrics.at[m - 1].name : "evaluation loss",
           scalar(job->finish, v, OUT_metric, m), written[m], 1e-9);
  }
}

static bool file_says(const char *path, const char *text) {
  char line[512];
  bool found = false;
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof(line), f)) found |= strstr(line, text) != NULL;
  if (f) fclose(f);
  return found;
}

/* Of ddp/op.h; operators of C headers compute what their bodies say. */
static const char *include_folder(Arena *a) {
  (void)a;
  return TEST_INCLUDE;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  arena = arena_new();
  SemaOptions options = {.include = include_folder};
  shift_at = -1;
  job = sema_analyse(arena, argv[1], &options);
  if (!job) {
    diag_flush(stdout, false);
    return 1;
  }
  param_shift = arena_alloc(arena, sizeof(double) * (job->leaves.len + 1));
  double *written = arena_alloc(arena, sizeof(double) * (job->metrics.len + 1));
  Run run = {0};
  double **v = run_graph(job->train, BATCH, &run);
  double loss = scalar(job->train, v, OUT_value, 0);
  v = run_graph(job->eval, BATCH, &run);
  for (uint32_t m = 0; m <= job->metrics.len; m++) {
    written[m] = scalar(job->eval, v, OUT_value, (int32_t)m);
  }
  pass_means(job);
  if (!diag_errors()) pass_grad(job);
  diag_flush(stdout, false);
  if (diag_errors()) return 1;
  bool cuts = !file_says(argv[1], "# micro-batches differ");
  check_train(loss, cuts);
  check_eval(&whole, written, true);
  check_eval(&singles, written, cuts);
  if (argc > 2)
    printf("loss %.12g, %u leaves, %d counts, %d sums\n", loss, job->leaves.len, job->train_counts,
           job->eval_sums);
  return failures ? 1 : 0;
}
