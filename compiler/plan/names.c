/* Names for the emitted text: identifiers made of scopes and ops. In: a scheduled program. Out: names of
   values (unique in the program) and of kernels (unique in the plan; equal kernels share). Whoever emits
   them sees to it that they are no words of its language. */
#include "fuse.h"
#include "map.h"
#include "op.h"
#include <ctype.h>
#include <stdlib.h>

/* Letters, digits and single underscores; does not start with a digit. */
static const char *identifier(Arena *a, const char *s) {
  char *out = arena_alloc(a, strlen(s) + 4), *to = out;
  if (!isalpha((unsigned char)*s)) *to++ = 'v';
  for (; *s; s++) {
    bool good = isalnum((unsigned char)*s);
    if (good)
      *to++ = *s;
    else if (to > out && to[-1] != '_')
      *to++ = '_';
  }
  while (to > out && to[-1] == '_') to--;
  *to = 0;
  return out;
}

/* ---------- values ---------- */
bool *plan_forward(const Program *p, Arena *a) {
  const Graph *g = p->g;
  bool *forward = ARENA_ARRAY(a, bool, g->values.len);
  bool any_gradient = false;
  if (p->backward) return forward;
  for (uint32_t i = 0; i < g->outputs.len; i++) {
    any_gradient = any_gradient || g->outputs.at[i].kind == OUT_grad;
    if (g->outputs.at[i].kind != OUT_grad) forward[g->outputs.at[i].value] = true;
  }
  for (Val v = g->values.len - 1; v > 0; v--)
    for (int i = 0; i < value_at(g, v)->inputs; i++)
      if (forward[v] || !any_gradient) forward[value_at(g, v)->in[i]] = true;
  for (Val v = 1; v < g->values.len; v++) /* by-products come with their call, whoever reads them */
    if (value_at(g, v)->op == OP_part && forward[value_at(g, v)->in[0]]) forward[v] = true;
  return forward;
}

/* ---------- the model's names ---------- */

const char *plan_common_module(const Job *job) {
  uint32_t all = job ? job->leaves.len : 0;
  for (uint32_t i = 0; i < all; i++) {
    const char *name = job->leaves.at[i].name, *dot = strchr(name, '.');
    size_t n = dot ? (size_t)(dot - name) + 1 : 0;
    bool modules = n; /* below it, not parameters of its own */
    uint32_t same = 0;
    for (uint32_t k = 0; n && k < all; k++) {
      if (strncmp(job->leaves.at[k].name, name, n) != 0) continue;
      modules = modules && strchr(job->leaves.at[k].name + n, '.');
      same++;
    }
    if (modules && 2 * same > all) return arena_strndup(job->arena, name, n);
  }
  return "";
}

const char *plan_short_name(const char *name, const char *common) {
  size_t n = strlen(common);
  return n && !strncmp(name, common, n) ? name + n : name;
}

typedef struct ModelNames {
  const Job *job; /* NULL: a graph without one */
  const char *common;
  Map modules; /* "h.0.attn", each as an interned text */
} ModelNames;

static ModelNames model_names(const Job *job, Arena *a) {
  ModelNames m = {.job = job, .common = plan_common_module(job), .modules = {.arena = a}};
  for (uint32_t i = 0; job && i < job->leaves.len; i++) {
    const char *name = plan_short_name(job->leaves.at[i].name, m.common);
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
      *map_at(&m.modules, map_key(text_intern(arena_strndup(a, name, (size_t)(dot - name))))) = 1;
  }
  return m;
}

/* Path of the scope without the model's name, and of the functions that a module calls the innermost alone:
   "h.0.ln_1.mean" for h.0.ln_1.layer_norm.var.mean. `local` is where its last part begins. */
static const char *path_below_model(const Program *p, Arena *a, const ModelNames *m, Val v,
                                    const char **local) {
  Scope scope = value_at(p->g, v)->scope;
  const char *path = scope ? graph_scope_path(a, p->g, scope) : "";
  const char *dot = strchr(path, '.');
  path = plan_short_name(dot ? dot + 1 : path, m->common);
  size_t n = strlen(m->common);
  if (n && strlen(path) == n - 1 && !strncmp(path, m->common, n - 1)) path = ""; /* it itself */
  size_t module = 0;
  for (const char *at = strchr(path, '.'); at; at = strchr(at + 1, '.'))
    if (map_get(&m->modules, map_key(text_intern(arena_strndup(a, path, (size_t)(at - path))))))
      module = (size_t)(at - path) + 1;
  const char *last = strrchr(path, '.');
  *local = last ? last + 1 : path;
  if (map_get(&m->modules, map_key(text_intern(path)))) *local = "";
  return **local ? arena_printf(a, "%.*s%s", (int)module, path, *local) : path;
}

