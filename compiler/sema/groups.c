/* Parameter groups. In: the leaves of the model and what `group` statements said about them. Out:
   Job.groups, Leaf.group, and the optimizers the groups need. Without a statement the two groups of the
   Trainer: biases, leaves of LayerNorm and names of norms do not decay (semantics.md, 6.6). A later
   statement wins key by key. */
#include "analysis.h"
#include "diag.h"
#include <ctype.h>
#include <math.h>

typedef struct GroupKeys {
  const char *name;                   /* paths of the last statement; NULL: none */
  double learning_rate, weight_decay; /* NAN: not given */
  bool has_optim, has_args;
  OptimizerChoice optim; /* of the keys given */
} GroupKeys;

static GroupKeys *keys_of(Analysis *a, int32_t leaf) {
  if (a->n_group_keys < a->leaves->leaves.len) {
    a->n_group_keys = a->leaves->leaves.len;
    a->group_keys = ARENA_ARRAY(a->arena, GroupKeys, a->n_group_keys);
    for (uint32_t i = 0; i < a->n_group_keys; i++) {
      a->group_keys[i].learning_rate = a->group_keys[i].weight_decay = NAN;
    }
  }
  return &a->group_keys[leaf];
}

static bool rate(Eval *e, const Setting *line, Env *env, double *out) {
  e->need = !strcmp(line->key, "weight_decay") ? "weight_decay = " : "learning_rate = ";
  bool ok = need_number(e, eval_expr(e, line->value, env), line->value->span, line->key, out);
  e->need = NULL;
  if (!ok || (*out >= 0 && isfinite(*out))) return ok;
  diag_report(DIAG_E0702, line->value->span, "`%s` must be at least 0", line->key);
  return false;
}

static void unknown_key(const Setting *line) {
  static const char *const known[] = {"learning_rate", "weight_decay", "optim", "optim_args"};
  TextNearest near = {.wanted = line->key};
  for (int i = 0; i < 4; i++) text_offer(&near, known[i]);
  diag_report(DIAG_E0701, line->key_span, "`group` has no key `%s`", line->key);
  if (near.best)
    diag_help("did you mean `%s`?", near.best);
  else
    diag_help("it has `learning_rate`, `weight_decay`, `optim` and `optim_args`");
}

static bool choose(Analysis *a, const Setting *line, File *file, OptimizerChoice *out) {
  bool args = !strcmp(line->key, "optim_args");
  SettingSlot slot = {.row = setting_row(setting_find("train", line->key)),
                      .file = file,
                      .at = line->value->span,
                      .key_at = line->key_span};
  SettingValue *v = ARENA_NEW(a->arena, SettingValue);
  if (!setting_evaluate(a->settings, &slot, line->value, v)) return false;
  if (args) {
    out->args = v;
    out->args_at = line->value->span;
  } else {
    out->expr = line->value;
    out->name = v->kind == VALUE_text ? v->text : NULL;
    out->at = line->value->span;
  }
  out->file = file;
  return true;
}

void groups_note(Analysis *a, const LeafSet *leaves, const SettingList *keys, const char *name,
                 Env *env) {
  GroupKeys given = {.learning_rate = NAN, .weight_decay = NAN};
  Eval e = analysis_eval(a);
  e.leaves = a->leaves;
  for (uint32_t i = 0; i < keys->len; i++) {
    const Setting *line = &keys->at[i];
    for (uint32_t k = 0; k < i; k++) {
      if (keys->at[k].key != line->key) continue;
      diag_report(DIAG_E0704, line->key_span, "`%s` is set twice", line->key);
      diag_note(keys->at[k].key_span, "first set here");
    }
    if (!strcmp(line->key, "learning_rate"))
      rate(&e, line, env, &given.learning_rate);
    else if (!strcmp(line->key, "weight_decay"))
      rate(&e, line, env, &given.weight_decay);
    else if (!strcmp(line->key, "optim"))
      given.has_optim = choose(a, line, env->file, &given.optim);
    else if (!strcmp(line->key, "optim_args")) {
      given.has_args = choose(a, line, env->file, &given.optim);
    } else
      unknown_key(line);
  }
  for (uint32_t i = 0; i < leaves->leaves.len; i++) {
    GroupKeys *k = keys_of(a, leaves->leaves.at[i]);
    k->name = name;
    if (!isnan(given.learning_rate)) k->learning_rate = given.learning_rate;
    if (!isnan(given.weight_decay)) k->weight_decay = given.weight_decay;
    if (given.has_optim) {
      k->optim.expr = given.optim.expr;
      k->optim.name = given.optim.name;
      k->optim.at = given.optim.at;
      k->optim.file = given.optim.file;
      k->has_optim = true;
      if (!given.has_args) k->optim.args = NULL; /* arguments of another optimizer */
      k->has_args = true;
    }
    if (given.has_args) {
      k->optim.args = given.optim.args;
      k->optim.args_at = given.optim.args_at;
      k->has_args = true;
    }
  }
}

