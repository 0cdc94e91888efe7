/* Text from a model of characters: --generate, and sample_length at the end of training. In: the weights,
   the characters of the job's `text` source, a prompt. Out: the prompt and N characters, each drawn from
   the output `logits` at the last position of what stands before it; a draw depends on the seed and its
   number alone. */
#include "report.h"
#include "run.h"
#include "tokens.h"
#include "kernels/random.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t site = 0x67656e6572617465u; /* of the draws: "generate" */

typedef struct Generation {
  char asked[120]; /* the flag, or the setting and where it stands */
  FILE *out;
  const DdpField *field;
  int32_t output;       /* among the job's */
  int32_t characters;   /* of the text */
  int64_t classes;      /* V: as many, or more where the field's range is larger */
  int64_t positions;    /* T */
  int64_t n;            /* characters to print behind the prompt */
  double temperature;   /* 0: the likeliest */
  int64_t top_k;        /* <= V */
  int32_t *text;        /* numbers of characters: the prompt, then what is drawn */
  int64_t prompt, have; /* characters of the prompt, of all */
  double *weight;       /* [V] */
} Generation;

/* ---------- what the job has ---------- */

static bool has_text_source(const DdpJob *job) {
  for (int32_t i = 0; i < job->n_sources; i++) {
    if (job->sources[i].kind == DDP_SOURCE_text) return true;
  }
  return false;
}

static DdpError *find_text(Generation *g, const DdpJob *job) {
  for (int32_t i = 0; i < job->n_fields && !g->field; i++) {
    if (job->fields[i].categories && job->fields[i].rank == 1) g->field = &job->fields[i];
  }
  if (!has_text_source(job) || !g->field)
    return ddp_error(DDP_USAGE,
                     "%s: the data of the job are no text; it needs a dataset of `windows` over "
                     "a `text` source",
                     g->asked);
  while (g->field->categories[g->characters]) g->characters++;
  return NULL;
}

static DdpError *find_logits(Generation *g, const DdpJob *job) {
  const DdpResult *o = NULL;
  for (g->output = 0; g->output < job->n_results; g->output++) {
    o = &job->results[g->output];
    if (strcmp(o->name, "logits") == 0) break;
  }
  if (g->output == job->n_results)
    return ddp_error(
        DDP_USAGE,
        "%s: the objective of the job has no `output logits = ...`, a float for each of "
        "the %d characters at every position",
        g->asked, g->characters);
  bool fits = o->dtype == DDP_f32 && o->rank == 2 && o->shape[1] >= g->characters &&
              o->shape[0] <= g->field->elements;
  if (!fits)
    return ddp_error(
        DDP_USAGE,
        "%s: `output logits` must be floats [B, T, V]: one for each of the %d characters "
        "at T positions of `%s`, which has %lld",
        g->asked, g->characters, g->field->name, (long long)g->field->elements);
  g->classes = o->shape[1];
  g->positions = o->shape[0];
  return NULL;
}

/* ---------- what the flags say ---------- */

static DdpError *read_whole(const char *flag, const char *text, int64_t *out) {
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  if (*end || end == text || errno || n < 1 || n > INT32_MAX)
    return ddp_error(DDP_USAGE, "%s '%s': expected a whole number from 1 on", flag, text);
  *out = n;
  return NULL;
}

static DdpError *read_numbers(Generation *g, const DdpConfig *c) {
  if (c->generate)
    DDP_TRY(read_whole("--generate", c->generate, &g->n));
  else
    g->n = c->settings.sample_length;
  g->top_k = g->characters;
  if (c->top_k) DDP_TRY(read_whole("--top_k", c->top_k, &g->top_k));
  if (g->top_k > g->characters) g->top_k = g->characters;
  g->temperature = 1;
  if (!c->temperature) return NULL;
  char *end;
  g->temperature = strtod(c->temperature, &end);
  if (*end || end == c->temperature || !isfinite(g->temperature) || g->temperature < 0)
    return ddp_error(DDP_USAGE, "--temperature '%s': expected a number from 0 on", c->temperature);
  return NULL;
}

