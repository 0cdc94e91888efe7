/* The models of a job. In: the `model` blocks. Out: their instances, Job.leaves and Job.init, frozen
   leaves, and what `group` said about each leaf. Statements run in the order written. */
#include "analysis.h"
#include "diag.h"
#include "die.h"

typedef struct Load { /* of one `load` */
  const ModelItem *item;
  const char *prefix; /* path of the module that it fills */
  LeafSet leaves, except;
} Load;

typedef struct ModelState {
  const Decl *decl;
  Instance *root; /* NULL: it has mistakes */
  VEC(Load) loads;
} ModelState;

typedef struct ModelRun { /* the statements of one block */
  Analysis *a;
  Eval *e;
  Instance *root;
  ModelState *state;
} ModelRun;

static bool collect(ModelRun *r, const Where *where, Env *env, LeafSet *out) {
  bool ok = true;
  LeafSet all = {0}, without = {0};
  if (!where->paths.len) instance_leaves(r->e, r->root, &all);
  for (uint32_t i = 0; i < where->paths.len; i++) {
    ok &= path_leaves(r->e, r->root, &where->paths.at[i], env, &all);
  }
  for (uint32_t i = 0; i < where->except.len; i++) {
    ok &= path_leaves(r->e, r->root, &where->except.at[i], env, &without);
  }
  for (uint32_t i = 0; i < all.leaves.len; i++) {
    int32_t leaf = all.leaves.at[i];
    bool keep = true;
    for (uint32_t k = 0; k < without.leaves.len; k++) keep &= without.leaves.at[k] != leaf;
    for (uint32_t k = 0; k < out->leaves.len; k++) keep &= out->leaves.at[k] != leaf;
    if (keep) vec_push(r->a->arena, &out->leaves, leaf);
  }
  return ok;
}

/* ---------- eval ---------- */

typedef VEC(Instance *) Instances;

static void set_eval(Instance *i, const Instances *except) {
  for (uint32_t k = 0; k < except->len; k++) {
    if (except->at[k] == i) return;
  }
  i->eval = true;
  for (uint32_t k = 0; k < i->children.len; k++) set_eval(i->children.at[k].instance, except);
}

/* Modules that paths name; a leaf has no mode. */
static bool modules_of(ModelRun *r, const PathList *paths, Env *env, Instances *out) {
  bool ok = true;
  for (uint32_t i = 0; i < paths->len; i++) {
    PathHits hits = {0};
    if (!path_resolve(r->e, r->root, &paths->at[i], env, &hits)) ok = false;
    for (uint32_t k = 0; ok && k < hits.hits.len; k++) {
      if (hits.hits.at[k].instance) {
        vec_push(r->a->arena, out, hits.hits.at[k].instance);
        continue;
      }
      diag_report(DIAG_E0604, paths->at[i].span, "`eval` is for modules, and this is a parameter");
      diag_help("`freeze` keeps a parameter as it is");
      ok = false;
    }
  }
  return ok;
}

static void run_eval(ModelRun *r, const ModelItem *item, Env *env) {
  Instances paths = {0}, except = {0};
  if (!modules_of(r, &item->where.paths, env, &paths) ||
      !modules_of(r, &item->where.except, env, &except)) {
    return;
  }
  if (!item->where.paths.len) vec_push(r->a->arena, &paths, r->root);
  for (uint32_t i = 0; i < paths.len; i++) set_eval(paths.at[i], &except);
}

/* ---------- statements ---------- */

static const char *path_text(Arena *a, Span at) {
  const Source *source = source_get(at.file);
  return arena_strndup(a, source->text + at.begin, at.end - at.begin);
}

static void run_items(ModelRun *r, ModelList items, Env *env);

