/* Order of kernels and homes of values. In: the fuser's items. Out: Program.kernels with what they
   read, write and complete; Program.places without offsets and names. Kernels keep the order of the
   graph, except that whatever completes a gradient runs as soon as its operands are there: the
   all-reduce of the late layers then overlaps with the rest of backward. */
#include "die.h"
#include "heap.h"
#include "map.h"
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
  p.home = x->op == OP_arg ? HOME_arg : x->op == OP_param ? HOME_param : HOME_buffer;
  p.index = (int32_t)attr_int(x, x->op == OP_arg ? "k" : "leaf");
  return p;
}

static ValuePlace place_of_output(const Output *o) {
  static const Home home[] = {
      [OUT_loss] = HOME_sum,  [OUT_grad] = HOME_grad,    [OUT_buffer] = HOME_buffer,
      [OUT_sum] = HOME_sum,   [OUT_metric] = HOME_out,   [OUT_state] = HOME_state,
      [OUT_value] = HOME_out, [OUT_carried] = HOME_next, [OUT_yield] = HOME_yield};
  return (ValuePlace){.home = home[o->kind], .index = o->kind == OUT_loss ? 0 : o->index};
}

/* Names memory that is updated in place: its source and its output have the same. */
static uint64_t memory_key(const ValuePlace *p) {
  return (uint64_t)p->home << 32 | (uint32_t)(p->index + 1);
}

static void make_places(Program *p, Fuser *f) {
  const Graph *g = f->g;
  Map in_place = {.arena = f->arena};
  for (Val v = 0; v < g->values.len; v++) {
    ValuePlace place = {0};
    if (v && fuse_is_resident(g, v))
      place = place_of_source(g, v);
    else if (v && f->output[v] && f->output[v]->kind != OUT_result)
      place = place_of_output(f->output[v]);
    else if (f->memory[v])
      place.home = HOME_block;
    else if (f->base[v] && f->base[v] != v)
      place = (ValuePlace){.home = HOME_alias, .alias = f->base[v]};
    if (place.home == HOME_state || place.home == HOME_buffer) {
      uint32_t *first = map_at(&in_place, memory_key(&place));
      place.updates = *first;
      if (!*first) *first = v;
    }
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

/* ---------- order ---------- */
typedef struct Order {
  Arena *a;
  const Kernel *all;
  uint32_t n;
  PlanWaits *after;     /* by kernel: those that wait for it */
  uint32_t *waits;      /* by kernel: for how many */
  const uint32_t *pair; /* by kernel: product or nest of an epilogue: the other one + 1 */
} Order;

static void wait_for(Order *o, uint32_t later, uint32_t earlier) {
  PlanWaits *after = &o->after[earlier];
  if (later == earlier || (after->len && after->at[after->len - 1] == later)) return;
  vec_push(o->a, after, later);
  o->waits[later]++;
}

/* A product and what its epilogue would do follow one another. */
static void pair_epilogues(const Fuser *f, Kernel *all, uint32_t n, uint32_t *pair) {
  for (uint32_t i = 0; i < f->epilogues.len; i++) {
    Epilogue e = f->epilogues.at[i];
    int32_t call = f->item_of[e.product],
            nest = f->item_of[e.kind == EPILOGUE_bgrad ? e.sums : e.y];
    bool others = false;
    for (uint32_t k = 0; k < n; k++)
      others = others ||
               ((int32_t)k != nest && val_list_has(all[k].reads.at, all[k].reads.len, e.product));
    if (!epilogue_check(f, &e, &all[nest], others)) continue;
    all[call].epilogue = e;
    all[nest].apart = true;
    pair[call] = (uint32_t)nest + 1;
    pair[nest] = (uint32_t)call + 1;
  }
}

/* The source that an output is stored over, as a key; 0: none. */
static uint64_t overwritten(const Program *p, Val v) {
  const ValuePlace *place = &p->places.at[v];
  return place->home == HOME_buffer || place->home == HOME_state ? memory_key(place) : 0;
}

/* A kernel waits for whoever writes what it reads; one that overwrites a source, for its readers. */
static Order find_waits(const Program *p, Arena *a, const Kernel *all, uint32_t n,
                        const uint32_t *pair) {
  Order order = {.a = a, .all = all, .n = n, .pair = pair}, *o = &order;
  o->after = ARENA_ARRAY(a, PlanWaits, n + 1);
  o->waits = ARENA_ARRAY(a, uint32_t, n + 1);
  uint32_t *writer = ARENA_ARRAY(a, uint32_t, p->places.len); /* by value: kernel + 1 */
  Map overwriter = {.arena = a};                              /* source -> kernel + 1 */
  for (uint32_t i = 0; i < o->n; i++)
    for (uint32_t w = 0; w < o->all[i].writes.len; w++) {
      Val v = o->all[i].writes.at[w];
      writer[v] = i + 1;
      if (overwritten(p, v)) *map_at(&overwriter, overwritten(p, v)) = i + 1;
    }
  for (uint32_t i = 0; i < o->n; i++) {
    const Kernel *k = &o->all[i];
    for (uint32_t r = 0; r < k->reads.len; r++) {
      Val v = k->reads.at[r];
      if (writer[v]) wait_for(o, i, writer[v] - 1);
      if (writer[v] && k->apart && writer[v] != o->pair[i])
        wait_for(o, o->pair[i] - 1, writer[v] - 1); /* the product may do it all */
      uint64_t source = fuse_is_resident(p->g, v) ? overwritten(p, v) : 0;
      uint32_t over = source ? map_get(&overwriter, source) : 0;
      if (over) wait_for(o, over - 1, i);
    }
  }
  return order;
}

PlanWaits *plan_waits(const Program *p, Arena *a) {
  uint32_t *pair = ARENA_ARRAY(a, uint32_t, p->kernels.len + 1);
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    if (!p->kernels.at[i].apart) continue;
    pair[i] = i;
    pair[i - 1] = i + 1;
  }
  return find_waits(p, a, p->kernels.at, p->kernels.len, pair).after;
}

static uint64_t order_key(const Order *o, uint32_t i, bool in_order) {
  uint64_t rest = 1;
  return (in_order || !o->all[i].grads_ready.len ? rest << 32 : 0) | i;
}

static void put_next(Order *o, Program *p, uint32_t next, Heap *ready, bool in_order) {
  check(!o->waits[next], "an epilogue waits for more than its product");
  for (uint32_t i = 0; i < o->after[next].len; i++) {
    uint32_t later = o->after[next].at[i];
    if (--o->waits[later] == 0 && !o->all[later].apart)
      heap_push(ready, order_key(o, later, in_order));
  }
  vec_push(o->a, &p->kernels, o->all[next]);
}

static void order_kernels(Program *p, Fuser *f, bool in_order) {
  Kernel *all = ARENA_ARRAY(f->arena, Kernel, f->items.len + 1);
  uint32_t *pair = ARENA_ARRAY(f->arena, uint32_t, f->items.len + 1);
  for (uint32_t i = 0; i < f->items.len; i++) all[i] = make_kernel(f, &f->items.at[i]);
  pair_epilogues(f, all, f->items.len, pair);
  Order o = find_waits(p, f->arena, all, f->items.len, pair);
  Heap ready = {.arena = f->arena}; /* what completes a gradient before the rest; each by number */
  for (uint32_t i = 0; i < o.n; i++)
    if (!o.waits[i] && !o.all[i].apart) heap_push(&ready, order_key(&o, i, in_order));
  while (ready.len) {
    uint32_t next = (uint32_t)heap_pop(&ready);
    put_next(&o, p, next, &ready, in_order);
    if (o.pair[next]) put_next(&o, p, o.pair[next] - 1, &ready, in_order);
  }
  check(p->kernels.len == o.n, "kernels wait for each other in a circle");
}

static void plan_loops(Program *p, Fuser *f, const ProgramOptions *options) {
  bool *read = ARENA_ARRAY(f->arena, bool, p->places.len + 1);
  for (uint32_t i = 0; i < p->kernels.len; i++)
    for (uint32_t r = 0; r < p->kernels.at[i].reads.len; r++)
      read[p->kernels.at[i].reads.at[r]] = true;
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    Kernel *k = &p->kernels.at[i];
    if (k->kind != KERNEL_call || value_at(p->g, k->call)->op != OP_scan) continue;
    k->loop = plan_loop(p, k, f->arena, options);
    k->loop->read = read[k->call] || f->output[k->call];
  }
}

