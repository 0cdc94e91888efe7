/* The analysis of a job, in order: files, names, settings, dataset, model, objective, optimizers,
   schedule, spec. In: the path of the job file and -D. Out: the Job, or NULL after errors; as many of
   them as can be found are reported in one run. */
#include "analysis.h"
#include "diag.h"

Eval analysis_eval(Analysis *a) {
  return eval_new(a->program, NULL, a->leaves, false);
}

/* ---------- hooks of the evaluator ---------- */

static Datum declaration(void *self, Eval *e, File *file, const Decl *decl) {
  Analysis *a = self;
  switch (decl->kind) {
  case DECL_param:
    return import_param(a, e, file, decl);
  case DECL_dataset:
    return data_declare(a, e, file, decl);
  case DECL_model:
    return model_declare(a, e, file, decl);
  default:
    return datum_none();
  }
}

/* A setting that the binary may change is a number of the host; everything else is a value. */
static Datum setting(void *self, Eval *e, const char *block, const char *key, Span at) {
  Analysis *a = self;
  int i = setting_find(block, key);
  if (i < 0 || setting_row(i)->class == 'X') {
    TextNearest near = {.wanted = key};
    for (int k = 0; k < setting_rows(); k++) text_offer(&near, setting_row(k)->key);
    eval_report(e, DIAG_E0701, at, "`%s` has no key `%s`", block, key);
    if (near.best) diag_help("did you mean `%s`?", near.best);
    return datum_error();
  }
  const SettingRow *row = setting_row(i);
  const SettingValue *v = settings_get(a->settings, i);
  a->settings->slots[i].reads++;
  bool number = v->kind == VALUE_int || v->kind == VALUE_float || v->kind == VALUE_bool;
  if (row->class == 'R' && number) {
    HostValue *h = ARENA_NEW(a->arena, HostValue);
    const char **keys = ARENA_ARRAY(a->arena, const char *, 1);
    keys[0] = text_intern(arena_printf(a->arena, "%s.%s", block, key));
    *h = (HostValue){.known = true,
                     .is_bool = v->kind == VALUE_bool,
                     .is_int = v->kind == VALUE_int,
                     .keys = keys,
                     .n_keys = 1};
    h->value = v->kind == VALUE_int ? (double)v->i : v->kind == VALUE_float ? v->f : (double)v->b;
    Datum d = {.kind = DATUM_host};
    d.as.host.value = h;
    return d;
  }
  if (row->class == 'R') settings_fix(a->settings, i, "an expression of the job reads it");
  Datum scalar;
  if (setting_scalar(v, &scalar)) return scalar;
  eval_report(e, DIAG_E0716, at, "reading `%s.%s` in an expression is not supported yet", block,
              key);
  return datum_error();
}

static void fix(void *self, const char *key, const char *reason, Span at) {
  Analysis *a = self;
  (void)at;
  const char *dot = strchr(key, '.');
  int i = setting_find(NULL, dot ? dot + 1 : key);
  if (i >= 0) settings_fix(a->settings, i, reason);
}

/* ---------- blocks ---------- */

static void twice(const Decl *d, const Decl *first, const char *what) {
  diag_report(DIAG_E0302, d->span, "the job has two %s blocks", what);
  diag_note(first->span, "the first one is here");
}

static void find_blocks(Analysis *a) {
  for (uint32_t i = 0; i < a->root->ast->decls.len; i++) {
    const Decl *d = a->root->ast->decls.at[i];
    switch (d->kind) {
    case DECL_objective:
      if (a->objective)
        twice(d, a->objective, "`objective`");
      else
        a->objective = d;
      break;
    case DECL_train:
      if (a->train)
        twice(d, a->train, "`train`");
      else
        a->train = d;
      break;
    case DECL_runtime:
      if (a->runtime)
        twice(d, a->runtime, "`runtime`");
      else
        a->runtime = d;
      break;
    case DECL_dataset:
      vec_push(a->arena, &a->datasets, d);
      break;
    case DECL_model:
      vec_push(a->arena, &a->models, d);
      break;
    case DECL_sweep:
      if (a->sweep)
        twice(d, a->sweep, "`sweep`");
      else
        a->sweep = d;
      break;
    default:
      break;
    }
  }
}

static const Decl *train_of(File *file) {
  for (uint32_t i = 0; file && i < file->ast->decls.len; i++) {
    if (file->ast->decls.at[i]->kind == DECL_train) return file->ast->decls.at[i];
  }
  return NULL;
}

/* `train extends base.train`: the settings of the other file first. */
static void add_train(Analysis *a, File *file, const Decl *train, int depth) {
  const NameList *from = &train->extends;
  if (from->len) {
    FileName *alias = from->len == 2 ? file_find(file, from->at[0].text) : NULL;
    bool names_train = from->len == 2 && !strcmp(from->at[1].text, "train");
    File *other = alias && alias->decl->kind == DECL_import ? alias->import : NULL;
    const Decl *base = other ? train_of(other) : NULL;
    if (alias) file_mark_used(file, from->at[0].text);
    bool failed = alias && alias->decl->kind == DECL_import && !other; /* reported */
    if (base && names_train && depth < 64) {
      add_train(a, other, base, depth + 1);
    } else if (!failed) {
      Span at = span_join(from->at[0].span, from->at[from->len - 1].span);
      diag_report(DIAG_E0710, at, "`extends` does not lead to a `train`");
      diag_help("write `train extends alias.train`, where `alias` is an import with a `train`");
    }
  }
  settings_add(a->settings, "train", &train->settings, file, depth > 0);
}

