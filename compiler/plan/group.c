/* Which roots share a kernel. In: the decided values, in topological order. Out: Fuser.items, each
   with its nest, in an order that respects dependences.

   A root joins the kernel that computes the last thing it reads, or a later one that reads what it
   reads, if both fit into one nest (nest_build.c says whether they do). Afterwards roots that
   nobody outside their stage reads are dropped (pulled instead), and those that stay within one
   outer index are kept in scalars. */
#include "die.h"
#include "fuse.h"
#include "op.h"

enum { MAX_ROOTS = 24, MAX_TRIES = 12 };

static int32_t last_item(const Fuser *f, const ValList *loads) {
  int32_t last = -1;
  for (uint32_t i = 0; i < loads->len; i++)
    if (f->item_of[loads->at[i]] > last) last = f->item_of[loads->at[i]];
  return last;
}

static void add_loads(Fuser *f, Item *item, const ValList *loads) {
  for (uint32_t i = 0; i < loads->len; i++)
    if (!val_list_has(item->loads.at, item->loads.len, loads->at[i]))
      vec_push(f->arena, &item->loads, loads->at[i]);
}

static int32_t new_item(Fuser *f, Val v, bool is_call) {
  Item item = {.is_call = is_call};
  vec_push(f->arena, &item.roots, v);
  vec_push(f->arena, &f->items, item);
  f->item_of[v] = (int32_t)f->items.len - 1;
  return f->item_of[v];
}

/* Worth sharing loops: both read the same data (parameters are small or not read along), or both
   are single numbers. */
static bool has_common_load(const Fuser *f, const Item *item, const ValList *loads) {
  for (uint32_t i = 0; i < loads->len; i++) {
    const Value *x = value_at(f->g, loads->at[i]);
    if (x->op == OP_param || x->type.rank == 0) continue;
    if (val_list_has(item->loads.at, item->loads.len, loads->at[i]) ||
        val_list_has(item->roots.at, item->roots.len, loads->at[i]))
      return true;
  }
  return false;
}

/* What overwrites a source may join a kernel only if no later one reads the old value. */
static bool may_overwrite(const Fuser *f, Val v, uint32_t item) {
  const Output *o = f->output[v];
  for (uint32_t i = item + 1; o && i < f->items.len; i++)
    for (uint32_t k = 0; k < f->items.at[i].loads.len; k++)
      if (fuse_overwrites(f->g, o, f->items.at[i].loads.at[k])) return false;
  return true;
}

static bool try_join(Fuser *f, uint32_t number, Val v) {
  Item *item = &f->items.at[number];
  if (item->is_call || item->roots.len >= MAX_ROOTS || !may_overwrite(f, v, number)) return false;
  Val roots[MAX_ROOTS];
  int most = IR_MAX_RANK, least = IR_MAX_RANK;
  int deepest = 0;
  memcpy(roots, item->roots.at, sizeof *roots * item->roots.len);
  roots[item->roots.len] = v;
  for (uint32_t i = 0; i <= item->roots.len; i++) {
    Domain d = fuse_domain(f->g, roots[i]);
    if (d.n < least) least = d.n;
    if (d.n > deepest) deepest = d.n;
  }
  most = least == deepest && least > 0 ? least - 1 : least;
  for (int outer = most; outer >= 0; outer--) {
    if (outer == 0 && deepest > 1) break; /* whole tensors one after another: nothing gained */
    Nest *n = fuse_build(f, roots, item->roots.len + 1, outer);
    if (!n) continue;
    item->nest = n;
    item->outer = outer;
    vec_push(f->arena, &item->roots, v);
    f->item_of[v] = (int32_t)number;
    return true;
  }
  return false;
}

static void place_root(Fuser *f, Val v) {
  ValList loads = {0};
  fuse_loads(f, v, &loads);
  int32_t last = last_item(f, &loads);
  bool single = value_at(f->g, v)->type.rank == 0 && fuse_domain(f->g, v).n == 0;
  int tries = 0;
  for (uint32_t i = last < 0 ? 0 : (uint32_t)last; f->fuse && i < f->items.len; i++) {
    Item *item = &f->items.at[i];
    if (item->is_call) continue;
    bool both_single = single && fuse_domain(f->g, item->roots.at[0]).n == 0;
    if (!has_common_load(f, item, &loads) && !both_single) continue;
    if (tries++ == MAX_TRIES) break;
    if (try_join(f, i, v)) {
      add_loads(f, item, &loads);
      return;
    }
  }
  int32_t number = new_item(f, v, false);
  Item *item = &f->items.at[number];
  item->outer = fuse_outer_default(f->g, v);
  add_loads(f, item, &loads);
  item->nest = fuse_build(f, item->roots.at, 1, item->outer);
  check(item->nest, "%%%u does not fit into a kernel of its own", v);
}

