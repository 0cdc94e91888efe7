/* Paths: members by name, items by index or slice, kinds; and `tie` over them. A component that is no
   member but a kind stands for every instance from there down that was made by it. */
#include "call.h"
#include "expr.h"
#include "signature.h"
#include <string.h>

/* ---------- kinds ---------- */

static bool made_by(const Instance *i, const char *kind) {
  if (!i->made) return false;
  if (i->decl->name.text == kind) return true;
  for (const Closure *c = i->made->made_by; c; c = c->made_by)
    if (c->decl && c->decl->name.text == kind) return true;
  return false;
}

static void collect_kind(Eval *e, Instance *i, const char *kind, PathHits *out) {
  if (made_by(i, kind)) {
    PathHit h = {i, -1};
    vec_push(e->arena, &out->hits, h);
  }
  for (uint32_t k = 0; k < i->children.len; k++)
    collect_kind(e, i->children.at[k].instance, kind, out);
}

static bool is_kind_name(Eval *e, const Instance *root, const char *name) {
  File *file = root->made ? root->made->file : NULL;
  FileName *found = file ? file_find(file, name) : NULL;
  if (!found && !library_find(e->program, name, &file, &found)) return false;
  return found->decl->kind == DECL_module || found->decl->kind == DECL_def;
}

/* ---------- steps ---------- */

typedef struct Walk {
  Eval *e;
  Instance *root;
  const Path *path;
  Env *env;
  bool by_kind;
} Walk;

/* 1 found (or none: found, but nothing there), 0 not a member, -1 reported. */
static int member_step(Walk *w, const PathHit *from, const PathStep *s, PathHits *out) {
  if (!from->instance) {
    eval_report(w->e, DIAG_E0604, s->span, "`%s` stands below a parameter, which has no members",
                s->name);
    return -1;
  }
  Instance *i = from->instance;
  for (uint32_t k = 0; k < i->children.len; k++)
    if (i->children.at[k].name == s->name) {
      PathHit h = {i->children.at[k].instance, -1};
      vec_push(w->e->arena, &out->hits, h);
      return 1;
    }
  for (uint32_t k = 0; i->env && k < i->env->names.len; k++) {
    const Binding *b = &i->env->names.at[k];
    if (b->name != s->name || b->kind != BIND_member) continue;
    if (b->value.kind == DATUM_none) return 1;
    if (b->value.kind != DATUM_leaf) {
      eval_report(w->e, DIAG_E0604, s->span, "`%s` is neither a module nor a leaf", s->name);
      return -1;
    }
    PathHit h = {NULL, b->value.as.leaf};
    vec_push(w->e->arena, &out->hits, h);
    return 1;
  }
  return 0;
}

static bool name_step(Walk *w, const PathHits *from, const PathStep *s, PathHits *out) {
  bool found = false;
  for (uint32_t k = 0; k < from->hits.len; k++) {
    int r = member_step(w, &from->hits.at[k], s, out);
    if (r < 0) return false;
    found = found || r;
  }
  if (found || (!from->hits.len && w->by_kind)) return true;
  if (is_kind_name(w->e, w->root, s->name)) {
    w->by_kind = true;
    for (uint32_t k = 0; k < from->hits.len; k++)
      collect_kind(w->e, from->hits.at[k].instance, s->name, out);
    return true;
  }
  if (w->by_kind) {
    eval_report(w->e, DIAG_E0605, s->span, "no leaf or member `%s` in modules of this kind",
                s->name);
    return false;
  }
  TextNearest near = {.wanted = s->name};
  for (uint32_t k = 0; k < from->hits.len; k++) {
    const Instance *i = from->hits.at[k].instance;
    for (uint32_t n = 0; n < i->children.len; n++) text_offer(&near, i->children.at[n].name);
    for (uint32_t n = 0; i->env && n < i->env->names.len; n++)
      if (i->env->names.at[n].kind == BIND_member) text_offer(&near, i->env->names.at[n].name);
  }
  eval_report(w->e, DIAG_E0603, s->span, "`%s` names nothing in `%s`", s->name,
              from->hits.len ? instance_name(from->hits.at[0].instance) : "this module");
  if (near.best) diag_help("did you mean `%s`?", near.best);
  return false;
}

static bool bound(Walk *w, const Expr *x, int64_t len, int64_t otherwise, int64_t *out) {
  if (!x) return *out = otherwise, true;
  if (!need_int(w->e, eval_expr(w->e, x, w->env), x->span, "an index", out)) return false;
  if (*out < 0) *out += len;
  return true;
}

