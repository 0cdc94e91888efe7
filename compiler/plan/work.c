/* Work and memory by layer. In: the training program. Out: operations, forward, backward and again, and
   bytes that are kept, for each module of the job that has parameters; what is outside of all counts
   for the function or model that it stands in. A module in a list counts with its direct members, what
   is deeper counts for them: "h.3.attn", not "h.3.attn.c_attn". */
#include "work.h"
#include "fuse.h"
#include "map.h"
#include "op.h"
#include "ops.h"
#include <ctype.h>

typedef struct Steps {
  const Plan *plan;
  const Program *p;
  Arena *a;
  PlanSteps out;
  Map module;         /* interned path below the model -> 1: has parameters */
  Map layer_of;       /* interned name -> layer + 1 */
  uint32_t *of_scope; /* layer + 1 */
  const bool *forward;
} Steps;

static void find_modules(Steps *s) {
  const Job *job = s->plan->job;
  for (uint32_t l = 0; l < job->leaves.len; l++) {
    const char *name = job->leaves.at[l].name;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
      *map_at(&s->module, map_key(text_intern_n(name, (size_t)(dot - name)))) = 1;
  }
}

static bool is_number(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!isdigit((unsigned char)s[i])) return false;
  return n > 0;
}

/* How much of a scope's path names its layer. */
static size_t layer_length(const Steps *s, const char *path) {
  const Job *job = s->plan->job;
  const char *model = job->leaves.len ? job->leaves.at[0].model : NULL;
  size_t root = strcspn(path, "."), best = root;
  if (!model || strlen(model) != root || strncmp(path, model, root) != 0) return root;
  int behind = -1; /* components since the last number */
  for (const char *part = path + root; *part;) {
    const char *begin = part + 1;
    size_t n = strcspn(begin, ".");
    part = begin + n;
    behind = is_number(begin, n) ? 0 : behind < 0 ? -1 : behind + 1;
    const char *below = text_intern_n(path + root + 1, (size_t)(part - path) - root - 1);
    if (behind > 1 || !map_get(&s->module, map_key(below))) break;
    best = (size_t)(part - path);
  }
  return best;
}

static PlanLayer *layer_at(Steps *s, Val v) {
  Scope scope = value_at(s->p->g, v)->scope;
  if (!s->of_scope[scope]) {
    const char *path = graph_scope_path(s->a, s->p->g, scope);
    const char *name = text_intern_n(path, layer_length(s, path));
    uint32_t *layer = map_at(&s->layer_of, map_key(name));
    if (!*layer) {
      PlanLayer new = {.name = *name ? name : "(the objective)"};
      vec_push(s->a, &s->out.layers, new);
      *layer = s->out.layers.len;
    }
    s->of_scope[scope] = *layer;
  }
  return &s->out.layers.at[s->of_scope[scope] - 1];
}

static bool is_backward(const Steps *s, Val v) {
  return !s->forward[v] || value_at(s->p->g, v)->region;
}

static void add_value(Steps *s, Val v, bool backward) {
  double flops = op_flops(s->p->g, v, s->p->batch_max);
  PlanWork *work[] = {&layer_at(s, v)->work, &s->out.work};
  for (int i = 0; i < 2; i++) {
    double *to = value_at(s->p->g, v)->region ? &work[i]->again
                 : !s->forward[v]             ? &work[i]->backward
                 : backward                   ? &work[i]->passing
                                              : &work[i]->forward;
    *to += flops;
  }
}

static void add_fused(Steps *s, PlanLayer *layer, const Kernel *k) {
  if (!k->nest || !k->name) return;
  for (uint32_t i = 0; i < layer->fused.len; i++)
    if (layer->fused.at[i] == k->name) return;
  vec_push(s->a, &layer->fused, k->name);
}

static void add_kept(Steps *s, const Kernel *k, bool *counted) {
  for (uint32_t r = 0; r < k->reads.len; r++) {
    Val v = k->reads.at[r];
    if (counted[v] || s->p->places.at[v].home != HOME_block) continue;
    bool again = value_at(s->p->g, v)->region != 0;
    if (!again && !s->forward[v]) continue;
    counted[v] = true;
    int64_t bytes = s->p->places.at[v].bytes;
    *(again ? &layer_at(s, v)->kept_again : &layer_at(s, v)->kept) += bytes;
    *(again ? &s->out.kept_again : &s->out.kept) += bytes;
  }
}

static void add_kernel(Steps *s, const Kernel *k, bool *counted) {
  bool backward = false;
  Val last = k->call;
  ValList pulled = {0};
  if (k->nest) {
    plan_pulled(s->p, k, s->a, &pulled);
    last = k->nest->roots.at[k->nest->roots.len - 1].val;
    for (uint32_t i = 0; i < k->nest->roots.len; i++)
      backward = backward || is_backward(s, k->nest->roots.at[i].val);
  } else {
    vec_push(s->a, &pulled, k->call);
    backward = is_backward(s, k->call);
  }
  for (uint32_t i = 0; i < pulled.len; i++) add_value(s, pulled.at[i], backward);
  if (backward) add_kept(s, k, counted);
  PlanLayer *layer = layer_at(s, last);
  layer->kernels++;
  add_fused(s, layer, k);
}

PlanSteps plan_steps(const Plan *plan, Arena *a) {
  const Program *p = &plan->train;
  Steps s = {.plan = plan, .p = p, .a = a, .module = {.arena = a}, .layer_of = {.arena = a}};
  if (!p->g) return s.out;
  find_modules(&s);
  s.of_scope = ARENA_ARRAY(a, uint32_t, p->g->scopes.len);
  s.forward = plan_forward(p, a);
  bool *counted = ARENA_ARRAY(a, bool, p->g->values.len);
  for (uint32_t i = 0; i < p->kernels.len; i++) add_kernel(&s, &p->kernels.at[i], counted);
  const Graph *before = plan->job->recompute.before;
  if (before) {
    Program without = {0};
    const ProgramOptions options = {.batch_max = p->batch_max,
                                    .epilogues = plan->job->target.epilogues,
                                    .chunk = plan_chunk_wanted(plan->job)};
    plan_program(&without, plan->job->arena, before, &options);
    s.out.block_before = without.block_bytes;
  }
  return s.out;
}