static void set_lifetimes(Program *p) {
  for (Val v = 1; v < p->places.len; v++) p->places.at[v].first = p->places.at[v].last = -1;
  for (uint32_t i = 0; i < p->kernels.len; i++) {
    const Kernel *k = &p->kernels.at[i];
    for (uint32_t w = 0; w < k->writes.len; w++) {
      ValuePlace *place = &p->places.at[k->writes.at[w]];
      place->first = (int32_t)i - k->apart; /* the product before it may write that */
      place->last = (int32_t)i;
    }
    for (uint32_t r = 0; r < k->reads.len; r++) p->places.at[k->reads.at[r]].last = (int32_t)i;
    if (k->loop) k->loop->scratch.first = k->loop->scratch.last = (int32_t)i;
  }
  for (uint32_t i = 0; i < p->g->outputs.len; i++) { /* stay until the program ends */
    ValuePlace *place = &p->places.at[p->g->outputs.at[i].value];
    bool kept = p->g->outputs.at[i].kind == OUT_result && place->home == HOME_block;
    if (kept) place->last = (int32_t)p->kernels.len - 1;
  }
}

/* What outlives a chunk is alive during all of them. */
static void outlive_chunks(Program *p) {
  int32_t first = (int32_t)p->chunk.first, last = first + (int32_t)p->chunk.count - 1;
  for (Val v = 1; v < p->places.len && p->chunk.count; v++) {
    ValuePlace *place = &p->places.at[v];
    if (place->chunk == CHUNK_own || place->last < first || place->first > last) continue;
    if (place->first > first) place->first = first;
    if (place->last < last) place->last = last;
  }
}

void plan_lay_out(Program *p, Arena *a) {
  set_lifetimes(p);
  outlive_chunks(p);
  plan_in_place(p);
  plan_memory(p, a);
}

void plan_schedule(Program *p, Fuser *f, const ProgramOptions *options) {
  p->g = f->g;
  p->batch_max = options->batch_max;
  make_places(p, f);
  order_kernels(p, f, options->in_order);
  plan_loops(p, f, options);
}
