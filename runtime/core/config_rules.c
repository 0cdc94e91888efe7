/* See config_rules.h. */
#include "config_rules.h"
#include <math.h>
#include <string.h>

static bool is(const char *value, const char *word) {
  return value && strcmp(value, word) == 0;
}

static DdpError *whole_steps(const DdpConfig *c) {
  static const DdpKey steps[] = {DDP_KEY_logging_steps, DDP_KEY_eval_steps, DDP_KEY_save_steps};
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    const DdpSettingRow *row = &ddp_setting_rows[steps[i]];
    double v = *(const double *)(const void *)((const char *)&c->settings + row->offset);
    if (v > 1 && v != floor(v)) {
      return ddp_error(DDP_USAGE, "%s = %s (%s): above 1 it must be a whole number of updates",
                       row->name, c->value[steps[i]], c->source[steps[i]]);
    }
  }
  return NULL;
}

/* Shares are compared in millionths, as the Trainer does. */
static bool is_multiple(double save, double eval) {
  if ((save < 1) != (eval < 1)) return false;
  double unit = save < 1 ? 1e6 : 1;
  return fmod(round(save * unit), round(eval * unit)) == 0;
}

static DdpError *best_model(const DdpConfig *c) {
  const DdpSettings *s = &c->settings;
  bool by_best = is(s->save_strategy, "best"), none = is(s->eval_strategy, "no");
  if (by_best && !s->metric_for_best_model) {
    return ddp_error(DDP_USAGE, "save_strategy = best needs metric_for_best_model: add "
                                "`--metric_for_best_model loss`, or a metric of the objective");
  }
  if ((by_best || s->load_best_model_at_end == 1) && none) {
    return ddp_error(DDP_USAGE, "%s needs evaluations, and eval_strategy is no",
                     by_best ? "save_strategy = best" : "load_best_model_at_end");
  }
  if (by_best || s->load_best_model_at_end != 1) return NULL;
  if (!is(s->eval_strategy, s->save_strategy)) {
    return ddp_error(DDP_USAGE,
                     "load_best_model_at_end needs equal strategies: eval_strategy is %s, "
                     "save_strategy is %s; or `--save_strategy best`",
                     s->eval_strategy, s->save_strategy);
  }
  double eval = isnan(s->eval_steps) ? s->logging_steps : s->eval_steps;
  if (!is(s->eval_strategy, "steps") || is_multiple(s->save_steps, eval)) return NULL;
  return ddp_error(DDP_USAGE,
                   "load_best_model_at_end needs save_steps to be a multiple of eval_steps: %g is "
                   "no multiple of %g",
                   s->save_steps, eval);
}

DdpError *ddp_config_rules(const DdpConfig *c) {
  DDP_TRY(whole_steps(c));
  return best_model(c);
}