/* The number of a character; -1. */
static int32_t number_of(const Generation *g, const char *character, size_t n) {
  for (int32_t k = 0; k < g->characters; k++) {
    const char *other = g->field->categories[k];
    if (strlen(other) == n && memcmp(other, character, n) == 0) return k;
  }
  return -1;
}

static DdpError *read_prompt(Generation *g, const char *prompt) {
  size_t n = prompt ? strlen(prompt) : 0;
  g->text = malloc((n + (size_t)g->n + 1) * sizeof *g->text);
  g->weight = malloc((size_t)g->characters * sizeof *g->weight);
  if (!g->text || !g->weight) return ddp_error(DDP_MEMORY, "out of memory for the text");
  for (size_t at = 0; at < n;) {
    size_t before = at;
    if (!ddp_text_next(prompt, n, &at))
      return ddp_error(DDP_USAGE, "--prompt: byte %02x is not UTF-8",
                       (unsigned)(unsigned char)prompt[before]);
    int32_t k = number_of(g, prompt + before, at - before);
    if (k < 0)
      return ddp_error(DDP_USAGE,
                       "--prompt: the character '%.*s' is not one of the %d of the job's text",
                       (int)(at - before), prompt + before, g->characters);
    g->text[g->have++] = k;
  }
  g->prompt = g->have;
  if (g->have) return NULL;
  int32_t line = number_of(g, "\n", 1);
  g->text[g->have++] = line < 0 ? 0 : line;
  return NULL;
}

static DdpError *generation_open(Generation *g, const DdpJob *job, const DdpConfig *c) {
  *g = (Generation){.asked = "--generate", .out = stdout};
  if (!c->generate)
    snprintf(g->asked, sizeof g->asked, "sample_length (%s)", c->source[DDP_KEY_sample_length]);
  DDP_TRY(find_text(g, job));
  DDP_TRY(find_logits(g, job));
  DDP_TRY(read_numbers(g, c));
  return read_prompt(g, c->prompt);
}

static void generation_close(Generation *g) {
  free(g->text);
  free(g->weight);
}

DdpError *run_check_generate(const DdpJob *job, const DdpConfig *config) {
  Generation g;
  DdpError *error = generation_open(&g, job, config);
  generation_close(&g);
  return error;
}

/* ---------- one character ---------- */

/* The last characters of the text; behind them the first of the alphabet, which a causal model does not see. */
static void fill_window(const Generation *g, DdpRun *r, int64_t *last) {
  int64_t n = g->have < g->positions ? g->have : g->positions;
  char *into = r->batch->fields[g->field - r->job->fields];
  for (int64_t i = 0; i < g->field->elements; i++) {
    int64_t id = i < n ? g->text[g->have - n + i] : 0;
    if (g->field->dtype == DDP_u8)
      ((uint8_t *)into)[i] = (uint8_t)id;
    else if (g->field->dtype == DDP_i32)
      ((int32_t *)(void *)into)[i] = (int32_t)id;
    else
      ((int64_t *)(void *)into)[i] = id;
  }
  *last = n - 1;
}

/* Is there something to draw? Minus infinity is a character that must not come. */
static bool any(const Generation *g, const float *logits) {
  float most = -INFINITY;
  for (int32_t i = 0; i < g->characters; i++) {
    if (isnan(logits[i])) return false;
    if (logits[i] > most) most = logits[i];
  }
  return isfinite(most);
}

static int descending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x < y) - (x > y);
}

/* The k-th largest logit. */
static double kth(const Generation *g, const float *logits) {
  for (int32_t i = 0; i < g->characters; i++) g->weight[i] = (double)logits[i];
  qsort(g->weight, (size_t)g->characters, sizeof *g->weight, descending);
  return g->weight[g->top_k - 1];
}

