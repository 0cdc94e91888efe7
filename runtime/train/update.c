/* From summed gradients to new parameters. In: gradients, this rank's loss. Out: the loss of all ranks,
   the gradient norm, clipped gradients, one optimizer step; or the rank whose loss is not finite. With a
   scaled loss (fp16) an update whose gradients are not finite on any rank is skipped on all: it counts as
   an update, as in the Trainer, but neither the optimizer's step nor the schedule advances. So is, with
   on_nan = skip, one whose loss or gradients are not finite; buffers are then as before it. */
#include "run.h"
#include "clock.h"
#include "log.h"
#include "norm.h"
#include "saver.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double run_rate_factor(const DdpRun *r, int64_t steps) {
  if (!r->job->schedule) return 1;
  return r->job->schedule((double)steps, (double)r->counts.warmup, (double)r->counts.total,
                          r->set->learning_rate);
}

DdpError *run_measured_open(DdpRun *r) {
  const DdpJob *job = r->job;
  if (!job->measured) return NULL;
  if (!strcmp(r->set->eval_strategy, "no")) {
    r->quiet = r->rank != 0;
    return ddp_error(DDP_USAGE,
                     "eval_strategy = no: the schedule of this job looks at a metric of the "
                     "evaluations");
  }
  double *rates = malloc((size_t)(job->n_groups + 1) * sizeof *rates);
  if (!rates) return ddp_error(DDP_MEMORY, "out of memory");
  for (int32_t i = 0; i <= job->n_groups; i++) {
    bool own = i < job->n_groups && !isnan(job->groups[i].learning_rate);
    rates[i] = own ? job->groups[i].learning_rate : r->set->learning_rate;
  }
  DdpError *error = ddp_measured_open(&r->measured, job->measured, job->measured_numbers, rates,
                                      job->n_groups + 1);
  free(rates);
  return error;
}

static const float *grad_of(const DdpRun *r, int32_t tensor) {
  return r->grads + r->job->tensors[tensor].offset;
}

/* Slots of the agreement: loss, a save that failed, reasons to stop, gradients that are not finite, tokens,
   then one norm per tensor; floats are exact in doubles and adding zeros is exact, so that every rank gets
   the norms its peers computed. */
static const double slow_update =
    2.0; /* seconds; whoever sends a signal waits for 30, or for one */
enum {
  AT_LOSS,
  AT_SAVING,
  AT_STOP,
  AT_OVERFLOW = AT_STOP + RUN_STOPS,
  AT_TOKENS,
  AT_SECONDS,
  AT_NORMS
};

bool run_skips(const DdpRun *r) {
  return strcmp(r->set->on_nan, "skip") == 0;
}

bool run_may_skip(const DdpRun *r) {
  return r->scale.on || run_skips(r);
}

/* The gradients without the scale of the loss. Returns how many of this rank's tensors are not finite;
   after the all-reduce every rank has the same ones. */
static double unscale(DdpRun *r) {
  double bad = 0;
  for (int32_t k = 0; r->scale.on && k < r->job->n_ready; k++) {
    int32_t t = r->job->ready[k];
    float *g = r->grads + r->job->tensors[t].offset;
    ddp_scale_undo(&r->scale, g, r->job->tensors[t].elements);
    if (r->norm_owner[t] == r->rank && !ddp_scale_finite(g, r->job->tensors[t].elements)) bad++;
  }
  return bad;
}

/* What this rank knows of loss and gradients. */
static void look_here(DdpRun *r) {
  double *a = r->agreement;
  a[AT_LOSS] = r->sums[0];
  a[AT_OVERFLOW] = unscale(r);
  for (int32_t t = 0; t < r->job->n_tensors && r->want_norm; t++) {
    bool mine = r->norm_owner[t] == r->rank;
    a[AT_NORMS + t] = mine ? (double)ddp_norm(grad_of(r, t), r->job->tensors[t].elements) : 0;
  }
}

/* The same from a device, whose sums of squares say whether gradients are finite, too. Where it steps by itself each
   rank has the norm, and all have the same one. */
static DdpError *look_there(DdpRun *r) {
  double *a = r->agreement;
  if (r->there.steps) {
    DDP_TRY(run_there_results(r, false));
    ddp_timing_lap(&r->timing, DDP_PART_forward_backward);
    a[AT_LOSS] = r->sums[0];
    a[AT_OVERFLOW] = 0;
    return NULL;
  }
  bool looks = r->want_norm || r->scale.on;
  if (r->scale.on)
    r->job->target->arena.scale(r->grads, r->grad_count, (float)(1.0 / r->scale.scale),
                                r->there.stream);
  DDP_TRY(run_there_results(r, looks));
  ddp_timing_lap(&r->timing, DDP_PART_forward_backward); /* until here it was only enqueued */
  const double *squares = r->there.norms_here;
  a[AT_LOSS] = r->sums[0];
  a[AT_OVERFLOW] = 0;
  for (int32_t t = 0; t < r->job->n_tensors && looks; t++) {
    double square = r->norm_owner[t] == r->rank ? *squares++ : 0;
    if (r->want_norm) a[AT_NORMS + t] = (double)(float)sqrt(square);
    if (r->scale.on && !isfinite(square)) a[AT_OVERFLOW]++;
  }
  return NULL;
}

