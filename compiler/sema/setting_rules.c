/* Rules between keys (language.md, "Cross-key rules"). In: checked values. Out: E0707 and E0708 at the
   key that was written last, W0717 where one key silences another. A rule about a key whose own value
   was wrong says nothing more. */
#include "diag.h"
#include "settings.h"
#include "text.h"
#include <math.h>

static bool written(Settings *s, const char *key) {
  return settings_slot(s, key)->expr != NULL;
}
static Span at(Settings *s, const char *key) {
  return settings_slot(s, key)->key_at;
}

/* As written, also where the value was refused as not supported yet. */
static bool on(Settings *s, const char *key) {
  const SettingSlot *slot = settings_slot(s, key);
  if (slot->expr && slot->expr->kind == EXPR_bool) return slot->expr->as.b;
  const SettingValue *v = settings_value(s, key);
  return v->kind == VALUE_bool && v->b;
}

static bool is_word(Settings *s, const char *key, const char *word) {
  const SettingSlot *slot = settings_slot(s, key);
  if (slot->expr && slot->expr->kind == EXPR_name) return !strcmp(slot->expr->as.name.text, word);
  if (slot->expr && slot->expr->kind == EXPR_text) return !strcmp(slot->expr->as.text.text, word);
  const SettingValue *v = settings_value(s, key);
  return v->kind == VALUE_text && !strcmp(v->text, word);
}

static double number(Settings *s, const char *key) {
  const SettingValue *v = settings_value(s, key);
  return v->kind == VALUE_int ? (double)v->i : v->kind == VALUE_float ? v->f : NAN;
}

static const char *word(Settings *s, const char *key) {
  const SettingValue *v = settings_value(s, key);
  return v->kind == VALUE_text ? v->text : "none";
}

static void exclude(Settings *s, const char *a, const char *b) {
  if (!on(s, a) || !on(s, b)) return;
  Span first = at(s, a), second = at(s, b);
  bool swap = second.file == first.file && second.begin < first.begin;
  diag_report(DIAG_E0707, swap ? first : second, "`%s` and `%s` exclude each other", a, b);
  diag_note(swap ? second : first, "the other one is here");
  diag_help("keep one of the two");
}

static void whole_steps(Settings *s, const char *key) {
  double v = number(s, key);
  if (!written(s, key) || !(v > 1) || floor(v) == v) return;
  const char *show = setting_show(s->arena, settings_value(s, key));
  diag_report(DIAG_E0702, settings_slot(s, key)->at,
              "`%s` is %s; above 1 it is a number of updates and must be whole", key, show);
}

/* Shares are compared in millionths, as the Trainer does. */
static bool is_multiple(double save, double eval) {
  if ((save < 1) != (eval < 1)) return false;
  double unit = save < 1 ? 1e6 : 1;
  return fmod(round(save * unit), round(eval * unit)) == 0;
}

static void best_model(Settings *s) {
  if (is_word(s, "save_strategy", "best") && !written(s, "metric_for_best_model")) {
    diag_report(DIAG_E0708, at(s, "save_strategy"),
                "`save_strategy = best` needs `metric_for_best_model`");
    diag_help("add `metric_for_best_model = loss`, or a metric of the objective");
  }
  bool by_best = is_word(s, "save_strategy", "best");
  if ((by_best || on(s, "load_best_model_at_end")) && is_word(s, "eval_strategy", "no") &&
      (by_best || is_word(s, "save_strategy", "no"))) {
    const char *key = by_best ? "save_strategy" : "load_best_model_at_end";
    diag_report(DIAG_E0708, at(s, key), "`%s%s` needs evaluations, and `eval_strategy` is `no`",
                key, by_best ? " = best" : "");
    diag_help("write `eval_strategy = epoch`");
    return;
  }
  if (!on(s, "load_best_model_at_end") || by_best) return;
  if (strcmp(word(s, "eval_strategy"), word(s, "save_strategy")) != 0) {
    diag_report(DIAG_E0708, at(s, "load_best_model_at_end"),
                "`load_best_model_at_end` needs equal strategies: `eval_strategy` is `%s`, "
                "`save_strategy` is `%s`",
                word(s, "eval_strategy"), word(s, "save_strategy"));
    diag_help("write `save_strategy = %s`, or `save_strategy = best`", word(s, "eval_strategy"));
    return;
  }
  if (!is_word(s, "eval_strategy", "steps")) return;
  double eval = written(s, "eval_steps") ? number(s, "eval_steps") : number(s, "logging_steps");
  double save = number(s, "save_steps");
  if (!(eval > 0) || is_multiple(save, eval)) return;
  diag_report(DIAG_E0708, at(s, "load_best_model_at_end"),
              "`load_best_model_at_end` needs `save_steps` to be a multiple of `eval_steps`: %g is "
              "no multiple of %g",
              save, eval);
}