/* The Trainer's patterns, on the lower-case path: bias, layernorm, rmsnorm, (?:^|\.)norm(?:$|\.),
   _norm(?:$|\.). */
static bool is_exempt(const char *name) {
  char low[256];
  size_t n = strlen(name) < sizeof(low) - 1 ? strlen(name) : sizeof(low) - 1;
  for (size_t i = 0; i < n; i++) low[i] = (char)tolower((unsigned char)name[i]);
  low[n] = 0;
  if (strstr(low, "bias") || strstr(low, "layernorm") || strstr(low, "rmsnorm")) return true;
  for (const char *p = low; (p = strstr(p, "norm")); p += 4) {
    bool ends = p[4] == 0 || p[4] == '.';
    bool starts = p == low || p[-1] == '.' || p[-1] == '_';
    if (ends && starts) return true;
  }
  return false;
}

static bool same(double x, double y) {
  return x == y || (isnan(x) && isnan(y));
}

static int32_t group_find(Analysis *a, Group g) {
  Job *job = a->job;
  for (uint32_t i = 0; i < job->groups.len; i++) {
    const Group *have = &job->groups.at[i];
    if (!strcmp(have->name, g.name) && same(have->learning_rate, g.learning_rate) &&
        same(have->weight_decay, g.weight_decay) && have->optimizer == g.optimizer) {
      return (int32_t)i;
    }
  }
  vec_push(a->arena, &job->groups, g);
  return (int32_t)job->groups.len - 1;
}

static OptimizerChoice default_choice(Analysis *a) {
  const SettingSlot *optim = settings_slot(a->settings, "optim");
  const SettingSlot *args = settings_slot(a->settings, "optim_args");
  OptimizerChoice c = {.expr = optim->expr, .file = optim->file ? optim->file : a->root};
  c.name = settings_value(a->settings, "optim")->text;
  c.at = optim->expr ? optim->at : (a->train ? a->train->span : (Span){0});
  c.args = settings_value(a->settings, "optim_args");
  c.args_at = args->at;
  return c;
}

static OptimizerChoice leaf_choice(const GroupKeys *k, const OptimizerChoice *usual) {
  OptimizerChoice c = *usual;
  if (k->has_optim) {
    c = k->optim;
  } else if (k->has_args) {
    c.args = k->optim.args;
    c.args_at = k->optim.args_at;
  }
  return c;
}

static Group leaf_group(Analysis *a, const LeafEntry *entry, const OptimizerChoice *usual) {
  const GroupKeys *k = keys_of(a, (int32_t)(entry - a->leaves->leaves.at));
  Leaf *leaf = &a->job->leaves.at[entry->number];
  bool exempt = is_exempt(entry->leaf.name) || entry->leaf.norm_owner;
  OptimizerChoice c = leaf_choice(k, usual);
  Group g = {.learning_rate = k->learning_rate,
             .weight_decay = !isnan(k->weight_decay) ? k->weight_decay
                             : exempt                ? 0
                                                     : NAN};
  leaf->optimizer = optimizer_make(a, &c, &leaf->type, &g.optimizer);
  g.name = k->name ? k->name : exempt ? "no_decay" : "decay";
  return g;
}

/* Every trained parameter has a shape that its optimizer is for. */
static bool shapes_fit(Analysis *a, const OptimizerChoice *usual) {
  bool fit = true;
  for (uint32_t i = 0; i < a->leaves->leaves.len; i++) {
    const Leaf *leaf = &a->job->leaves.at[a->leaves->leaves.at[i].number];
    OptimizerChoice c = leaf_choice(keys_of(a, (int32_t)i), usual);
    if (!leaf->buffer && leaf->trained) fit = optimizer_takes(a, &c, leaf) && fit;
  }
  return fit;
}

void groups_make(Analysis *a) {
  OptimizerChoice usual = default_choice(a);
  settings_fix(a->settings, setting_find("train", "optim_args"),
               "the optimizer is compiled with it");
  if (!shapes_fit(a, &usual)) return;
  /* "decay" stands first where both exist, as in the Trainer. */
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < a->leaves->leaves.len; i++) {
      const LeafEntry *entry = &a->leaves->leaves.at[i];
      Leaf *leaf = &a->job->leaves.at[entry->number];
      if (!pass) leaf->group = -1;
      if (leaf->buffer || !leaf->trained || leaf->group >= 0) continue;
      Group g = leaf_group(a, entry, &usual);
      if (!pass && strcmp(g.name, "decay") != 0) continue;
      leaf->group = group_find(a, g);
    }
  }
}