static int32_t draw(const Generation *g, const float *logits, uint64_t seed) {
  int32_t best = 0, chosen = 0;
  for (int32_t i = 1; i < g->characters; i++) {
    if (logits[i] > logits[best]) best = i;
  }
  if (g->temperature == 0) return best;
  double least = kth(g, logits), sum = 0;
  for (int32_t i = 0; i < g->characters; i++) {
    double x = (double)logits[i];
    g->weight[i] = x < least ? 0 : exp((x - (double)logits[best]) / g->temperature);
    sum += g->weight[i];
  }
  int64_t number = g->have - (g->prompt ? g->prompt : 1);
  uint32_t u = ddp_random(ddp_row(ddp_draw(seed, 0, site, NULL), number), 0);
  double left = (double)u * 0x1p-32 * sum;
  for (int32_t i = 0; i < g->characters; i++) {
    if (g->weight[i] <= 0) continue;
    chosen = i; /* the last one, should rounding leave something */
    left -= g->weight[i];
    if (left < 0) break;
  }
  return chosen;
}

static DdpError *put(const Generation *g, int32_t character) {
  const char *text = g->field->categories[character];
  if (fputs(text, g->out) >= 0 && fflush(g->out) == 0) return NULL;
  return ddp_error(DDP_IO, "%s: cannot write the text: %s", g->asked, strerror(errno));
}

static DdpError *next(Generation *g, DdpRun *r, const void **results) {
  int64_t last;
  DdpStep step;
  RunView logits;
  DDP_TRY(run_batch_next(r));
  fill_window(g, r, &last);
  DDP_TRY(run_batch_send(r));
  run_still_step(r, 1, 1, &step);
  step.results = results;
  DDP_TRY(run_pass(r, r->job->predict, &step));
  const float *there = (const float *)results[g->output] + last * g->classes;
  DDP_TRY(run_view(r, there, g->classes * (int64_t)sizeof(float), &logits));
  bool possible = any(g, logits.at);
  int32_t character = possible ? draw(g, logits.at, (uint64_t)r->set->seed) : 0;
  run_view_close(&logits);
  if (!possible)
    return ddp_error(DDP_NUMERIC, "%s: the logits are not finite; nothing can be drawn", g->asked);
  g->text[g->have++] = character;
  return put(g, character);
}

/* Rank 0 writes; the others wait from character to character, so that none waits for long. */
static DdpError *generate(Generation *g, DdpRun *r, const void **results) {
  DdpError *error = NULL;
  for (int64_t i = 0; i < g->prompt && r->rank == 0 && !error; i++) error = put(g, g->text[i]);
  DDP_TRY(run_agree(r, error, "preparing the text"));
  ddp_group_at(r->group, r->progress.update, "generating text");
  for (int64_t i = 0; i < g->n; i++)
    DDP_TRY(run_agree(r, r->rank == 0 ? next(g, r, results) : NULL, "generating text"));
  return NULL;
}

/* To `out`, or to stdout. */
static DdpError *generate_to(DdpRun *r, FILE *out) {
  Generation g;
  const void **results = calloc((size_t)r->job->n_results + 1, sizeof *results);
  DdpError *error = generation_open(&g, r->job, r->config);
  if (!error && !results) error = ddp_error(DDP_MEMORY, "out of memory");
  if (out) g.out = out;
  error = run_agree(r, error, "preparing the text");
  if (!error) error = generate(&g, r, results);
  generation_close(&g);
  free(results);
  return error;
}

DdpError *run_generate(DdpRun *r) {
  DDP_TRY(generate_to(r, NULL));
  if (r->rank == 0) putchar('\n');
  return NULL;
}

DdpError *run_sample(DdpRun *r) {
  char *text = NULL;
  size_t size = 0;
  if (r->set->sample_length == 0) return NULL;
  FILE *out = r->rank == 0 ? open_memstream(&text, &size) : NULL;
  DdpError *error = NULL;
  if (r->rank == 0 && !out) error = ddp_error(DDP_MEMORY, "out of memory for the text");
  error = run_agree(r, error, "preparing the text");
  if (!error) error = generate_to(r, out);
  if (out) fclose(out);
  if (!error) error = report_sample(r->report, r, text);
  free(text);
  return error;
}
