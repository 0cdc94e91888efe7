/* Which roots share a kernel. In: the decided values, in topological order. Out: Fuser.items, each
   with its nest, in an order that respects dependences.

   A root joins the kernel that computes the last thing it reads, or a later one that reads what it
   reads, if both fit into one nest (nest_build.c says whether they do). Afterwards roots that
   nobody outside their stage reads are dropped (pulled instead), and those that stay within one
   outer index are kept in scalars. */
#include "die.h"
#include "fuse.h"
#include "op.h"
#include <stdlib.h>

enum { MAX_ROOTS = 24, MAX_TRIES = 12 };

static int32_t last_item(const Fuser *f, const ValList *loads) {
  int32_t last = -1;
  for (uint32_t i = 0; i < loads->len; i++)
    if (f->item_of[loads->at[i]] > last) last = f->item_of[loads->at[i]];
  return last;
}

static void add_loads(Fuser *f, int32_t number, const ValList *loads) {
  Item *item = &f->items.at[number];
  for (uint32_t i = 0; i < loads->len; i++) {
    Val v = loads->at[i];
    if (val_list_has(item->loads.at, item->loads.len, v)) continue;
    vec_push(f->arena, &item->loads, v);
    vec_push(f->arena, &f->readers[v], number);
  }
}

static int32_t new_item(Fuser *f, Val v, bool is_call) {
  Item item = {.is_call = is_call};
  vec_push(f->arena, &item.roots, v);
  vec_push(f->arena, &f->items, item);
  f->item_of[v] = (int32_t)f->items.len - 1;
  return f->item_of[v];
}

typedef struct Candidates {
  int32_t from;    /* the first kernel in question */
  uint16_t region; /* what is computed again keeps to itself: it would be computed too early */
  uint32_t apart;  /* and so do results of an epilogue: a product may compute them */
  ItemList list;
} Candidates;

static void add_candidate(Fuser *f, int32_t number, Candidates *c) {
  if (number < c->from) return;
  const Item *item = &f->items.at[number];
  if (item->is_call || value_at(f->g, item->roots.at[0])->region != c->region) return;
  if (f->apart[item->roots.at[0]] != c->apart) return;
  vec_push(f->arena, &c->list, number);
}