static const char *leaf_name(const ModelNames *m, const char *what, int32_t index, Arena *a,
                             const char **local) {
  if (!m->job || index < 0 || (uint32_t)index >= m->job->leaves.len)
    return arena_printf(a, "%sleaf_%d", what, (int)index);
  const char *name = m->job->leaves.at[index].name, *dot = strrchr(name, '.');
  *local = arena_printf(a, "%s%s", what, dot ? dot + 1 : name);
  return arena_printf(a, "%s%s", what, plan_short_name(name, m->common));
}

/* "sum"; of conversions what they make: "bf16". */
static const char *op_word(const Value *x) {
  return x->op == OP_cast ? dtype_name(x->type.dtype) : op_def(x->op)->name;
}

/* local: what one kernel that reads it calls it; NULL: likewise. */
static const char *name_of(const Program *p, Arena *a, const ModelNames *m, const bool *forward,
                           Val v, const char **local) {
  const Job *job = m->job;
  const ValuePlace *place = &p->places.at[v];
  const Value *x = value_at(p->g, v);
  switch (place->home) {
  case HOME_input:
    if (job && (uint32_t)place->index < job->dataset.fields.len && p->g != NULL &&
        !(p->g->outputs.len && p->g->outputs.at[0].kind == OUT_state))
      return job->dataset.fields.at[place->index].name;
    return place->index == 1 ? "g" : arena_printf(a, "input_%d", (int)place->index);
  case HOME_param:
    return leaf_name(m, "", place->index, a, local);
  case HOME_buffer:
    return leaf_name(m, x->op == OP_buffer ? "" : "new_", place->index, a, local);
  case HOME_grad:
    return leaf_name(m, "grad_", place->index, a, local);
  case HOME_sum:
    return arena_printf(a, "sum_%d", (int)place->index);
  case HOME_out:
    return arena_printf(a, "result_%d", (int)place->index);
  case HOME_state: {
    const char *what = op_has(x->op, OPF_source) ? "" : "new_";
    return place->index < 0 ? arena_printf(a, "%sp", what)
                            : arena_printf(a, "%sstate_%d", what, (int)place->index);
  }
  case HOME_none:
  case HOME_block:
  case HOME_alias:
  case HOME_arg:
  case HOME_next:
  case HOME_yield:
    break;
  }
  const char *function, *op = op_word(x), *path = path_below_model(p, a, m, v, &function);
  const char *how = x->region ? "again_" : forward[v] ? "" : "d_";
  size_t n = strlen(function);
  if (n && !strncmp(op, function, n) && (!op[n] || op[n] == '_')) { /* attention.attention_grad */
    size_t rest = strlen(path) - n;
    path = arena_strndup(a, path, rest ? rest - 1 : 0);
    function = "";
  }
  *local = arena_printf(a, "%s%s%s%s", how, function, *function && *op ? "_" : "", op);
  return arena_printf(a, "%s%s%s%s", how, path, *path && *op ? "_" : "", op);
}

void plan_name_values(Program *p, Arena *a, const Job *job) {
  const bool *forward = plan_forward(p, a);
  const ModelNames m = model_names(job, a);
  Map times = {.arena = a}, taken = {.arena = a};
  for (Val v = 1; v < p->places.len; v++) {
    const char *local = NULL;
    const char *name = text_intern(identifier(a, name_of(p, a, &m, forward, v, &local)));
    p->places.at[v].local = local ? text_intern(identifier(a, local)) : name;
    uint32_t same = ++*map_at(&times, map_key(name));
    if (same > 1) name = text_intern(arena_printf(a, "%s_%u", name, same));
    while (map_get(&taken, map_key(name))) /* x_2 may be somebody's own name */
      name = text_intern(arena_printf(a, "%s_%u", name, v));
    *map_at(&taken, map_key(name)) = v;
    p->places.at[v].name = name;
  }
  for (uint32_t i = 0; i < p->kernels.len; i++)
    if (p->kernels.at[i].loop) plan_name_values(&p->kernels.at[i].loop->body, a, job);
}