static void adaptive_schedule(Settings *s) {
  static const char *const names[] = {"reduce_lr_on_plateau", "greedy"};
  for (int i = 0; i < 2; i++) {
    if (!is_word(s, "lr_scheduler_type", names[i]) || !is_word(s, "eval_strategy", "no")) continue;
    diag_report(DIAG_E0708, at(s, "lr_scheduler_type"),
                "`lr_scheduler_type = %s` needs an evaluation, and `eval_strategy` is `no`",
                names[i]);
    diag_help("write `eval_strategy = epoch`");
  }
}

/* Every evaluation looks for the best model by metric_for_best_model. */
static void evaluations_read(Settings *s) {
  static const char *const keys[] = {"metric_for_best_model", "greater_is_better", "eval_delay"};
  for (int i = 0; i < 3; i++) {
    if (!written(s, keys[i]) || !is_word(s, "eval_strategy", "no")) continue;
    diag_report(DIAG_W0717, at(s, keys[i]),
                "`%s` changes nothing: `eval_strategy` is `no`, so that nothing is evaluated",
                keys[i]);
  }
  if (written(s, "greater_is_better") && !written(s, "metric_for_best_model") &&
      !on(s, "load_best_model_at_end") && !is_word(s, "eval_strategy", "no")) {
    diag_report(DIAG_W0717, at(s, "greater_is_better"),
                "`greater_is_better` changes nothing without `metric_for_best_model`");
  }
}

/* Keys of which the Trainer's documentation says that one breaks the other. */
static void checkpointing(Settings *s) {
  static const struct {
    const char *key, *why;
  } others[] = {
      {"ddp_find_unused_parameters", "which parameters get a gradient is known when compiling"},
      {"ddp_broadcast_buffers", "buffers are sent once, before the update computes anything"},
  };
  static const char *const names[] = {"gradient_checkpointing", "activation_checkpointing"};
  for (int i = 0; i < 2; i++) {
    for (int k = 0; k < 2 && on(s, names[i]); k++) {
      if (!on(s, others[k].key) || !written(s, others[k].key)) continue;
      diag_report(DIAG_W0719, at(s, others[k].key), "`%s` with `%s` is safe here: %s",
                  others[k].key, names[i], others[k].why);
      diag_note(at(s, names[i]), "the other one is here");
    }
  }
}

/* Class R, and nothing reads them. */
static void idle(Settings *s) {
  static const struct {
    const char *key, *why;
  } keys[] = {
      {"do_train", "`./train` trains"},
      {"do_eval", "`eval_strategy` says when to evaluate"},
      {"do_predict", "`./train --predict FILE` writes predictions"},
      {"dataloader_pin_memory", "batches of CPUs need no pinned memory"},
  };
  for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
    if (!written(s, keys[i].key)) continue;
    SettingValue initial;
    setting_default(s, settings_slot(s, keys[i].key)->row, &initial);
    if (setting_equal(settings_value(s, keys[i].key), &initial)) continue;
    diag_report(DIAG_W0717, at(s, keys[i].key), "`%s` changes nothing: %s", keys[i].key,
                keys[i].why);
  }
}

/* Two names of one thing. float32 is what there is without a hook, and says nothing against one. */
static void wire(Settings *s) {
  const char *type = word(s, "allreduce_dtype"), *hook = word(s, "comm_hook");
  bool bf = !strncmp(type, "bf", 2);
  if (!strcmp(hook, "none") || !strcmp(type, "float32")) return;
  if (bf == !strcmp(hook, "bf16_compress")) return;
  diag_report(
      DIAG_E0707, at(s, "comm_hook"),
      "`comm_hook = %s` and `allreduce_dtype = %s` name two types for gradients on the wire", hook,
      type);
  diag_note(at(s, "allreduce_dtype"), "the other one is here");
  diag_help("keep one of the two");
}

void settings_rules(Settings *s) {
  wire(s);
  checkpointing(s);
  idle(s);
  exclude(s, "bf16", "fp16");
  exclude(s, "bf16_full_eval", "fp16_full_eval");
  whole_steps(s, "logging_steps");
  whole_steps(s, "eval_steps");
  whole_steps(s, "save_steps");
  best_model(s);
  adaptive_schedule(s);
  evaluations_read(s);
  if (written(s, "dataloader_prefetch_factor") &&
      settings_slot(s, "dataloader_prefetch_factor")->expr->kind != EXPR_none &&
      !(number(s, "dataloader_num_workers") > 0) &&
      settings_slot(s, "dataloader_num_workers")->state != SLOT_wrong) {
    diag_report(DIAG_E0708, at(s, "dataloader_prefetch_factor"),
                "`dataloader_prefetch_factor` needs `dataloader_num_workers` above 0");
  }
  if (number(s, "max_steps") > 0 && written(s, "num_train_epochs")) {
    diag_report(DIAG_W0717, at(s, "num_train_epochs"),
                "`max_steps` is set, so that `num_train_epochs` says nothing");
    diag_note(at(s, "max_steps"), "set here");
  }
}