static int by_number(const void *a, const void *b) {
  const int32_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* Kernels from number `from` on that are worth sharing loops with: they read or compute the same data
   (parameters are small or not read along), or all are single numbers. Ascending; may repeat. */
static void find_candidates(Fuser *f, const ValList *loads, bool single, Candidates *c) {
  for (uint32_t i = 0; i < loads->len; i++) {
    Val v = loads->at[i];
    const Value *x = value_at(f->g, v);
    if (x->op == OP_param || x->type.rank == 0) continue;
    for (uint32_t k = 0; k < f->readers[v].len; k++) add_candidate(f, f->readers[v].at[k], c);
    add_candidate(f, f->item_of[v], c);
  }
  for (uint32_t i = 0; single && i < f->singles.len; i++) add_candidate(f, f->singles.at[i], c);
  if (c->list.len) qsort(c->list.at, c->list.len, sizeof *c->list.at, by_number);
}

/* What overwrites a source may join a kernel only if no later one reads the old value. */
static bool may_overwrite(const Fuser *f, Val v, uint32_t item) {
  const Output *o = f->output[v];
  for (uint32_t i = item + 1; o && i < f->items.len; i++)
    for (uint32_t k = 0; k < f->items.at[i].loads.len; k++)
      if (fuse_overwrites(f->g, o, f->items.at[i].loads.at[k])) return false;
  return true;
}

/* Would the kernel have fewer rows with another root, and too few to spread over a device? */
static bool loses_rows(const Fuser *f, const Item *item, int outer) {
  if (outer >= item->outer) return false;
  Domain d = fuse_domain(f->g, item->roots.at[0]);
  int64_t rows = 1;
  for (int i = 0; i < outer; i++) rows *= dim_at(d.extent[i], f->batch_max);
  return rows < f->least_rows;
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
    if (loses_rows(f, item, outer)) break;
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
  Candidates c = {
      .from = last < 0 ? 0 : last, .region = value_at(f->g, v)->region, .apart = f->apart[v]};
  if (f->fuse) find_candidates(f, &loads, single, &c);
  for (uint32_t i = 0; i < c.list.len; i++) {
    int32_t number = c.list.at[i];
    if (i && number == c.list.at[i - 1]) continue;
    if (tries++ == MAX_TRIES) break;
    if (try_join(f, (uint32_t)number, v)) {
      add_loads(f, number, &loads);
      return;
    }
  }
  int32_t number = new_item(f, v, false);
  Item *item = &f->items.at[number];
  item->outer = fuse_outer_default(f->g, v);
  add_loads(f, number, &loads);
  if (fuse_domain(f->g, v).n == 0) vec_push(f->arena, &f->singles, number);
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

/* Who loads each value: 0 nobody, kernel + 1, or SEVERAL. */
#define SEVERAL UINT32_MAX
static void note_reader(uint32_t *reader, Val v, uint32_t item) {
  if (reader[v] != item + 1) reader[v] = reader[v] ? SEVERAL : item + 1;
}

static uint32_t *find_readers(const Fuser *f) {
  uint32_t *reader = ARENA_ARRAY(f->arena, uint32_t, f->g->values.len);
  for (uint32_t i = 0; i < f->items.len; i++) {
    const Item *item = &f->items.at[i];
    for (uint32_t k = 0; item->is_call && k < item->loads.len; k++)
      note_reader(reader, item->loads.at[k], i);
    for (uint32_t k = 1; !item->is_call && k < item->nest->insts.len; k++)
      if (item->nest->insts.at[k].kind == INST_load)
        note_reader(reader, item->nest->insts.at[k].val, i);
  }
  return reader;
}

static bool read_outside(const uint32_t *reader, Val v, uint32_t own) {
  return reader[v] && reader[v] != own + 1;
}

static void drop_root(Item *item, uint32_t r) {
  memmove(&item->roots.at[r], &item->roots.at[r + 1],
          sizeof *item->roots.at * (item->roots.len - r - 1));
  item->roots.len--;
}

/* A stored root that only its own stage reads is pulled there instead. */
static void drop_unread(Fuser *f, uint32_t number, const uint32_t *reader) {
  Item *item = &f->items.at[number];
  for (uint32_t r = item->roots.len; r-- > 0;) {
    Val v = item->roots.at[r];
    bool reduces = op_has(value_at(f->g, v)->op, OPF_reduce);
    if (f->keep[v] || reduces || read_outside(reader, v, number)) continue;
    if (fuse_nest_reads(item->nest, v, INST_load) || fuse_nest_reads(item->nest, v, INST_row))
      continue;
    drop_root(item, r);
    f->memory[v] = false;
    Nest *n = fuse_build(f, item->roots.at, item->roots.len, item->outer);
    check(n, "kernel does not fit any more without %%%u", v);
    item->nest = n;
  }
}

static void mark_row_only(Fuser *f, uint32_t number, const uint32_t *reader) {
  Nest *n = f->items.at[number].nest;
  for (uint32_t r = 0; r < n->roots.len; r++) {
    Val v = n->roots.at[r].val;
    if (f->keep[v] || read_outside(reader, v, number) || fuse_nest_reads(n, v, INST_load)) continue;
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
  if (!f->fuse) return;
  const uint32_t *reader = find_readers(f);
  for (uint32_t i = 0; i < f->items.len; i++)
    if (!f->items.at[i].is_call) drop_unread(f, i, reader);
  reader = find_readers(f);
  for (uint32_t i = 0; i < f->items.len; i++)
    if (!f->items.at[i].is_call) mark_row_only(f, i, reader);
}
