/* Order of kernels and homes of values. In: the fuser's items. Out: Program.kernels with what they
   read, write and complete; Program.places without offsets and names. Kernels keep the order of the
   graph, except that whatever completes a gradient runs as soon as its operands are there: the
   all-reduce of the late layers then overlaps with the rest of backward. */
#include "die.h"
#include "fuse.h"
#include "op.h"

static int64_t attr_int(const Value *x, const char *name) {
  return x->attr[op_attr(x->op, name)].as.i;
}

static bool is_optimizer(const Graph *g) {
  return g->outputs.len && g->outputs.at[0].kind == OUT_state;
}

static ValuePlace place_of_source(const Graph *g, Val v) {
  const Value *x = value_at(g, v);
  ValuePlace p = {0};
  if (x->op == OP_input) {
    p.home = HOME_input;
    p.index = (int32_t)attr_int(x, "field");
    if (is_optimizer(g) && p.index != 1) {
      p.home = HOME_state;
      p.index = p.index == 0 ? -1 : p.index - 2;
    }
    return p;
  }
  p.home = x->op == OP_param ? HOME_param : HOME_buffer;
  p.index = (int32_t)attr_int(x, "leaf");
  return p;
}

static ValuePlace place_of_output(const Output *o) {
  static const Home home[] = {
      [OUT_loss] = HOME_sum, [OUT_grad] = HOME_grad,  [OUT_buffer] = HOME_buffer,
      [OUT_sum] = HOME_sum,  [OUT_metric] = HOME_out, [OUT_state] = HOME_state,
      [OUT_value] = HOME_out};
  return (ValuePlace){.home = home[o->kind], .index = o->kind == OUT_loss ? 0 : o->index};
}

static void make_places(Program *p, Fuser *f) {
  const Graph *g = f->g;
  for (Val v = 0; v < g->values.len; v++) {
    ValuePlace place = {0};
    if (v && fuse_is_resident(g, v))
      place = place_of_source(g, v);
    else if (v && f->output[v])
      place = place_of_output(f->output[v]);
    else if (f->memory[v])
      place.home = HOME_block;
    else if (f->base[v] && f->base[v] != v)
      place = (ValuePlace){.home = HOME_alias, .alias = f->base[v]};
    place.first = place.last = -1;
    vec_push(f->arena, &p->places, place);
  }
}

/* ---------- kernels ---------- */
Val plan_part(const Program *p, const Kernel *call, int index) {
  for (uint32_t i = 1; i < call->writes.len; i++)
    if (op_part_index(value_at(p->g, call->writes.at[i])) == index) return call->writes.at[i];
  return NO_VAL;
}

static void put_once(Arena *a, Kernel *k, Val v) {
  if (!val_list_has(k->reads.at, k->reads.len, v)) vec_push(a, &k->reads, v);
}

static Kernel make_kernel(Fuser *f, const Item *item) {
  Kernel k = {.kind = item->is_call ? KERNEL_call : KERNEL_nest, .nest = item->nest};
  Val chief = item->roots.at[item->is_call ? 0 : item->roots.len - 1];
  k.at = value_at(f->g, chief)->at;
  if (item->is_call) {
    k.call = chief;
    const Value *x = value_at(f->g, chief);
    for (int i = 0; i < x->inputs; i++) put_once(f->arena, &k, f->base[x->in[i]]);
    for (uint32_t i = 0; i < item->roots.len; i++) vec_push(f->arena, &k.writes, item->roots.at[i]);
  } else {
    const Nest *n = item->nest;
    for (uint32_t s = 0; s < n->stages.len; s++)
      for (uint32_t i = 0; i < n->stages.at[s].insts; i++) {
        const Inst *inst = &n->insts.at[n->stages.at[s].first_inst + i];
        if (inst->kind == INST_load) put_once(f->arena, &k, inst->val);
      }
    for (uint32_t r = 0; r < n->roots.len; r++)
      if (!n->roots.at[r].row_only) vec_push(f->arena, &k.writes, n->roots.at[r].val);
  }
  for (uint32_t i = 0; i < k.writes.len; i++) {
    const Output *o = f->output[k.writes.at[i]];
    if (!o || o->kind != OUT_grad) continue;
    k.accumulate = true;
    vec_push(f->arena, &k.grads_ready, o->index);
  }
  return k;
}

/* Does kernel b have to come after kernel a? */
static bool depends(const Fuser *f, const Kernel *b, const Kernel *a) {
  for (uint32_t i = 0; i < b->reads.len; i++)
    if (val_list_has(a->writes.at, a->writes.len, b->reads.at[i])) return true;
  for (uint32_t w = 0; w < b->writes.len; w++) {
    const Output *o = f->output[b->writes.at[w]];
    for (uint32_t i = 0; o && i < a->reads.len; i++)
      if (fuse_overwrites(f->g, o, a->reads.at[i])) return true;
  }
  return false;
}

static void order_kernels(Program *p, Fuser *f, bool in_order) {
  uint32_t n = f->items.len;
  Kernel *all = ARENA_ARRAY(f->arena, Kernel, n);
  bool *done = ARENA_ARRAY(f->arena, bool, n);
  uint32_t *waits = ARENA_ARRAY(f->arena, uint32_t, n);
  for (uint32_t i = 0; i < n; i++) all[i] = make_kernel(f, &f->items.at[i]);
  for (uint32_t b = 0; b < n; b++)
    for (uint32_t a = 0; a < n; a++) waits[b] += a != b && depends(f, &all[b], &all[a]);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t next = n;
    for (uint32_t i = 0; i < n; i++) {
      if (done[i] || waits[i]) continue;
      if (next == n || (!in_order && all[i].grads_ready.len && !all[next].grads_ready.len))
        next = i;
    }
    check(next < n, "kernels wait for each other in a circle");
    done[next] = true;
    for (uint32_t b = 0; b < n; b++)
      if (!done[b] && depends(f, &all[b], &all[next])) waits[b]--;
    vec_push(f->arena, &p->kernels, all[next]);
  }
}

static void set_lifetimes(Program *p) {
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    for (uint32_t w = 0; w < k->writes.len; w++)
      p->places.at[k->writes.at[w]].first = p->places.at[k->writes.at[w]].last = (int32_t)i;
    for (uint32_t r = 0; r < k->reads.len; r++) p->places.at[k->reads.at[r]].last = (int32_t)i;
  }
}

void plan_schedule(Program *p, Fuser *f, const ProgramOptions *options) {
  p->g = f->g;
  p->batch_max = options->batch_max;
  make_places(p, f);
  order_kernels(p, f, options->in_order);
  set_lifetimes(p);
  for (uint32_t i = 0; i < p->kernels.len; i++)
    if (p->kernels.at[i].nest) p->kernels.at[i].key = plan_nest_key(p, &p->kernels.at[i]);
}