static void place_call(Fuser *f, Val v) {
  int32_t number = new_item(f, v, true);
  Item *item = &f->items.at[number];
  const Value *x = value_at(f->g, v);
  for (int i = 0; i < x->inputs; i++) {
    Val base = f->base[x->in[i]];
    check(base, "operand %%%u of %%%u is not in memory", x->in[i], v);
    if (!val_list_has(item->loads.at, item->loads.len, base))
      vec_push(f->arena, &item->loads, base);
  }
}

/* A by-product comes from the call. */
static void place_part(Fuser *f, Val v) {
  int32_t number = f->item_of[value_at(f->g, v)->in[0]];
  check(number >= 0 && f->items.at[number].is_call, "%%%u is a part of no call", v);
  vec_push(f->arena, &f->items.at[number].roots, v);
  f->item_of[v] = number;
}

/* ---------- roots that need no memory ---------- */
bool fuse_nest_reads(const Nest *n, Val v, InstKind kind) {
  for (uint32_t s = 0; s < n->stages.len; s++)
    for (uint32_t i = 0; i < n->stages.at[s].insts; i++) {
      const Inst *inst = &n->insts.at[n->stages.at[s].first_inst + i];
      if (inst->kind == kind && inst->val == v) return true;
    }
  return false;
}

static bool read_outside(const Fuser *f, Val v, uint32_t own) {
  for (uint32_t i = 0; i < f->items.len; i++) {
    const Item *item = &f->items.at[i];
    if (i == own) continue;
    if (item->is_call ? val_list_has(item->loads.at, item->loads.len, v)
                      : fuse_nest_reads(item->nest, v, INST_load))
      return true;
  }
  return false;
}

static void drop_root(Item *item, uint32_t r) {
  memmove(&item->roots.at[r], &item->roots.at[r + 1],
          sizeof *item->roots.at * (item->roots.len - r - 1));
  item->roots.len--;
}

/* A stored root that only its own stage reads is pulled there instead. */
static void drop_unread(Fuser *f, uint32_t number) {
  Item *item = &f->items.at[number];
  for (uint32_t r = item->roots.len; r-- > 0;) {
    Val v = item->roots.at[r];
    bool reduces = op_has(value_at(f->g, v)->op, OPF_reduce);
    if (f->keep[v] || reduces || read_outside(f, v, number)) continue;
    if (fuse_nest_reads(item->nest, v, INST_load) || fuse_nest_reads(item->nest, v, INST_row))
      continue;
    drop_root(item, r);
    f->memory[v] = false;
    Nest *n = fuse_build(f, item->roots.at, item->roots.len, item->outer);
    check(n, "kernel does not fit any more without %%%u", v);
    item->nest = n;
  }
}

static void mark_row_only(Fuser *f, uint32_t number) {
  Nest *n = f->items.at[number].nest;
  for (uint32_t r = 0; r < n->roots.len; r++) {
    Val v = n->roots.at[r].val;
    if (f->keep[v] || read_outside(f, v, number) || fuse_nest_reads(n, v, INST_load)) continue;
    n->roots.at[r].row_only = true;
    f->memory[v] = false;
  }
}

void fuse_group(Fuser *f) {
  for (Val v = 1; v < f->g->values.len; v++) f->item_of[v] = -1;
  for (Val v = 1; v < f->g->values.len; v++) {
    if (!f->memory[v] || fuse_is_resident(f->g, v)) continue;
    if (op_has(value_at(f->g, v)->op, OPF_library))
      place_call(f, v);
    else if (value_at(f->g, v)->op == OP_part)
      place_part(f, v);
    else
      place_root(f, v);
  }
  for (uint32_t i = 0; i < f->items.len && f->fuse; i++)
    if (!f->items.at[i].is_call) drop_unread(f, i);
  for (uint32_t i = 0; i < f->items.len && f->fuse; i++)
    if (!f->items.at[i].is_call) mark_row_only(f, i);
}