static DdpError *share_results(DdpRun *r) {
  double *a = r->agreement;
  int32_t n = r->want_norm && !r->there.steps ? r->job->n_tensors : 0;
  if (r->device->apart)
    DDP_TRY(look_there(r));
  else
    look_here(r);
  r->loss = a[AT_LOSS];
  a[AT_SAVING] = run_saver_failed(r);
  run_stop_vote(r, a + AT_STOP);
  a[AT_TOKENS] = (double)r->tokens;
  a[AT_SECONDS] = r->rank == 0 ? ddp_clock() - r->window_begun : 0;
  ddp_timing_lap(&r->timing, DDP_PART_norm);
  if (r->world == 1) return NULL;
  const char *what = n ? "loss and gradient norms" : "loss";
  DdpError *error = ddp_group_sum(r->group, a, AT_NORMS + n, what);
  ddp_timing_lap(&r->timing, DDP_PART_communication);
  return error;
}

/* Norm of the vector of norms, in the order of the model. */
static float total_norm(DdpRun *r) {
  int32_t n = 0;
  if (r->there.steps) return r->there.settled->norm;
  for (int32_t t = 0; t < r->job->n_tensors; t++) {
    if (r->norm_owner[t] >= 0) r->norms[n++] = (float)r->agreement[AT_NORMS + t];
  }
  return ddp_norm(r->norms, n);
}

/* What was not finite in this update, for people: whose, and where it came from. */
typedef struct Fault {
  int blame; /* -1: no rank in particular */
  bool mine; /* this rank tells it */
  char text[480];
} Fault;

/* Gradients that nobody looked at may have spoiled the weights one update before. */
static DdpError *look_at_weights(const DdpRun *r, bool *spoiled) {
  RunView v;
  DdpError *error = run_view(r, r->params, r->param_count * (int64_t)sizeof(float), &v);
  *spoiled = !error && !isfinite(ddp_norm(v.at, r->param_count));
  run_view_close(&v);
  return error;
}

static DdpError *find_fault(DdpRun *r, double loss, double norm, Fault *f) {
  double *a = r->agreement;
  int blame = -1;
  for (int i = 0; i < r->world; i++) a[i] = 0;
  a[r->rank] = isfinite(r->loss) ? 0 : 1;
  if (r->world > 1)
    DDP_TRY(ddp_group_sum(r->group, a, r->world, "flags to find the rank with NaN"));
  for (int i = r->world - 1; i >= 0; i--) {
    if (a[i] > 0) blame = i;
  }
  f->blame = blame;
  f->mine = r->rank == (blame < 0 ? 0 : blame);
  char where[200] = "", of_gradients[200] = "";
  bool spoiled;
  DDP_TRY(look_at_weights(r, &spoiled));
  int64_t row = !f->mine || spoiled ? -1 : run_bad_row(r);
  if (blame >= 0 && r->world > 1) snprintf(where, sizeof where, ", first on rank %d", blame);
  size_t used = strlen(where);
  if (row >= 0) {
    snprintf(where + used, sizeof where - used, ", from data row %lld (counted from 1)",
             (long long)row + 1);
  }
  if (spoiled) {
    snprintf(where + used, sizeof where - used, ", the weights were not finite before it");
  }
  if (r->bad_tensor >= 0 && isfinite(loss))
    snprintf(of_gradients, sizeof of_gradients, " and the gradient of %s is not finite",
             r->job->tensors[r->bad_tensor].name);
  else if (r->want_norm && r->bad_tensor < 0)
    snprintf(of_gradients, sizeof of_gradients, " and the gradient norm %g", norm);
  if (f->mine && run_debugs(r, "underflow_overflow")) DDP_TRY(run_probe(r));
  snprintf(f->text, sizeof f->text, "update %lld: the loss is %g%s%s",
           (long long)r->progress.update + 1, loss, of_gradients, where);
  return NULL;
}

static DdpError *not_finite(DdpRun *r, double loss, double norm) {
  Fault f;
  DDP_TRY(find_fault(r, loss, norm, &f));
  r->quiet = r->quiet || !f.mine;
  return ddp_error_rank(DDP_NUMERIC, f.blame,
                        "%s; nothing was saved from it. A smaller --learning_rate or "
                        "--max_grad_norm may help; --on_nan skip leaves such updates out, "
                        "--on_nan ignore goes on",
                        f.text);
}

