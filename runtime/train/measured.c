/* Learning rates from measured values. In: the metric of each evaluation. Out: a rate for each group,
   with the arithmetic of the two classes that are followed, so that the rates have their bits. A metric
   that is no number is no improvement. */
#include "measured.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Numbers { /* as stdlib/schedule.ddp gives them */
  double up, factor, patience, threshold, relative, cooldown, min_lr, eps;
  double warmup, max_lr, window, reset_start; /* greedy */
} Numbers;

struct DdpMeasured {
  bool greedy;
  Numbers is;
  double *rates, *first;
  int32_t n;
  double best, bad, good, cooling, warming, resets;
  double *values, sum; /* the last ones, in a ring; oldest at `start` */
  int64_t start, count;
};

static void forget(DdpMeasured *m) {
  m->best = m->is.up != 0 ? -INFINITY : INFINITY;
  m->bad = m->good = m->cooling = m->warming = 0;
  m->resets = m->is.reset_start;
  m->sum = 0;
  m->start = m->count = 0;
}

DdpError *ddp_measured_open(DdpMeasured **out, const char *kind, const double *numbers,
                            const double *rates, int32_t n) {
  DdpMeasured *m = calloc(1, sizeof *m);
  *out = m;
  if (!m) return ddp_error(DDP_MEMORY, "out of memory");
  m->greedy = !strcmp(kind, "greedy");
  memcpy(&m->is, numbers, (m->greedy ? 12 : 8) * sizeof *numbers);
  m->n = n;
  size_t window = m->is.window > 0 ? (size_t)m->is.window : 0;
  m->rates = malloc((size_t)n * sizeof *rates);
  m->first = malloc((size_t)n * sizeof *rates);
  m->values = calloc(window + 1, sizeof *m->values); /* files of equal runs are equal */
  if (!m->rates || !m->first || !m->values) return ddp_error(DDP_MEMORY, "out of memory");
  memcpy(m->rates, rates, (size_t)n * sizeof *rates);
  memcpy(m->first, rates, (size_t)n * sizeof *rates);
  forget(m);
  return NULL;
}

void ddp_measured_close(DdpMeasured *m) {
  if (!m) return;
  free(m->rates);
  free(m->first);
  free(m->values);
  free(m);
}

double ddp_measured_rate(const DdpMeasured *m, int32_t group) {
  return m->rates[group];
}

int ddp_measured_parts(DdpMeasured *m, DdpMeasuredPart *out) {
  const int64_t window = m->is.window > 0 ? (int64_t)m->is.window : 0;
  const DdpMeasuredPart parts[DDP_MEASURED_PARTS] = {
      {"measured.rates", DDP_f64, m->rates, m->n},
      {"measured.best", DDP_f64, &m->best, 1},
      {"measured.bad", DDP_f64, &m->bad, 1},
      {"measured.good", DDP_f64, &m->good, 1},
      {"measured.cooling", DDP_f64, &m->cooling, 1},
      {"measured.warming", DDP_f64, &m->warming, 1},
      {"measured.resets", DDP_f64, &m->resets, 1},
      {"measured.sum", DDP_f64, &m->sum, 1},
      {"measured.values", DDP_f64, m->values, window + 1},
      {"measured.start", DDP_i64, &m->start, 1},
      {"measured.count", DDP_i64, &m->count, 1}};
  memcpy(out, parts, sizeof parts);
  return DDP_MEASURED_PARTS;
}

static bool better(const DdpMeasured *m, double a) {
  double t = m->is.threshold;
  if (m->is.up == 0) return a < (m->is.relative != 0 ? m->best * (1.0 - t) : m->best - t);
  return a > (m->is.relative != 0 ? m->best * (t + 1.0) : m->best + t);
}

static void reduce(DdpMeasured *m) {
  bool all_at_least = true;
  for (int32_t i = 0; i < m->n; i++) {
    double now = m->rates[i] * m->is.factor;
    if (!(now > m->is.min_lr)) now = m->is.min_lr;
    if (m->rates[i] - now > m->is.eps) m->rates[i] = now;
    if (m->rates[i] > m->is.min_lr) all_at_least = false;
  }
  if (!m->greedy || !all_at_least) return;
  if (--m->resets > 0) return;
  memcpy(m->rates, m->first, (size_t)m->n * sizeof *m->rates);
  forget(m);
}

static void increase(DdpMeasured *m) {
  for (int32_t i = 0; i < m->n; i++) {
    double now = m->rates[i] / m->is.factor;
    if (!(now < m->is.max_lr)) now = m->is.max_lr;
    if (now - m->rates[i] > m->is.eps) m->rates[i] = now;
  }
  m->resets = m->is.reset_start;
}

static void plateau_step(DdpMeasured *m, double metric) {
  if (better(m, metric)) {
    m->best = metric;
    m->bad = 0;
  } else {
    m->bad++;
  }
  if (m->cooling > 0) {
    m->cooling--;
    m->bad = 0;
  }
  if (m->bad > m->is.patience) {
    reduce(m);
    m->cooling = m->is.cooldown;
    m->bad = 0;
  }
}

static double smoothed(DdpMeasured *m, double metric) {
  int64_t window = (int64_t)m->is.window;
  m->values[(m->start + m->count) % (window + 1)] = metric;
  m->count++;
  m->sum += metric;
  if (m->count > window) {
    m->sum -= m->values[m->start];
    m->start = (m->start + 1) % (window + 1);
    m->count--;
  }
  return m->sum / (double)m->count;
}

static void greedy_step(DdpMeasured *m, double metric) {
  if (m->is.window > 0) metric = smoothed(m, metric);
  if (m->cooling > 0 || m->warming > 0) {
    *(m->cooling > 0 ? &m->cooling : &m->warming) -= 1;
    m->bad = m->good = 0;
    return;
  }
  if (better(m, metric)) {
    m->best = metric;
    m->bad = 0;
    m->good++;
  } else {
    m->bad++;
    m->good = 0;
  }
  if (m->good > m->is.patience) {
    increase(m);
    m->warming = m->is.warmup;
    m->good = 0;
  } else if (m->bad > m->is.patience) {
    reduce(m);
    m->cooling = m->is.cooldown;
    m->bad = 0;
  }
}

void ddp_measured_step(DdpMeasured *m, double metric) {
  if (m->greedy)
    greedy_step(m, metric);
  else
    plateau_step(m, metric);
}
