/* Gradient checkpointing: `activation_checkpointing`, its older name and their options. In: checked
   settings. Out: Job.recompute. Options are those of torch.utils.checkpoint, which Hugging Face passes
   on, as far as they mean something here, and `memory_budget`. */
#include "analysis.h"
#include "diag.h"
#include "settings.h"
#include "text.h"

static const char *const names[] = {"activation_checkpointing", "gradient_checkpointing"};

static void budget(const SettingItem *item, JobRecompute *how) {
  const SettingValue *v = item->value;
  double b = v->kind == VALUE_int ? (double)v->i : v->kind == VALUE_float ? v->f : -1;
  if (b >= 0 && b <= 1) {
    how->memory_budget = b;
    return;
  }
  diag_report(DIAG_E0702, item->at, "`memory_budget` is a share from 0 to 1");
  diag_help("0 keeps as few activations as possible, 1 keeps all");
}

static void option(SettingItem *item, Span at, JobRecompute *how) {
  static const struct {
    const char *key, *why; /* why: nothing changes; NULL: never a question */
  } idle[] = {
      {"use_reentrant", NULL},
      {"preserve_rng_state", "what is drawn again are the same numbers"},
      {"determinism_check", "what is computed again has the same bits"},
      {"debug", "`ddpc plan` shows what is computed again"},
  };
  if (!item->at.file) item->at = at;
  if (!strcmp(item->key, "memory_budget")) {
    budget(item, how);
    return;
  }
  TextNearest near = {.wanted = item->key};
  text_offer(&near, "memory_budget");
  for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) {
    text_offer(&near, idle[i].key);
    if (strcmp(item->key, idle[i].key) != 0) continue;
    if (idle[i].why)
      diag_report(DIAG_W0717, item->at, "`%s` changes nothing: %s", item->key, idle[i].why);
    return;
  }
  diag_report(DIAG_E0715, item->at, "checkpointing has no option `%s`", item->key);
  if (!strcmp(item->key, "context_fn"))
    diag_help("what is kept is chosen by the compiler; `memory_budget` says how much");
  else if (near.best)
    diag_help("did you mean `%s`?", near.best);
}

void checkpointing_make(Settings *s, Job *job) {
  JobRecompute *how = &job->recompute;
  for (int i = 0; i < 2; i++) {
    const SettingValue *v = settings_value(s, names[i]);
    how->on = how->on || (v->kind == VALUE_bool && v->b);
  }
  for (int i = 0; i < 2; i++) {
    const SettingSlot *slot = settings_slot(s, names[i]);
    const SettingValue *v = settings_value(s, names[i]);
    if (how->on && slot->expr && v->kind == VALUE_bool && !v->b) {
      diag_report(DIAG_E0707, slot->key_at, "`%s = false` and `%s = true` exclude each other",
                  names[i], names[1 - i]);
      diag_help("they are two names of one thing: keep one");
    }
    const char *key = i ? "gradient_checkpointing_kwargs" : "activation_checkpointing_kwargs";
    const SettingSlot *options = settings_slot(s, key);
    const SettingValue *map = settings_value(s, key);
    if (map->kind != VALUE_map) continue;
    if (!how->on)
      diag_report(DIAG_W0717, options->key_at, "`%s` changes nothing: `%s` is not on", key,
                  names[i]);
    for (uint32_t k = 0; k < map->items.len; k++) option(&map->items.at[k], options->at, how);
  }
}