/* ---------- kernels ---------- */
static void walk_pulled(const Program *p, Val v, Arena *a, ValList *out) {
  if (p->seen[v] == p->seen[0]) return;
  p->seen[v] = p->seen[0];
  const Value *x = value_at(p->g, v);
  if (!op_has(x->op, OPF_source) && !op_has(x->op, OPF_view)) vec_push(a, out, v);
  for (int i = 0; i < x->inputs; i++) {
    Home home = p->places.at[x->in[i]].home;
    if (home == HOME_none || home == HOME_alias) walk_pulled(p, x->in[i], a, out);
  }
}

static int by_value(const void *a, const void *b) {
  const Val *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

void plan_pulled(const Program *p, const Kernel *k, Arena *a, ValList *out) {
  p->seen[0]++;
  for (uint32_t r = 0; r < k->nest->roots.len; r++)
    walk_pulled(p, k->nest->roots.at[r].val, a, out);
  if (out->len) qsort(out->at, out->len, sizeof *out->at, by_value);
}

/* The innermost named part of a scope that is no number: "relu", "fc1". */
static const char *scope_word(const Program *p, Val v) {
  for (Scope s = value_at(p->g, v)->scope; s; s = p->g->scopes.at[s].parent)
    if (isalpha((unsigned char)p->g->scopes.at[s].name[0])) return p->g->scopes.at[s].name;
  return op_def(value_at(p->g, v)->op)->name;
}

enum { MAX_WORDS = 3 };
/* What is computed again is forward, as its kernels are those of the forward pass. */
static bool is_backward(const Program *p, const bool *forward, Val v) {
  return !forward[v] && !value_at(p->g, v)->region;
}

static const char *nest_name(const Program *p, const Kernel *k, Arena *a, const bool *forward) {
  ValList pulled = {0};
  plan_pulled(p, k, a, &pulled);
  const char *word[MAX_WORDS];
  int words = 0;
  bool backward = false;
  for (uint32_t i = 0; i < pulled.len; i++)
    backward = backward || is_backward(p, forward, pulled.at[i]);
  for (uint32_t i = 0; i < pulled.len; i++) {
    if (backward && !is_backward(p, forward, pulled.at[i]))
      continue; /* computed again on the way */
    const char *w = scope_word(p, pulled.at[i]);
    bool known = false;
    for (int k2 = 0; k2 < words; k2++) known = known || !strcmp(word[k2], w);
    if (known) continue;
    if (words == MAX_WORDS)
      word[MAX_WORDS - 1] = w; /* first ones and the last */
    else
      word[words++] = w;
  }
  const char *makes = ""; /* of conversions alone */
  for (uint32_t i = 0; i < pulled.len; i++) {
    const Value *x = value_at(p->g, pulled.at[i]);
    makes = x->op == OP_cast && makes ? dtype_name(x->type.dtype) : NULL;
  }
  const char *name = backward ? "d" : "";
  for (int i = 0; i < words; i++) name = arena_printf(a, "%s%s%s", name, *name ? "_" : "", word[i]);
  if (words && makes && *makes) name = arena_printf(a, "%s_%s", name, makes);
  return words ? name : "copy";
}

static const char *call_name(const Program *p, const Kernel *k, Arena *a) {
  Val v = k->call;
  if (p->places.at[v].home == HOME_grad) return p->places.at[v].name;
  return p->places.at[v].name ? p->places.at[v].name
                              : arena_printf(a, "%s", op_def(value_at(p->g, v)->op)->name);
}

void plan_name_kernels(Program *p, Arena *a, KernelNames *taken) {
  const bool *forward = plan_forward(p, a);
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    Kernel *k = &p->kernels.at[i];
    const char *base = identifier(a, k->nest ? nest_name(p, k, a, forward) : call_name(p, k, a));
    const char *name = base;
    bool again = !k->nest; /* a call is no function of its own */
    for (uint32_t t = 0; t < taken->len && !again; t++) {
      if (taken->at[t].key != k->key) continue;
      name = taken->at[t].name;
      again = true;
    }
    for (int number = 2; !again; number++) {
      bool used = false;
      for (uint32_t t = 0; t < taken->len; t++) used = used || !strcmp(taken->at[t].name, name);
      if (!used) break;
      name = arena_printf(a, "%s_%d", base, number);
    }
    k->name = text_intern(name);
    if (!again) vec_push(a, taken, (KernelName){k->name, k->key});
    if (k->loop) plan_name_kernels(&k->loop->body, a, taken);
  }
}