static void collect_settings(Analysis *a) {
  if (a->train) add_train(a, a->root, a->train, 0);
  if (a->runtime) settings_add(a->settings, "runtime", &a->runtime->settings, a->root, false);
  for (int i = 0; i < a->options->n_defines; i++) {
    const SemaDefine *d = &a->options->defines[i];
    if (!strchr(d->name, '.') || import_defines(a, d->name)) continue;
    if (!strncmp(d->name, "train.", 6) || !strncmp(d->name, "runtime.", 8)) {
      settings_define(a->settings, d->name, d->value);
      continue;
    }
    uint32_t source = source_add(arena_printf(a->arena, "-D %s", d->name),
                                 arena_strdup(a->arena, d->value), strlen(d->value));
    diag_report(DIAG_E0713, (Span){source, 0, (uint32_t)strlen(d->value)},
                "`-D %s` is neither a param nor a key of `train` or `runtime`", d->name);
    diag_help("a param of an imported file is `-D ALIAS.NAME`, by the alias in the job file");
  }
}

/* Files without train and model are libraries or fragments: there is no job to make. */
static bool is_whole(Analysis *a, bool *fragment) {
  *fragment = !a->train && !a->models.len && a->options->check_only;
  if (*fragment) return false;
  if (a->options->check_only && (!a->train || !a->models.len || !a->objective)) {
    *fragment = true;
    return false;
  }
  const char *lacks = !a->datasets.len ? "dataset"
                      : !a->models.len ? "model"
                      : !a->objective  ? "objective"
                      : !a->train      ? "train"
                                       : NULL;
  if (!lacks) return true;
  diag_report(DIAG_E0902, (Span){a->root->ast->source, 0, 0}, "the job has no `%s`", lacks);
  diag_help("a job has a `dataset`, a `model`, an `objective` and a `train`");
  return false;
}

static void declare(Analysis *a, const Decl *decl) {
  FileName *name = file_find(a->root, decl->name.text);
  if (!name || name->decl != decl) return; /* declared twice */
  Eval e = analysis_eval(a);
  file_value(&e, a->root, name, decl->name.span);
}

static void check_smoothing(Analysis *a) {
  SettingSlot *slot = settings_slot(a->settings, "label_smoothing_factor");
  const SettingValue *v = settings_value(a->settings, "label_smoothing_factor");
  if (!slot->expr || slot->reads || v->kind != VALUE_float || v->f == 0) return;
  diag_report(DIAG_E0708, slot->key_at,
              "`label_smoothing_factor` acts only where the objective reads it");
  diag_help("write `cross_entropy(..., label_smoothing = train.label_smoothing_factor)`");
}

static void build_job(Analysis *a) {
  a->job->train_batch = settings_value(a->settings, "per_device_train_batch_size")->i;
  a->job->eval_batch = settings_value(a->settings, "per_device_eval_batch_size")->i;
  for (uint32_t i = 0; i < a->datasets.len; i++) declare(a, a->datasets.at[i]);
  for (uint32_t i = 0; i < a->models.len; i++) declare(a, a->models.at[i]);
  bool models = model_finish(a);
  if (models) groups_make(a);
  schedule_make(a);
  if (models && a->data.len) objective_build(a);
  data_finish(a);
  for (uint32_t i = 0; i < a->program->remarks.len; i++)
    vec_push(a->arena, &a->job->remarks, a->program->remarks.at[i]);
  check_smoothing(a);
  job_rules(a);
}

/* False when a definition is made of itself: evaluating it would go on up to the limits. */
static bool check_names(Analysis *a) {
  bool ends = true;
  for (uint32_t i = 0; i < a->loaded.len; i++)
    ends = resolve_file(a->program, a->loaded.at[i].file) && ends;
  return ends;
}

Job *sema_analyse(Arena *arena, const char *path, const SemaOptions *options) {
  Analysis *a = ARENA_NEW(arena, Analysis);
  diag_lenient(options->check_only);
  a->arena = arena;
  a->options = options;
  a->program = program_new(arena);
  a->program->no_kernels = options->no_kernels;
  a->job = ARENA_NEW(arena, Job);
  a->leaves = ARENA_NEW(arena, LeafStore);
  a->job->arena = arena;
  a->job->path = arena_strdup(arena, path);
  a->job->directory = path_directory(arena, path);
  a->program->hooks = (JobHooks){.self = a,
                                 .declaration = declaration,
                                 .import = import_hook,
                                 .setting = setting,
                                 .fix = fix,
                                 .metric = objective_metric,
                                 .output = objective_output,
                                 .use = data_use,
                                 .classes = data_classes};
  if (!import_job(a, a->job->path)) return NULL;
  a->settings = settings_new(arena, a->program);
  find_blocks(a);
  collect_settings(a);
  bool ends = check_names(a);
  import_check_defines(a);
  settings_check(a->settings);
  settings_rules(a->settings);
  checkpointing_make(a->settings, a->job);
  target_make(a);
  external_choose(a);
  bool fragment = false;
  bool whole = is_whole(a, &fragment);
  if (whole && ends) build_job(a);
  sweep_make(a);
  if ((whole || fragment) && ends) resolve_unused(a->program, a->root);
  if (diag_errors()) return NULL;
  settings_export(a->settings, a->job);
  spec_make(a);
  return a->job;
}
