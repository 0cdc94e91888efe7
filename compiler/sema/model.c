/* The model of a job. In: the `model` block. Out: its instance, Job.leaves and Job.init, frozen leaves,
   and what `group` said about each leaf. Statements run in the order written. */
#include "analysis.h"
#include "diag.h"
#include "die.h"

static bool collect(Analysis *a, Eval *e, const Where *where, Env *env, LeafSet *out) {
  bool ok = true;
  LeafSet all = {0}, without = {0};
  if (!where->paths.len) instance_leaves(e, a->model, &all);
  for (uint32_t i = 0; i < where->paths.len; i++) {
    ok &= path_leaves(e, a->model, &where->paths.at[i], env, &all);
  }
  for (uint32_t i = 0; i < where->except.len; i++) {
    ok &= path_leaves(e, a->model, &where->except.at[i], env, &without);
  }
  for (uint32_t i = 0; i < all.leaves.len; i++) {
    int32_t leaf = all.leaves.at[i];
    bool keep = true;
    for (uint32_t k = 0; k < without.leaves.len; k++) keep &= without.leaves.at[k] != leaf;
    for (uint32_t k = 0; k < out->leaves.len; k++) keep &= out->leaves.at[k] != leaf;
    if (keep) vec_push(a->arena, &out->leaves, leaf);
  }
  return ok;
}

static void set_eval(Instance *i) {
  i->eval = true;
  for (uint32_t k = 0; k < i->children.len; k++) set_eval(i->children.at[k].instance);
}

static void run_eval(Analysis *a, Eval *e, const ModelItem *item, Env *env) {
  if (item->where.except.len) {
    diag_report(DIAG_E0716, item->span, "`eval ... except` is not supported yet");
    return;
  }
  if (!item->where.paths.len) set_eval(a->model);
  for (uint32_t i = 0; i < item->where.paths.len; i++) {
    PathHits hits = {0};
    if (!path_resolve(e, a->model, &item->where.paths.at[i], env, &hits)) continue;
    for (uint32_t k = 0; k < hits.hits.len; k++) {
      if (hits.hits.at[k].instance) set_eval(hits.hits.at[k].instance);
    }
  }
}

static const char *path_text(Arena *a, Span at) {
  const Source *source = source_get(at.file);
  return arena_strndup(a, source->text + at.begin, at.end - at.begin);
}

static void run_items(Analysis *a, Eval *e, ModelList items, Env *env);

static void run_for(Analysis *a, Eval *e, const ModelItem *item, Env *env) {
  if (item->loop.targets.len != 1 || item->loop.iterables.len != 1) {
    diag_report(DIAG_E0716, item->span,
                "a `for` over several lists in a model block is not supported yet");
    return;
  }
  Datum list = eval_expr(e, item->loop.iterables.at[0], env);
  if (list.kind == DATUM_error) return;
  if (list.kind != DATUM_list) {
    diag_report(DIAG_E0501, item->loop.iterables.at[0]->span, "`for` runs over a list, not %s",
                datum_describe(e, list));
    return;
  }
  for (uint32_t i = 0; i < list.as.list.len; i++) {
    Env *turn = env_new(a->arena, env, env->file);
    env_define(a->arena, turn, item->loop.targets.at[0].text, list.as.list.at[i], BIND_index,
               item->loop.targets.at[0].span);
    run_items(a, e, item->body, turn);
  }
}

static void run_item(Analysis *a, Eval *e, const ModelItem *item, Env *env) {
  LeafSet set = {0};
  switch (item->kind) {
  case MODEL_error:
    break;
  case MODEL_load:
    diag_report(DIAG_E0716, item->span, "`load` is not supported yet");
    break;
  case MODEL_freeze:
    if (!collect(a, e, &item->where, env, &set)) break;
    for (uint32_t i = 0; i < set.leaves.len; i++) {
      a->leaves->leaves.at[set.leaves.at[i]].leaf.trained = false;
    }
    break;
  case MODEL_eval:
    run_eval(a, e, item, env);
    break;
  case MODEL_group:
    if (!collect(a, e, &item->where, env, &set)) break;
    groups_note(
        a, &set, &item->settings,
        item->where.paths.len
            ? path_text(a->arena, span_join(item->where.paths.at[0].span,
                                            item->where.paths.at[item->where.paths.len - 1].span))
            : "all",
        env);
    break;
  case MODEL_tie:
    module_tie(e, a->model, &item->path, &item->right, env, item->span);
    break;
  case MODEL_init:
    module_init(e, a->model, &item->path, item->value, env, item->span);
    break;
  case MODEL_for:
    run_for(a, e, item, env);
    break;
  }
}

static void run_items(Analysis *a, Eval *e, ModelList items, Env *env) {
  for (uint32_t i = 0; i < items.len; i++) run_item(a, e, items.at[i], env);
}

Datum model_declare(Analysis *a, Eval *e, File *file, const Decl *decl) {
  (void)e;
  if (a->model) return datum_instance(a->model);
  if (decl != a->model_decl) {
    diag_report(DIAG_E0716, decl->span, "several models are not supported yet");
    return datum_error();
  }
  Eval ev = analysis_eval(a);
  ev.leaves = a->leaves;
  Env *env = env_new(a->arena, NULL, file);
  Datum d = eval_expr(&ev, decl->value, env);
  if (d.kind == DATUM_error) return d;
  a->model = module_instantiate(&ev, d, "", decl->name.text, decl->value->span);
  if (!a->model) return datum_error();
  run_items(a, &ev, decl->model, env);
  return datum_instance(a->model);
}

/* LayerNorm of torch.nn is the library's; a module of the job with that name is another one. */
static bool is_layer_norm(const Analysis *a, const Instance *owner) {
  if (!owner || !owner->made || !owner->decl || strcmp(owner->decl->name.text, "LayerNorm") != 0) {
    return false;
  }
  for (uint32_t i = 0; i < a->loaded.len; i++) {
    if (owner->made->file == a->loaded.at[i].file) return false;
  }
  return true;
}

static bool in_library(Span at) {
  return !at.file || !strncmp(source_get(at.file)->path, "std/", 4);
}

void model_finish(Analysis *a) {
  if (!a->model) return;
  for (uint32_t i = 0; i < a->leaves->leaves.len; i++) {
    LeafEntry *entry = &a->leaves->leaves.at[i];
    entry->leaf.norm_owner = is_layer_norm(a, entry->owner);
    /* For messages: where the job makes the module, not where the library declares the leaf. */
    if (in_library(entry->leaf.at) && entry->owner) entry->leaf.at = entry->owner->at;
    if (in_library(entry->leaf.at)) entry->leaf.at = a->model_decl->value->span;
  }
  Eval ev = analysis_eval(a);
  leaves_number(&ev, a->leaves, &a->model, 1, a->job);
  bool trained = false;
  for (uint32_t i = 0; i < a->job->leaves.len; i++) trained |= a->job->leaves.at[i].trained;
  if (!trained) {
    diag_report(DIAG_E0614, a->model_decl->name.span, "nothing is trained: %s",
                a->job->leaves.len ? "every parameter is frozen" : "the model has no parameters");
  }
}