/* The update counts, and nothing else remains of it. */
static DdpError *leave_out(DdpRun *r, double loss, double norm) {
  Fault f;
  DDP_TRY(find_fault(r, loss, norm, &f));
  if (f.mine) ddp_log(DDP_LOG_warning, "%s; the update is skipped (on_nan = skip)", f.text);
  if (!r->kept_buffers) return NULL;
  return r->device->copy(r->buffers, r->kept_buffers, (size_t)r->buffer_bytes, r->there.stream);
}

/* The run goes on; what comes after the first time says nothing more. */
static DdpError *look_once(DdpRun *r) {
  if (r->probed || !run_debugs(r, "underflow_overflow")) return NULL;
  r->probed = true;
  return r->rank == 0 ? run_probe(r) : NULL;
}

/* What gradients count times. */
static float coefficient(const DdpRun *r, float norm) {
  return r->set->max_grad_norm > 0 ? ddp_norm_coefficient(norm, r->set->max_grad_norm) : 1;
}

static void clip(DdpRun *r, float c) {
  if (c == 1.0f) return; /* times one changes no bit */
  for (int32_t k = 0; k < r->job->n_ready; k++) {
    const DdpTensor *t = &r->job->tensors[r->job->ready[k]];
    ddp_norm_scale(r->grads + t->offset, t->elements, c);
  }
}

double run_rate(const DdpRun *r, int32_t group) {
  double own = r->job->groups[group].learning_rate;
  if (r->measured) return ddp_measured_rate(r->measured, group);
  return isnan(own) ? r->set->learning_rate : own;
}

double run_weight_decay(const DdpRun *r, int32_t group) {
  double own = r->job->groups[group].weight_decay;
  return isnan(own) ? r->set->weight_decay : own;
}

void run_step_tensor(DdpRun *r, int32_t tensor, double factor) {
  const DdpJob *job = r->job;
  const DdpTensor *t = &job->tensors[tensor];
  const DdpOptimizer *o = &job->optimizers[t->optimizer];
  DdpSegment s = {.p = r->params + t->offset,
                  .g = r->grads + t->offset,
                  .n = t->elements,
                  .block = r->block,
                  .lr = run_rate(r, t->group) * factor,
                  .weight_decay = run_weight_decay(r, t->group),
                  .step = r->progress.update - r->scale.skipped + 1,
                  .settings = r->set};
  for (int32_t i = 0; i < o->states; i++) s.state[i] = r->state[i] + t->state[i];
  o->step(&s);
}

/* Clipped gradients change the weights; on a device the step of the optimizer clips. */
static DdpError *step_all(DdpRun *r, double factor, float norm) {
  if (r->there.steps) return NULL; /* it has */
  float c = coefficient(r, norm);
  if (r->device->apart) return run_there_step(r, factor, c);
  clip(r, c);
  ddp_timing_lap(&r->timing, DDP_PART_norm);
  if (r->steps_early) return NULL;
  for (int32_t k = 0; k < r->job->n_ready; k++) run_step_tensor(r, r->job->ready[k], factor);
  return NULL;
}

DdpError *run_update(DdpRun *r, DdpWindowResult *out) {
  ddp_group_at(r->group, r->progress.update, "optimizer step");
  DDP_TRY(share_results(r));
  float norm = r->want_norm ? total_norm(r) : 0;
  out->loss = r->agreement[AT_LOSS];
  out->save_failed = r->agreement[AT_SAVING] > 0;
  r->stop = run_stop_of(r->agreement + AT_STOP);
  r->slow = r->agreement[AT_SECONDS] > slow_update;
  r->progress.tokens_seen += (int64_t)r->agreement[AT_TOKENS];
  out->finite = isfinite(out->loss) && isfinite(norm) && r->bad_tensor < 0;
  if (r->there.steps) out->finite = out->finite && !r->there.settled->hold;
  double factor = run_rate_factor(r, r->progress.update - r->scale.skipped);
  r->last_lr = r->measured ? ddp_measured_rate(r->measured, r->job->n_groups)
                           : factor * r->set->learning_rate;
  if (r->want_norm) r->last_norm = (double)norm;
  bool skip = r->agreement[AT_OVERFLOW] > 0 || (run_skips(r) && !out->finite);
  DdpError *error = ddp_scale_update(&r->scale, skip, r->progress.update + 1);
  if (error) r->quiet = r->rank != 0;
  bool scaled = r->scale.on && isfinite(out->loss); /* the scale was too large; nothing is wrong */
  if (!error && skip && run_skips(r) && !scaled) error = leave_out(r, out->loss, (double)norm);
  if (error || skip) {
    r->progress.update++;
    return error;
  }
  if (!out->finite && strcmp(r->set->on_nan, "ignore") != 0) {
    return not_finite(r, out->loss, (double)norm);
  }
  if (!out->finite) DDP_TRY(look_once(r));
  DDP_TRY(step_all(r, factor, norm));
  DDP_TRY(run_ema_update(r));
  ddp_timing_lap(&r->timing, DDP_PART_optimizer);
  r->progress.update++;
  return NULL;
}