static bool loop_lists(ModelRun *r, const Loop *loop, Env *env, Datum *lists) {
  for (uint32_t k = 0; k < loop->iterables.len; k++) {
    const Expr *x = loop->iterables.at[k];
    lists[k] = eval_expr(r->e, x, env);
    if (lists[k].kind == DATUM_error) return false;
    if (lists[k].kind != DATUM_list) {
      diag_report(DIAG_E0501, x->span, "`for` runs over a list, not %s",
                  datum_describe(r->e, lists[k]));
      return false;
    }
    if (lists[k].as.list.len == lists[0].as.list.len) continue;
    diag_report(DIAG_E0418, x->span, "this list has %u items, the first one %u",
                lists[k].as.list.len, lists[0].as.list.len);
    return false;
  }
  if (loop->targets.len == loop->iterables.len) return true;
  diag_report(DIAG_E0514, loop->span, "%u names for %u lists", loop->targets.len,
              loop->iterables.len);
  return false;
}

static void run_for(ModelRun *r, const ModelItem *item, Env *env) {
  Datum *lists = ARENA_ARRAY(r->a->arena, Datum, item->loop.iterables.len + 1);
  if (!loop_lists(r, &item->loop, env, lists)) return;
  for (uint32_t i = 0; i < lists[0].as.list.len; i++) {
    Env *turn = env_new(r->a->arena, env, env->file);
    for (uint32_t k = 0; k < item->loop.targets.len; k++) {
      env_define(r->a->arena, turn, item->loop.targets.at[k].text, lists[k].as.list.at[i],
                 BIND_index, item->loop.targets.at[k].span);
    }
    run_items(r, item->body, turn);
  }
}

static void run_freeze(ModelRun *r, const ModelItem *item, Env *env) {
  LeafSet set = {0};
  if (!collect(r, &item->where, env, &set)) return;
  for (uint32_t i = 0; i < set.leaves.len; i++) {
    r->a->leaves->leaves.at[set.leaves.at[i]].leaf.trained = false;
  }
}

static void run_group(ModelRun *r, const ModelItem *item, Env *env) {
  LeafSet set = {0};
  const PathList *paths = &item->where.paths;
  if (!collect(r, &item->where, env, &set)) return;
  const char *name =
      paths->len
          ? path_text(r->a->arena, span_join(paths->at[0].span, paths->at[paths->len - 1].span))
          : "all";
  groups_note(r->a, &set, &item->settings, name, env);
}

/* `load "file"`, `load PATH = "file"`: which leaves, by which names; finished when all statements ran. */
static void run_load(ModelRun *r, const ModelItem *item, Env *env) {
  Load load = {.item = item, .prefix = r->root->path};
  Instance *from = r->root;
  if (item->path.steps.len) {
    PathHits hits = {0};
    if (!path_resolve(r->e, r->root, &item->path, env, &hits)) return;
    bool one = hits.hits.len == 1 && hits.hits.at[0].instance;
    if (!one) {
      diag_report(DIAG_E0604, item->path.span, "`load` fills one module; this path names %s",
                  hits.hits.len > 1 ? "several things"
                  : hits.hits.len   ? "a parameter"
                                    : "nothing");
      return;
    }
    from = hits.hits.at[0].instance;
    load.prefix = from->path;
  }
  instance_leaves(r->e, from, &load.leaves);
  /* Paths of `except` start where those of `load` end. */
  for (uint32_t i = 0; i < item->where.except.len; i++) {
    if (!path_leaves(r->e, from, &item->where.except.at[i], env, &load.except)) return;
  }
  if (strstr(item->file, "${")) {
    diag_report(DIAG_E0516, item->span,
                "texts hold no variables; `--init_from` names another file");
    return;
  }
  vec_push(r->a->arena, &r->state->loads, load);
}

static void run_item(ModelRun *r, const ModelItem *item, Env *env) {
  switch (item->kind) {
  case MODEL_error:
    break;
  case MODEL_load:
    run_load(r, item, env);
    break;
  case MODEL_freeze:
    run_freeze(r, item, env);
    break;
  case MODEL_eval:
    run_eval(r, item, env);
    break;
  case MODEL_group:
    run_group(r, item, env);
    break;
  case MODEL_tie:
    module_tie(r->e, r->root, &item->path, &item->right, env, item->span);
    break;
  case MODEL_init:
    module_init(r->e, r->root, &item->path, item->value, env, item->span);
    break;
  case MODEL_for:
    run_for(r, item, env);
    break;
  }
}

