/* `ddpc plan`: work and kept memory of a training step, by layer. Layers that differ in a number of their
   name alone stand in one line. In: a plan. Out: text. */
#include "map.h"
#include "table.h"
#include "work.h"

typedef struct Line {
  const PlanLayer *first, *last;
  uint32_t layers;
} Line;
typedef VEC(Line) Lines;

static uint64_t key_of(const PlanLayer *l) {
  uint64_t h = numbered_hash(l->name, 1);
  h = text_hash(&l->work, sizeof l->work, h);
  h = text_hash(&l->kept, sizeof l->kept, h);
  h = text_hash(&l->kept_again, sizeof l->kept_again, h);
  h = text_hash(&l->kernels, sizeof l->kernels, h);
  for (uint32_t i = 0; i < l->fused.len; i++)
    h = text_hash(l->fused.at[i], strlen(l->fused.at[i]), h);
  return h ? h : 1;
}

static Lines fold(const PlanSteps *s, Arena *a) {
  Lines lines = {0};
  Map known = {.arena = a};
  for (uint32_t i = 0; i < s->layers.len; i++) {
    const PlanLayer *l = &s->layers.at[i];
    uint32_t *at = map_at(&known, key_of(l));
    if (!*at) {
      vec_push(a, &lines, (Line){l, l, 0});
      *at = lines.len;
    }
    lines.at[*at - 1].last = l;
    lines.at[*at - 1].layers++;
  }
  return lines;
}

static const char *flops_text(Arena *a, double n) {
  return n > 0 ? number_flops(a, n) : "-";
}
static const char *bytes_text(Arena *a, int64_t n) {
  return n > 0 ? number_bytes(a, n) : "-";
}

static const char *fused_text(Arena *a, const PlanLayer *l) {
  const char *s = "";
  for (uint32_t i = 0; i < l->fused.len; i++)
    s = arena_printf(a, "%s%s%s", s, *s ? ", " : "", l->fused.at[i]);
  return s;
}

static void print_totals(Text *out, const PlanSteps *s, const Program *p, Arena *a) {
  const PlanWork *w = &s->work;
  double all = w->forward + w->backward + w->again + w->passing;
  text_addf(out, "work of a micro-batch of %lld: %s; forward %s, backward %s",
            (long long)p->batch_max, number_flops(a, all), number_flops(a, w->forward),
            number_flops(a, w->backward));
  text_addf(out, ", cheap values computed again by the way %s\n", number_flops(a, w->passing));
  text_addf(out, "kept for backward: %s of %s of activations\n", number_bytes(a, s->kept),
            number_bytes(a, p->block_bytes));
  if (!s->block_before) return;
  text_addf(
      out,
      "gradient checkpointing: activations %s instead of %s, saved %s (%.0f %%); added %s (%.0f %% "
      "of the rest)\n",
      number_bytes(a, p->block_bytes), number_bytes(a, s->block_before),
      number_bytes(a, s->block_before - p->block_bytes),
      100 - 100 * (double)p->block_bytes / (double)s->block_before, number_flops(a, w->again),
      100 * w->again / (all - w->again));
}

void plan_print_work(Text *out, const Plan *plan, Arena *a) {
  if (!plan->train.g) return;
  PlanSteps s = plan_steps(plan, a);
  Lines lines = fold(&s, a);
  bool again = s.block_before > 0;
  Table t = {.a = a, .columns = again ? 8 : 6, .align = again ? "lrrrrrrl" : "lrrrrl"};
  if (again)
    table_row(&t, "layer", "forward", "backward", "again", "kept", "made again", "kernels",
              "of them fused");
  else
    table_row(&t, "layer", "forward", "backward", "kept", "kernels", "of them fused");
  for (uint32_t i = 0; i < lines.len; i++) {
    const Line *l = &lines.at[i];
    const PlanLayer *x = l->first;
    const char *name = x->name;
    if (l->layers > 1)
      name = arena_printf(a, "%s (%u equal)", numbered_range(a, x->name, l->last->name), l->layers);
    const char *forward = flops_text(a, x->work.forward);
    const char *backward = flops_text(a, x->work.backward + x->work.passing);
    const char *kept = bytes_text(a, x->kept), *kernels = arena_printf(a, "%u", x->kernels);
    if (again)
      table_row(&t, name, forward, backward, flops_text(a, x->work.again), kept,
                bytes_text(a, x->kept_again), kernels, fused_text(a, x));
    else
      table_row(&t, name, forward, backward, kept, kernels, fused_text(a, x));
  }
  print_totals(out, &s, &plan->train, a);
  table_print(out, &t);
}