static bool item_step(Walk *w, const PathHits *from, const PathStep *s, PathHits *out) {
  for (uint32_t k = 0; k < from->hits.len; k++) {
    Instance *i = from->hits.at[k].instance;
    if (!i || i->kind != INSTANCE_list) {
      eval_report(w->e, DIAG_E0604, s->span,
                  "an index stands behind something that is no list of "
                  "modules");
      return false;
    }
    int64_t len = i->children.len, start = 0, stop = len;
    if (s->sub.kind == SUB_index) {
      if (!bound(w, s->sub.start, len, 0, &start)) return false;
      if (start < 0 || start >= len) {
        eval_report(w->e, DIAG_E0413, s->span, "index %lld of a list of %lld modules",
                    (long long)start, (long long)len);
        return false;
      }
      stop = start + 1;
    } else if (s->sub.kind == SUB_slice) {
      if (!bound(w, s->sub.start, len, 0, &start) || !bound(w, s->sub.stop, len, len, &stop))
        return false;
    }
    for (int64_t n = start < 0 ? 0 : start; n < stop && n < len; n++) {
      PathHit h = {i->children.at[n].instance, -1};
      vec_push(w->e->arena, &out->hits, h);
    }
  }
  return true;
}

/* `net[0]` where the model is a list, whose items have no other name that may stand first. */
static bool names_model(const Instance *root, const PathStep *s) {
  return root->kind == INSTANCE_list && root->model && s->name && !strcmp(s->name, root->model);
}

bool path_resolve(Eval *e, Instance *root, const Path *path, Env *env, PathHits *out) {
  Walk w = {e, root, path, env, false};
  PathHits now = {0};
  PathHit start = {root, -1};
  vec_push(e->arena, &now.hits, start);
  bool was_none = false;
  for (uint32_t k = 0; k < path->steps.len; k++) {
    const PathStep *s = &path->steps.at[k];
    PathHits next = {0};
    if (was_none && !now.hits.len) break;
    if (!k && names_model(root, s)) continue;
    if (!(s->name ? name_step(&w, &now, s, &next) : item_step(&w, &now, s, &next))) return false;
    was_none = !next.hits.len;
    now = next;
  }
  *out = now;
  return true;
}

/* ---------- leaves ---------- */

static void add_leaf(Eval *e, int32_t leaf, LeafSet *out) {
  for (uint32_t i = 0; i < out->leaves.len; i++)
    if (out->leaves.at[i] == leaf) return;
  vec_push(e->arena, &out->leaves, leaf);
}

void instance_leaves(Eval *e, const Instance *root, LeafSet *out) {
  for (uint32_t k = 0; k < root->leaves.len; k++) add_leaf(e, root->leaves.at[k], out);
  for (uint32_t k = 0; k < root->children.len; k++)
    instance_leaves(e, root->children.at[k].instance, out);
}

bool path_leaves(Eval *e, Instance *root, const Path *path, Env *env, LeafSet *out) {
  PathHits hits = {0};
  if (!path_resolve(e, root, path, env, &hits)) return false;
  for (uint32_t k = 0; k < hits.hits.len; k++) {
    const PathHit *h = &hits.hits.at[k];
    if (h->instance)
      instance_leaves(e, h->instance, out);
    else
      add_leaf(e, h->leaf, out);
  }
  return true;
}

/* ---------- tie ---------- */

static bool one_hit(Eval *e, Instance *root, const Path *path, Env *env, PathHit *out) {
  PathHits hits = {0};
  if (!path_resolve(e, root, path, env, &hits)) return false;
  if (hits.hits.len == 1) return *out = hits.hits.at[0], true;
  eval_report(e, DIAG_E0603, path->span,
              "`tie` needs one leaf or module on each side; `%s` names %u",
              span_text(e->arena, path->span), hits.hits.len);
  return false;
}

static bool tie_leaves(Eval *e, int32_t left, int32_t right, Span at) {
  LeafStore *store = e->leaves;
  while (store->leaves.at[right].leaf.tied_to >= 0) right = store->leaves.at[right].leaf.tied_to;
  LeafEntry *l = &store->leaves.at[left], *r = &store->leaves.at[right];
  if (left == right) {
    eval_report(e, DIAG_E0607, at, "`%s` is tied to itself", l->leaf.name);
    return false;
  }
  if (!type_equal(l->leaf.type, r->leaf.type)) {
    Text t = {0};
    text_addf(&t, "`%s` is ", l->leaf.name);
    type_print(&t, l->leaf.type);
    text_addf(&t, ", `%s` is ", r->leaf.name);
    type_print(&t, r->leaf.type);
    eval_report(e, DIAG_E0606, at, "%s", t.at);
    text_free(&t);
    return false;
  }
  l->leaf.tied_to = right;
  l->leaf.trained = false;
  return true;
}

bool module_tie(Eval *e, Instance *root, const Path *left, const Path *right, Env *env, Span at) {
  PathHit l, r;
  if (!one_hit(e, root, left, env, &l) || !one_hit(e, root, right, env, &r)) return false;
  if (!l.instance && !r.instance) return tie_leaves(e, l.leaf, r.leaf, at);
  LeafSet a = {0}, b = {0};
  if (l.instance && r.instance) {
    instance_leaves(e, l.instance, &a);
    instance_leaves(e, r.instance, &b);
  }
  if (!a.leaves.len || a.leaves.len != b.leaves.len) {
    eval_report(e, DIAG_E0606, at,
                "both sides of `tie` must be leaves, or modules of one structure");
    return false;
  }
  bool ok = true;
  for (uint32_t k = 0; k < a.leaves.len; k++)
    ok = tie_leaves(e, a.leaves.at[k], b.leaves.at[k], at) && ok;
  return ok;
}
