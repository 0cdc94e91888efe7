/* Results that take the place of an operand. In: kernels in order, lifetimes. Out: ValuePlace.updates: a
   loop nest stores a result over an operand that nobody reads afterwards. Every element that is read must
   be read where it is written or before: in the stage that stores, at the same element; in stages before
   it, within the row of the same outer index, and the result is stored row by row as well. The operand
   may be a result of an earlier stage: that is read at the same outer index only. */
#include "fuse.h"
#include "op.h"

/* The elements that one outer index stores; false: it is no whole number of them. */
static bool row_of(const Nest *n, const Stage *s, Dim *row) {
  *row = dim_of(1);
  for (uint32_t l = 0; l < s->loops; l++)
    if (!dim_mul(*row, n->loops.at[s->first_loop + l].extent, row)) return false;
  return true;
}

static bool in_row(Nest *n, NestIndex at, Dim row) {
  return nest_ix_div(n, at, row) == fuse_outer_index(n);
}

static bool reads_in_time(Nest *n, Val operand, uint32_t stage, const NestRoot *root) {
  Dim row;
  if (!row_of(n, &n->stages.at[stage], &row)) return false;
  for (uint32_t s = 0; s < n->stages.len; s++)
    for (uint32_t i = 0; i < n->stages.at[s].insts; i++) {
      const Inst load = n->insts.at[n->stages.at[s].first_inst + i];
      if (load.kind != INST_load || load.val != operand) continue;
      if (s > stage || (s == stage && load.ix != root->ix)) return false;
      if (s < stage && !(in_row(n, load.ix, row) && in_row(n, root->ix, row))) return false;
    }
  return true;
}

static bool fits(const Program *p, Val operand, Val result, int32_t kernel) {
  const ValuePlace *from = &p->places.at[operand], *to = &p->places.at[result];
  Type a = value_at(p->g, operand)->type, b = value_at(p->g, result)->type;
  Dim n, m;
  return from->home == HOME_block && to->home == HOME_block && from->last == kernel &&
         (from->chunk == CHUNK_own) == (to->chunk == CHUNK_own) && a.dtype == b.dtype &&
         type_elements(a, &n) && type_elements(b, &m) && dim_equal(n, m);
}

static void place_results(Program *p, uint32_t number) {
  Kernel *k = &p->kernels.at[number];
  Nest *n = k->nest;
  for (uint32_t s = 0; s < n->stages.len; s++)
    for (uint32_t i = 0; i < n->stages.at[s].roots; i++) {
      const NestRoot *root = &n->roots.at[n->stages.at[s].first_root + i];
      if (root->kind != ROOT_store || root->row_only) continue;
      for (uint32_t r = 0; r < k->reads.len; r++) {
        Val operand = k->reads.at[r];
        if (operand == root->val || p->seen[operand] == number + 1) continue; /* taken */
        if (k->apart && operand != p->kernels.at[number - 1].call)
          continue; /* read with the product */
        if (!fits(p, operand, root->val, (int32_t)number)) continue;
        if (!reads_in_time(n, operand, s, root)) continue;
        Val first = p->places.at[operand].updates;
        p->places.at[root->val].updates = first ? first : operand;
        p->places.at[root->val].first = (int32_t)number; /* before, the memory was the operand's */
        p->seen[operand] = number + 1;
        break;
      }
    }
}

void plan_in_place(Program *p) {
  memset(p->seen, 0, sizeof *p->seen * (p->g->values.len + 1));
  for (Val v = 1; v < p->places.len; v++) /* buffers and states know theirs */
    if (p->places.at[v].home == HOME_block) p->places.at[v].updates = NO_VAL;
  for (uint32_t i = 0; i < p->kernels.len; i++)
    if (p->kernels.at[i].nest) place_results(p, i);
  p->seen[0] = p->kernels.len + 1; /* walks count on */
}