static void run_items(ModelRun *r, ModelList items, Env *env) {
  for (uint32_t i = 0; i < items.len; i++) run_item(r, items.at[i], env);
}

Datum model_declare(Analysis *a, Eval *e, File *file, const Decl *decl) {
  (void)e;
  ModelState *s = ARENA_NEW(a->arena, ModelState);
  s->decl = decl;
  vec_push(a->arena, &a->model, s);
  Eval ev = analysis_eval(a);
  ev.leaves = a->leaves;
  Env *env = env_new(a->arena, NULL, file);
  Datum d = eval_expr(&ev, decl->value, env);
  if (d.kind == DATUM_error) return d;
  /* Where there are several, names of the state dict begin with that of the model. */
  const char *path = a->models.len > 1 ? decl->name.text : "";
  s->root = module_instantiate(&ev, d, path, decl->name.text, decl->value->span);
  if (!s->root) return datum_error();
  ModelRun run = {.a = a, .e = &ev, .root = s->root, .state = s};
  run_items(&run, decl->model, env);
  return datum_instance(s->root);
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

/* For messages: where the job makes the module, not where the library declares the leaf. */
static void place_leaf(Analysis *a, LeafEntry *entry) {
  if (in_library(entry->leaf.at) && entry->owner) entry->leaf.at = entry->owner->at;
  if (!in_library(entry->leaf.at)) return;
  const Decl *decl = a->model.at[0]->decl;
  for (uint32_t k = 0; k < a->model.len; k++) {
    bool here = entry->leaf.model && !strcmp(a->model.at[k]->decl->name.text, entry->leaf.model);
    if (here) decl = a->model.at[k]->decl;
  }
  entry->leaf.at = decl->value->span;
}

static bool among(const LeafSet *set, int32_t leaf) {
  for (uint32_t i = 0; i < set->leaves.len; i++) {
    if (set->leaves.at[i] == leaf) return true;
  }
  return false;
}

static void finish_load(Analysis *a, const Load *load) {
  JobLoad out = {.file = load->item->file, .at = load->item->span};
  size_t skip = strlen(load->prefix) + (*load->prefix ? 1 : 0);
  for (uint32_t i = 0; i < load->leaves.leaves.len; i++) {
    int32_t leaf = load->leaves.leaves.at[i];
    const LeafEntry *entry = &a->leaves->leaves.at[leaf];
    const char *name = entry->leaf.name + skip;
    if (entry->leaf.tied_to >= 0 || among(&load->except, leaf)) {
      vec_push(a->arena, &out.others, name);
      continue;
    }
    vec_push(a->arena, &out.items, (JobLoadItem){entry->number, name});
  }
  vec_push(a->arena, &a->job->loads, out);
}

bool model_finish(Analysis *a) {
  VEC(Instance *) roots = {0};
  for (uint32_t i = 0; i < a->model.len; i++) {
    if (a->model.at[i]->root) vec_push(a->arena, &roots, a->model.at[i]->root);
  }
  if (!roots.len) return false;
  for (uint32_t i = 0; i < a->leaves->leaves.len; i++) {
    LeafEntry *entry = &a->leaves->leaves.at[i];
    entry->leaf.norm_owner = is_layer_norm(a, entry->owner);
    place_leaf(a, entry);
  }
  Eval ev = analysis_eval(a);
  leaves_number(&ev, a->leaves, roots.at, roots.len, a->job);
  for (uint32_t i = 0; i < a->model.len; i++) {
    for (uint32_t k = 0; k < a->model.at[i]->loads.len; k++) {
      finish_load(a, &a->model.at[i]->loads.at[k]);
    }
  }
  bool trained = false;
  for (uint32_t i = 0; i < a->job->leaves.len; i++) trained |= a->job->leaves.at[i].trained;
  if (!trained && roots.len == a->model.len) {
    diag_report(DIAG_E0614, a->model.at[0]->decl->name.span, "nothing is trained: %s",
                a->job->leaves.len ? "every parameter is frozen" : "the model has no parameters");
  }
  return roots.len == a->model.len;
}
