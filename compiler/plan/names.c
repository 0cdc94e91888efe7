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

/* Path of the scope without the model's name: "fc1.linear". */
static const char *path_below_model(const Program *p, Arena *a, Val v) {
  Scope scope = value_at(p->g, v)->scope;
  const char *path = scope ? graph_scope_path(a, p->g, scope) : "";
  const char *dot = strchr(path, '.');
  return dot ? dot + 1 : path;
}

static const char *leaf_name(const Job *job, const char *what, int32_t index, Arena *a) {
  if (job && index >= 0 && (uint32_t)index < job->leaves.len)
    return arena_printf(a, "%s%s", what, job->leaves.at[index].name);
  return arena_printf(a, "%sleaf_%d", what, (int)index);
}

static const char *name_of(const Program *p, Arena *a, const Job *job, const bool *forward, Val v) {
  const ValuePlace *place = &p->places.at[v];
  const Value *x = value_at(p->g, v);
  switch (place->home) {
  case HOME_input:
    if (job && (uint32_t)place->index < job->dataset.fields.len && p->g != NULL &&
        !(p->g->outputs.len && p->g->outputs.at[0].kind == OUT_state))
      return job->dataset.fields.at[place->index].name;
    return place->index == 1 ? "g" : arena_printf(a, "input_%d", (int)place->index);
  case HOME_param:
    return leaf_name(job, "", place->index, a);
  case HOME_buffer:
    return leaf_name(job, x->op == OP_buffer ? "" : "new_", place->index, a);
  case HOME_grad:
    return leaf_name(job, "grad_", place->index, a);
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
  const char *path = path_below_model(p, a, v), *op = op_def(x->op)->name;
  return arena_printf(a, "%s%s%s%s",
                      x->region    ? "again_"
                      : forward[v] ? ""
                                   : "d_",
                      path, *path ? "_" : "", op);
}

void plan_name_values(Program *p, Arena *a, const Job *job) {
  const bool *forward = plan_forward(p, a);
  Map times = {.arena = a}, taken = {.arena = a};
  for (Val v = 1; v < p->places.len; v++) {
    const char *name = text_intern(identifier(a, name_of(p, a, job, forward, v)));
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
  const char *name = backward ? "d" : "";
  for (int i = 0; i < words; i++) name = arena_printf(a, "%s%s%s", name, *name ? "_" : "", word[i]);
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
