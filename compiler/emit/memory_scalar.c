/* Scalars that change from step to step, as kernels of devices read them: from DdpScalars and, in steps of
   optimizers, DdpRates, both in the device's memory, so that a captured step can be replayed. */
#include "die.h"
#include "op.h"
#include "scalar.h"
#include "ddp/job.h"

static const Program *optimizer_of(const Body *b) {
  const Plan *plan = b->e->plan;
  for (uint32_t i = 0; plan && i < plan->optimizers.len; i++)
    if (&plan->optimizers.at[i] == b->p) return b->p;
  return NULL;
}

bool body_is_gradient(const Body *b, Val v) {
  const ValuePlace *at = body_place(b, v);
  return optimizer_of(b) && at->home == HOME_input && at->index == 1;
}

void body_hold(Body *b) {
  bool changes = false;
  for (uint32_t i = 0; i < b->n->roots.len; i++) {
    const NestRoot *r = &b->n->roots.at[i];
    changes = changes || (!r->row_only && body_place(b, r->val)->home == HOME_state);
  }
  if (!changes || !b->e->target->scalars_in_memory || !optimizer_of(b)) return;
  body_line(b, "if (%s->hold) return;", body_operand(b, OPERAND_rates, 0, false));
}

static bool is_rate(const Body *b, const Value *v) {
  if (!optimizer_of(b) || v->op != OP_host) return false;
  return !strcmp(v->attr[0].as.text, "lr") || !strcmp(v->attr[0].as.text, "weight_decay");
}

/* The loop over the elements of a range; NO_LOOP: the step is of one tensor. */
static const uint32_t NO_LOOP = UINT32_MAX;
static uint32_t range_loop(const Nest *n) {
  for (uint32_t l = 0; l < n->loops.len; l++)
    if (n->loops.at[l].extent.per_batch) return l;
  return NO_LOOP;
}

bool body_is_double(const Value *v) {
  if (v->op == OP_count || v->op == OP_share) return true;
  static const char *const doubles[] = {"lr", "weight_decay", "loss_scale"};
  for (size_t i = 0; v->op == OP_host && i < sizeof doubles / sizeof *doubles; i++)
    if (!strcmp(v->attr[0].as.text, doubles[i])) return true;
  return false;
}

uint32_t body_host_depth(const Body *b, Val v, const LoopPath *path) {
  uint32_t loop = range_loop(b->n);
  if (loop == NO_LOOP || !is_rate(b, value_at(b->n->g, v))) return 0;
  for (uint32_t d = 0; d < path->len; d++)
    if (path->loop[d] == loop) return d + 1;
  return path->len;
}

const char *body_in_memory(Body *b, const Value *v) {
  Arena *a = b->e->arena;
  if (v->op == OP_turn) return NULL; /* a launch belongs to one turn */
  if (v->op == OP_count)
    return arena_printf(a, "%s->counts[%lld]", body_operand(b, OPERAND_scalars, 0, false),
                        (long long)v->attr[0].as.i);
  if (v->op == OP_share)
    return arena_printf(a, "%s->share", body_operand(b, OPERAND_scalars, 0, false));
  const char *name = v->attr[0].as.text;
  if (strchr(name, '.')) return NULL; /* a setting */
  if (is_rate(b, v)) {
    uint32_t loop = range_loop(b->n);
    const char *rates = body_operand(b, OPERAND_rates, 0, false);
    if (loop == NO_LOOP)
      return arena_printf(a, "%s->rate[%s].%s", rates, body_operand(b, OPERAND_group, 0, false),
                          name);
    return arena_printf(a, "%s->rate[%s[%s / %d]].%s", rates,
                        body_operand(b, OPERAND_groups, 0, false), b->loop_name[loop],
                        DDP_GROUP_ELEMENTS, name);
  }
  OperandKind where = optimizer_of(b) ? OPERAND_rates : OPERAND_scalars;
  return arena_printf(a, "%s->%s", body_operand(b, where, 0, false), name);
}
